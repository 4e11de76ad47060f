"""Connectors of a realm, as records under the pointer `connectors`. A destination belongs to one connector."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.index import encode_key
from headwater.persistence.records.records import (
    PAGE_RECORDS_MAX,
    DeleteRecord,
    Expect,
    PutRecord,
    Record,
    RecordsRequest,
    RecordType,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.access.named_records import NamedRecords, unchanged
from headwater.producer.access.writing import (
    WriteMeta,
    Written,
    check_name,
    check_properties,
    version_of,
)
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.catalogs.storage_claims import require_outside_of_warehouses
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.connectors.source_spi import ConnectorSpec, SourceFactories, names
from headwater.producer.json_safety import check_text
from headwater.producer.pointer_names import CONNECTORS, branch_pointer
from headwater.schemas.change import KeyPath, Kind, Value
from headwater.schemas.errors import Conflict, InvalidInput

CONNECTOR = RecordType("CONNECTOR", 1)
NAMES: KeyPath = ("names",)
CONNECTORS_MAX = 1_000
"""Of one realm."""
ROOTS_MAX = 100
INTERVAL_SECONDS_MIN, INTERVAL_SECONDS_MAX = 1, 86_400
TEXT_BYTES_MAX = 4_096


class ConnectorStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    """Nothing is read from the source; the destination stays its own."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below `path` on every branch of the catalog belongs to the connector, which commits to `branch`."""

    catalog: str
    catalog_id: int
    branch: str
    path: KeyPath = ()

    @property
    def pointer(self) -> str:
        return branch_pointer(self.catalog_id, self.branch)

    def overlaps(self, catalog_id: int, path: KeyPath) -> bool:
        shared = min(len(self.path), len(path))
        return self.catalog_id == catalog_id and self.path[:shared] == path[:shared]


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    spec: ConnectorSpec
    destination: Destination
    status: ConnectorStatus = ConnectorStatus.ACTIVE
    interval_seconds: int = 30
    description: str = ""
    id: str = ""
    version: str = ""

    @property
    def author(self) -> str:
        return f"connector:{self.name}"


class Connectors:
    """The connectors of one realm instance. Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel, factories: SourceFactories) -> None:
        self._kernel = kernel
        self._records = NamedRecords(kernel, CONNECTORS, "connector", NAMES)
        self._factories = factories

    def get(self, name: str) -> Connector:
        return connector_of(self._records.read(name))

    def list(self, *, after: str = "", limit: int = PAGE_RECORDS_MAX) -> Sequence[Connector]:
        """In order of name, after `after`."""
        return [connector_of(record) for record in self._records.page(after, limit)]

    def seq(self) -> int:
        return self._records.state().seq

    def create(
        self,
        name: str,
        spec: ConnectorSpec,
        *,
        catalog: str,
        branch: str = "",
        path: KeyPath = (),
        interval_seconds: int = 30,
        description: str = "",
        paused: bool = False,
        meta: WriteMeta,
    ) -> Written[Connector]:
        """The spec is checked by its factory. `Conflict` if another connector's destination overlaps."""
        there = Catalogs(self._kernel).get(catalog)
        if path:
            encode_key(path)  # refuses what is not a key
        branch = branch or there.default_branch
        Catalogs(self._kernel).references(there).get(branch)
        connector = Connector(
            name=check_name(name, "connector"),
            spec=self.check_spec(spec),
            destination=Destination(catalog=there.name, catalog_id=there.id, branch=branch, path=tuple(path)),
            status=ConnectorStatus.PAUSED if paused else ConnectorStatus.ACTIVE,
            interval_seconds=_check_interval(interval_seconds),
            description=check_text(description, "description", TEXT_BYTES_MAX),
        )
        outcome = self._kernel.committer.commit(CONNECTORS, _CreateConnector(connector, meta))
        return Written(value=self.get(name), outcome=outcome)

    def update(
        self,
        name: str,
        *,
        status: ConnectorStatus | None = None,
        interval_seconds: int | None = None,
        description: str | None = None,
        properties: dict[str, str] | None = None,
        secret_ref: str | None = None,
        version: str | None = None,
        meta: WriteMeta,
    ) -> Written[Connector]:
        """Source, address and destination stay: another one is another connector."""
        record = self._records.read(name)
        there = connector_of(record)
        spec = msgspec.structs.replace(
            there.spec,
            properties=there.spec.properties if properties is None else properties,
            secret_ref=there.spec.secret_ref if secret_ref is None else secret_ref,
        )
        changed = msgspec.structs.replace(
            there,
            spec=self.check_spec(spec) if spec != there.spec else spec,
            status=there.status if status is None else status,
            interval_seconds=there.interval_seconds if interval_seconds is None else _check_interval(interval_seconds),
            description=there.description if description is None else check_text(description, "description", TEXT_BYTES_MAX),
        )
        expect = unchanged(record, version)
        put = PutRecord(type=CONNECTOR, key=self._records.key(name), value=_value(changed), expect=expect)
        outcome = self._records.commit([put], meta, f"Update connector {name}")
        return Written(value=self.get(name), outcome=outcome)

    def delete(self, name: str, *, version: str | None = None, meta: WriteMeta) -> CommitOutcome:
        """Remove the connector. What it has committed stays, and its destination is free again."""
        record = self._records.read(name)
        expect = unchanged(record, version)
        delete = DeleteRecord(key=self._records.key(name), expect=expect)
        return self._records.commit([delete], meta, f"Remove connector {name}")

    def check_spec(self, spec: ConnectorSpec) -> ConnectorSpec:
        factory = self._factories.get(spec.source)
        if factory is None:
            raise InvalidInput(
                f"{spec.source[:80]!r} is not a kind of source.",
                field="source",
                remedy=f"Use one of {', '.join(names(self._factories))}.",
            )
        check_text(spec.uri, "uri", TEXT_BYTES_MAX, blank=False)
        check_text(spec.secret_ref, "secret_ref", TEXT_BYTES_MAX)
        check_properties(spec.properties)
        if not 1 <= len(spec.roots) <= ROOTS_MAX:
            raise InvalidInput(
                "a connector declares where the files of its tables may lie.",
                field="roots",
                remedy=f"Name 1 to {ROOTS_MAX} locations, e.g. s3://lake/shop/.",
            )
        for root in spec.roots:
            check_text(root, "roots", TEXT_BYTES_MAX, blank=False)
            require_outside_of_warehouses(self._kernel, root)
        factory.check_spec(spec)
        return spec


class _CreateConnector:
    """⚠ Destinations are compared within the commit: of two connectors made at once, one is refused."""

    kind = Kind.COMMIT
    keys_to_read: tuple[bytes, ...] = ()

    def __init__(self, connector: Connector, meta: WriteMeta) -> None:
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(meta.request_id)
        self._connector = connector
        self._meta = check_meta(CommitMeta(meta.author, meta.message or f"Add connector {connector.name}", meta.headers))
        self._content_id = uuid.uuid4().bytes

    def plan(self, draft: Draft) -> Plan | None:
        others = [draft.content(value).value for _, value in draft.index.under(NAMES)]
        if len(others) >= CONNECTORS_MAX:
            raise Conflict(f"the realm has {len(others)} connectors.", field="connector", remedy="Remove one first.")
        mine = self._connector.destination
        for value in others:
            other = msgspec.convert(value, Connector)
            if other.name != self._connector.name and other.destination.overlaps(mine.catalog_id, mine.path):
                raise Conflict(
                    f"the destination overlaps that of connector {other.name!r}.",
                    field="path",
                    remedy="Choose a path that is neither above nor below it.",
                    connector=other.name,
                )
        put = PutRecord(
            type=CONNECTOR,
            key=(*NAMES, self._connector.name),
            value=_value(self._connector),
            expect=Expect.ABSENT,
            content_id=self._content_id,
        )
        meta = self._meta
        request = RecordsRequest(operations=[put], author=meta.author, message=meta.message, headers=meta.headers)
        return request.plan(draft)


def connector_of(record: Record) -> Connector:
    return msgspec.convert(record.value | {"id": record.content_id.hex(), "version": version_of(record)}, Connector)


def _value(connector: Connector) -> Value:
    value: Value = msgspec.to_builtins(connector)
    return {name: field for name, field in value.items() if name not in ("id", "version")}


def _check_interval(seconds: int) -> int:
    if not INTERVAL_SECONDS_MIN <= seconds <= INTERVAL_SECONDS_MAX:
        raise InvalidInput(
            f"{seconds} seconds between two reconciliations.",
            field="interval_seconds",
            remedy=f"Use {INTERVAL_SECONDS_MIN} to {INTERVAL_SECONDS_MAX}.",
        )
    return seconds
