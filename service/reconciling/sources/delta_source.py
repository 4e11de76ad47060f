"""Reads Delta tables below a folder of object storage: folders are namespaces, and a table's versions are its log's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.producer.connectors.source_spi import (
    ConnectorSpec,
    Missing,
    Observation,
    Same,
    ScanFile,
    ScanPlan,
    SourceContent,
    Step,
)
from headwater.producer.content.content_types import DELTA_TABLE, NAMESPACE
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput, LocationForbidden, NamespaceNotFound, SnapshotNotFound, SourceUnreachable
from headwater.schemas.whole_numbers import whole_number
from headwater.service.reconciling.source_secrets import check_secret_ref
from headwater.service.reconciling.sources.delta_planning import planned_files
from headwater.service.reconciling.sources.upstream import check_known
from headwater.service.storage.storage_roots import StorageRoots, is_at_or_below
from headwater.streaming.files.formats.delta_states import delta_state
from headwater.streaming.files.formats.delta_versions import LOG_FOLDER, DeltaVersions, delta_versions, table_id
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.storages import Storages

PROPERTIES = frozenset({"depth"})
DEPTH_DEFAULT, DEPTH_MAX = 2, 8
STEPS_MAX = 1_000
"""Versions that one look goes back."""
HISTORY_MAX = 100
"""Commits after the last checkpoint that one version names."""


class DeltaSource:
    """⚠ What it sends back as `seen` is the newest version, its file, and the table's id: a folder in which another table was
    made has another file of that version, and is read again."""

    def __init__(self, storages: Storages, spec: ConnectorSpec) -> None:
        self._files = storages
        self._root = spec.uri.rstrip("/")
        self._depth = _depth(spec)

    def check(self) -> None:
        """⚠ A root without a single folder is taken for storage that is away: else all tables would be dropped here."""
        if not self._folders(()):
            raise SourceUnreachable(
                f"{self._root[:200]} holds no folder.", field="uri", remedy="Check the storage, or remove it."
            )

    def close(self) -> None: ...

    def namespaces(self) -> Iterator[SourceContent]:
        self.check()
        yield from self._below(())

    def _below(self, parent: KeyPath) -> Iterator[SourceContent]:
        for name in self._folders(parent):
            key = (*parent, name)
            if len(key) < self._depth and not self._is_table(key):
                yield SourceContent(key=key, id="", type=NAMESPACE.name, value={"properties": {}})
                yield from self._below(key)

    def tables(self, namespace: KeyPath) -> Iterator[KeyPath]:
        names = self._folders(namespace)
        if not names and namespace[-1] not in self._folders(namespace[:-1]):
            raise NamespaceNotFound(f"{'/'.join(namespace)[:200]} is no folder any more.", field="namespace")
        for name in names:
            if self._is_table((*namespace, name)):
                yield (*namespace, name)

    def observe(self, key: KeyPath, seen: str) -> Observation | Same | Missing:
        root = self._location(key)
        version, file, known = _parsed(seen)
        if known and self._is_newest(root, version, file):
            return Same()
        versions = delta_versions(self._files, root)
        if versions is None:
            return Missing()
        is_continued = bool(known) and versions.first <= version <= versions.newest and _tag(versions.commit(version)) == file
        id = table_id(self._files, versions, since=version, known=known if is_continued else "")
        first = max(versions.first, versions.newest - STEPS_MAX + 1)
        steps = tuple(_step(versions, one) for one in range(first, versions.newest + 1))
        tag = f"{versions.newest} {_tag(versions.commit(versions.newest))} {id}"
        return Observation(id=id, type=DELTA_TABLE.name, steps=steps, tag=tag, is_whole=first == 0)

    def plan(self, key: KeyPath, version: str, snapshot_id: int | None, filter: bytes) -> ScanPlan:
        """A snapshot is a version of the table; one that is newer than what was observed is not known yet."""
        root, observed = self._location(key), version_of(version)
        number = observed if snapshot_id is None else snapshot_id
        versions = delta_versions(self._files, root) if version == _commit_location(root, observed) else None
        checkpoint = versions.checkpoint_of(number) if versions is not None else None
        is_there = versions is not None and 0 <= number <= min(observed, versions.newest)
        if versions is None or not is_there or (checkpoint is None and versions.first > 0):
            raise SnapshotNotFound(
                f"{'.'.join(key)[:200]} has no version {number} any more.",
                field="snapshot_id",
                remedy="Reconcile its connector, or plan on a newer version.",
            )
        return ScanPlan(number, self._planned(root, versions, number, filter))

    def _planned(self, root: str, versions: DeltaVersions, number: int, filter: bytes) -> Iterator[ScanFile]:
        yield from planned_files(root, delta_state(self._files, root, versions, number), filter)

    def _is_newest(self, root: str, version: int, file: str) -> bool:
        """Two short requests: the version is the file that it was, and the next one is not there."""
        there = self._files.head(_commit_location(root, version))
        return there is not None and _tag(there) == file and self._files.head(_commit_location(root, version + 1)) is None

    def _folders(self, key: KeyPath) -> Sequence[str]:
        found = self._files.folders(self._location(key))
        return [name for name in found if not name.startswith(("_", "."))]

    def _is_table(self, key: KeyPath) -> bool:
        return LOG_FOLDER in self._files.folders(self._location(key))

    def _location(self, key: KeyPath) -> str:
        return "/".join((self._root, *key))


def _step(versions: DeltaVersions, version: int) -> Step:
    """In the fields that Nessie has for Delta tables: commits newest first, down to the checkpoint that they build on."""
    file, checkpoint = versions.commit(version), versions.checkpoint_of(version)
    oldest = max(versions.first, version - HISTORY_MAX + 1, min(version, -1 if checkpoint is None else checkpoint + 1))
    value: Value = {
        "metadata_location_history": [versions.commit(one).location for one in range(version, oldest - 1, -1)],
        "checkpoint_location_history": [] if checkpoint is None else [*versions.checkpoints[checkpoint]],
    }
    return Step(version=file.location, value=value, time=time_text(file.modified) if file.modified else "")


def version_of(location: str) -> int:
    """The version in the name of a commit's file."""
    name = location.rpartition("/")[2].removesuffix(".json")
    return int(name) if name.isdecimal() else -1


def _commit_location(root: str, version: int) -> str:
    return f"{root}/{LOG_FOLDER}/{version:020d}.json"


def _tag(file: FoundFile) -> str:
    return f"{file.size}:{file.modified}:{file.etag or ''}".replace(" ", "")


def _parsed(seen: str) -> tuple[int, str, str]:
    version, _, rest = seen.partition(" ")
    file, _, id = rest.partition(" ")
    return int(version) if version else -1, file, id


def _depth(spec: ConnectorSpec) -> int:
    given = spec.properties.get("depth", str(DEPTH_DEFAULT))
    depth = whole_number(given)
    if depth is None or not DEPTH_DEFAULT <= depth <= DEPTH_MAX:
        raise InvalidInput(
            f"{given[:80]!r} is no depth of folders.",
            field="properties.depth",
            remedy=f"Use {DEPTH_DEFAULT} to {DEPTH_MAX}: {DEPTH_DEFAULT} for uri/namespace/table.",
        )
    return depth


class DeltaFactory:
    """Opens storage with the server's own options, so a request's address is taken only within what its operator allows."""

    planned_types = frozenset({DELTA_TABLE.name})

    def __init__(self, storage_options: Mapping[str, str], roots: StorageRoots) -> None:
        self._storage_options = storage_options
        self._roots = roots

    def check_spec(self, spec: ConnectorSpec) -> None:
        check_known(spec, PROPERTIES)
        _depth(spec)
        if check_secret_ref(spec.secret_ref):
            raise InvalidInput(
                "Delta tables are read with the server's own storage_options.", field="secret_ref", remedy="Leave it out."
            )
        for root in spec.roots:
            self._roots.check(root)
        if not any(is_at_or_below(spec.uri, root) for root in spec.roots):
            raise LocationForbidden(
                f"{spec.uri[:200]!r} is below none of the connector's roots.", field="uri", remedy="Declare its root."
            )

    def open(self, spec: ConnectorSpec, secret: bytes) -> DeltaSource:
        return DeltaSource(Storages(self._storage_options), spec)
