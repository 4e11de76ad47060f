"""Reads an Iceberg REST catalog: namespaces, tables and views, polled; a table's versions from its metadata log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from headwater.producer.connectors.source_spi import ConnectorSpec, Missing, Observation, Same, SourceContent, Step
from headwater.producer.content.content_types import ICEBERG_TABLE, ICEBERG_VIEW, NAMESPACE
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import NamespaceNotFound, SourceRefused
from headwater.schemas.whole_numbers import whole_number
from headwater.service.reconciling.sources.upstream import (
    Listing,
    Upstream,
    check_known,
    check_uri,
    decoded,
    log_in,
    refused,
)

PROPERTIES = frozenset({"warehouse", "prefix", "scope", "views"})
SEPARATOR = "\x1f"
DEPTH_MAX = 16
VERSIONS_KEPT, VERSIONS_KEPT_DEFAULT = "write.metadata.previous-versions-max", 100
"""As Iceberg has it."""


class _Config(msgspec.Struct, frozen=True):
    overrides: dict[str, str] = {}
    defaults: dict[str, str] = {}


class _Namespaces(msgspec.Struct, frozen=True, rename={"next_page_token": "next-page-token"}):
    namespaces: list[list[str]]
    next_page_token: str | None = None

    @property
    def names(self) -> Sequence[object]:
        return self.namespaces


class _Identifier(msgspec.Struct, frozen=True):
    namespace: list[str]
    name: str


class _Identifiers(msgspec.Struct, frozen=True, rename={"next_page_token": "next-page-token"}):
    identifiers: list[_Identifier]
    next_page_token: str | None = None

    @property
    def names(self) -> Sequence[object]:
        return self.identifiers


class _Properties(msgspec.Struct, frozen=True):
    properties: dict[str, str] | None = None


class _LogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_file: str
    timestamp_ms: int


class _SnapshotEntry(msgspec.Struct, frozen=True, rename="kebab"):
    snapshot_id: int
    timestamp_ms: int


class _TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    table_uuid: str
    last_updated_ms: int = 0
    current_schema_id: int | None = None
    default_spec_id: int | None = None
    default_sort_order_id: int | None = None
    current_snapshot_id: int | None = None
    metadata_log: list[_LogEntry] = []
    snapshot_log: list[_SnapshotEntry] = []
    properties: dict[str, str] | None = None


class _Table(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_location: str
    metadata: _TableMetadata


class _ViewVersion(msgspec.Struct, frozen=True, rename="kebab"):
    version_id: int
    schema_id: int | None = None


class _ViewMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    view_uuid: str
    current_version_id: int
    versions: list[_ViewVersion] = []


class _View(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_location: str
    metadata: _ViewMetadata


class IcebergSource:
    def __init__(self, upstream: Upstream, spec: ConnectorSpec, secret: bytes) -> None:
        self._upstream = upstream
        log_in(upstream, secret, "/v1/oauth/tokens", spec.properties.get("scope", "catalog"))
        self._prefix = spec.properties.get("prefix", "")
        if not self._prefix:
            warehouse = spec.properties.get("warehouse", "")
            config = upstream.read("/v1/config", _Config, {"warehouse": warehouse} if warehouse else None)
            self._prefix = config.overrides.get("prefix", config.defaults.get("prefix", ""))
        self._has_views = spec.properties.get("views", "true") == "true"

    def check(self) -> None:
        self._upstream.read(self._path("namespaces"), _Namespaces, {"pageSize": 1, "pageToken": ""})

    def close(self) -> None:
        self._upstream.close()

    def namespaces(self) -> Iterator[SourceContent]:
        yield from self._below(())

    def _below(self, parent: KeyPath) -> Iterator[SourceContent]:
        if len(parent) > DEPTH_MAX:
            raise SourceRefused(f"namespaces nest more than {DEPTH_MAX} deep.", field="uri")
        query = {"parent": SEPARATOR.join(parent)} if parent else {}
        for page in self._pages(self._path("namespaces"), query, _Namespaces):
            for levels in page.namespaces:
                key = tuple(levels)
                if key[: len(parent)] != parent or len(key) != len(parent) + 1:
                    raise SourceRefused(f"{key!r} was listed as a child of {parent!r}.", field="uri")
                answer = self._upstream.get(self._path("namespaces", _levels(key)))
                if answer.status_code == httpx.codes.NOT_FOUND:
                    continue
                if answer.status_code != httpx.codes.OK:
                    raise refused("namespace", answer)
                properties = decoded("namespace", answer, _Properties).properties or {}
                yield SourceContent(key=key, id="", type=NAMESPACE.name, value={"properties": properties})
                yield from self._below(key)

    def tables(self, namespace: KeyPath) -> Iterator[KeyPath]:
        for kind in ("tables", "views") if self._has_views else ("tables",):
            for page in self._pages(self._path("namespaces", _levels(namespace), kind), {}, _Identifiers):
                for one in page.identifiers:
                    if tuple(one.namespace) != namespace:
                        raise SourceRefused(f"{one.namespace!r} was listed in {namespace!r}.", field="uri")
                    yield (*namespace, one.name)

    def observe(self, key: KeyPath, seen: str) -> Observation | Same | Missing:
        namespace, name = key[:-1], key[-1]
        headers = {"if-none-match": seen} if seen else {}
        table = self._upstream.get(self._path("namespaces", _levels(namespace), "tables", name), headers=headers)
        if table.status_code == httpx.codes.NOT_MODIFIED:
            return Same()
        if table.status_code == httpx.codes.OK:
            return _table(decoded("table", table, _Table), table.headers.get("etag", ""))
        if table.status_code != httpx.codes.NOT_FOUND:
            raise refused("table", table)
        if not self._has_views:
            return Missing()
        view = self._upstream.get(self._path("namespaces", _levels(namespace), "views", name))
        if view.status_code == httpx.codes.NOT_FOUND:
            return Missing()
        if view.status_code != httpx.codes.OK:
            raise refused("view", view)
        return _view(decoded("view", view, _View))

    def _pages(self, path: str, query: dict[str, str], kind: Any) -> Iterator[Any]:
        """⚠ To the end, or an error: what a short listing leaves out would be dropped here."""
        listing, token = Listing(path), ""
        while True:
            answer = self._upstream.get(path, {**query, "pageToken": token, "pageSize": 1_000})
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise NamespaceNotFound(f"{path}: the source has no such namespace.", field="namespace")
            if answer.status_code != httpx.codes.OK:
                raise refused(path, answer)
            page = decoded(path, answer, kind)
            yield page
            token = listing.next_page(page.next_page_token, len(page.names)) or ""
            if not token:
                return

    def _path(self, *parts: str) -> str:
        prefix = f"/{self._prefix}" if self._prefix else ""
        return f"/v1{prefix}/" + "/".join(quote(part, safe="") for part in parts)


def _levels(key: Sequence[str]) -> str:
    return SEPARATOR.join(key)


def _table(table: _Table, tag: str) -> Observation:
    """Versions as far back as the metadata log reaches; of earlier ones only what the snapshot log says of their time."""
    metadata = table.metadata
    earlier = [
        Step(version=one.metadata_file, value=_earlier(one, metadata.snapshot_log), time=_time(one.timestamp_ms))
        for one in metadata.metadata_log
        if one.metadata_file != table.metadata_location
    ]
    snapshot = metadata.current_snapshot_id
    facts = {
        "metadata_location": table.metadata_location,
        "snapshot_id": None if snapshot == -1 else snapshot,
        "schema_id": metadata.current_schema_id,
        "spec_id": metadata.default_spec_id,
        "sort_order_id": metadata.default_sort_order_id,
    }
    value = {name: fact for name, fact in facts.items() if fact is not None}
    newest = Step(version=table.metadata_location, value=value, time=_time(metadata.last_updated_ms))
    is_whole = len(metadata.metadata_log) < _versions_kept(metadata.properties or {})
    return Observation(id=metadata.table_uuid, type=ICEBERG_TABLE.name, steps=(*earlier, newest), tag=tag, is_whole=is_whole)


def _versions_kept(properties: Mapping[str, str]) -> int:
    """How many versions the metadata log keeps: a longer log has lost its beginning."""
    given = whole_number(properties.get(VERSIONS_KEPT, ""))
    return VERSIONS_KEPT_DEFAULT if given is None else given


def _earlier(entry: _LogEntry, snapshots: Sequence[_SnapshotEntry]) -> Value:
    known = [one.snapshot_id for one in snapshots if one.timestamp_ms <= entry.timestamp_ms]
    return {"metadata_location": entry.metadata_file, **({"snapshot_id": known[-1]} if known else {})}


def _view(view: _View) -> Observation:
    metadata = view.metadata
    current = next((one for one in metadata.versions if one.version_id == metadata.current_version_id), None)
    value: Value = {"metadata_location": view.metadata_location, "version_id": metadata.current_version_id}
    if current is not None and current.schema_id is not None:
        value["schema_id"] = current.schema_id
    step = Step(version=view.metadata_location, value=value)
    return Observation(id=metadata.view_uuid, type=ICEBERG_VIEW.name, steps=(step,))


def _time(milliseconds: int) -> str:
    return time_text(milliseconds * 1_000) if milliseconds > 0 else ""


def check_spec(spec: ConnectorSpec) -> None:
    check_uri(spec)
    check_known(spec, PROPERTIES)
