"""Checks the metadata of every table and view that enters a catalog through a commit or a merge of any API.

Below the catalog's storage root the server can read, so it does: the file is there, obeys the size limit, is metadata of the
content's type, names only locations in the root, has the ids that the content names, and its uuid is the content's id. A table
that is new, or that moves, does not lie on another table of the branch (`table_overlap`). Any other location is foreign. The
server does not read it: it is stored as given, and the Iceberg API refuses to load it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import Content, LogRecord
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.commits.conflicts import ConflictKind
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import (
    ICEBERG_TABLE,
    ICEBERG_VIEW,
    AnyContent,
    IcebergTable,
    IcebergView,
    OtherContent,
    from_value,
)
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.plans.snapshot_removals import SnapshotRemoval, snapshot_removal
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import EMPTY, content_id_text
from headwater.schemas.errors import (
    CommitConflict,
    HeadwaterError,
    InvalidInput,
    MalformedMetadata,
    OutcomeUnknown,
    PointerNotFound,
    RequirementFailed,
)
from headwater.service.iceberg.operations.lake_branch import ATTEMPTS_MAX
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataFiles
from headwater.service.storage.locations import is_below, places_of

FILES_MAX = 1_000
"""Metadata files per commit, as many as an Iceberg transaction may have: each one is read before the commit."""

_WithMetadata: TypeAlias = IcebergTable | IcebergView
_TYPES = (ICEBERG_TABLE.name, ICEBERG_VIEW.name)
_NO_ID = -1
"""What Nessie's clients send for "none"."""
_TABLE_IDS = (
    ("snapshot_id", "snapshots", "snapshot-id"),
    ("schema_id", "schemas", "schema-id"),
    ("spec_id", "partition-specs", "spec-id"),
    ("sort_order_id", "sort-orders", "order-id"),
)
_VIEW_IDS = (("version_id", "versions", "version-id"), ("schema_id", "schemas", "schema-id"))


class BranchOfCatalog(msgspec.Struct, frozen=True):
    kernel: RealmKernel
    catalog: Catalog
    pointer: str


class CheckedPuts(msgspec.Struct, frozen=True):
    operations: Sequence[CatalogOperation]
    """Each covered put with the content id that its metadata names."""
    expected_head: str | None = None
    """The commit that the branch must stand at, where tables of its whole state were compared."""
    removal: SnapshotRemoval | None = None
    """Snapshots that tables lose by it: claimed, so that no plan reads them."""


Send: TypeAlias = Callable[[Sequence[CatalogOperation], str | None], Awaitable[CommitOutcome]]
"""Commits operations, if the branch stands at a commit."""


async def commit_checked(
    lakes: Lakes, branch: BranchOfCatalog, operations: Sequence[CatalogOperation], request: RequestKey | str | None, send: Send
) -> CommitOutcome:
    """Checks the puts, and commits. Does both again if the branch has moved in between and its whole state was compared.

    On the event loop, which takes a thread only where a file must be read.
    """
    root, expected_before = branch.catalog.storage_root, None
    if not root or not any(isinstance(one, Put) and _covered(root, one.content) for one in operations):
        return await send(operations, None)
    for _ in range(ATTEMPTS_MAX):
        checked = await asyncio.to_thread(_check_puts, lakes, branch, operations, request)
        try:
            return await send(checked.operations, checked.expected_head)
        except OutcomeUnknown:
            raise
        except HeadwaterError as error:
            if checked.removal is not None:
                await asyncio.to_thread(checked.removal.release)
            is_new = checked.expected_head not in (None, expected_before)
            if not (is_new and isinstance(error, CommitConflict) and _says_moved(error)):
                raise
            expected_before = checked.expected_head
    raise RequirementFailed("Others kept committing to the branch.", remedy="Try again.")


def _check_puts(
    lakes: Lakes, branch: BranchOfCatalog, operations: Sequence[CatalogOperation], request: RequestKey | str | None
) -> CheckedPuts:
    try:
        return _Checks(lakes, branch).run(operations)
    except PointerNotFound:
        return CheckedPuts(operations, EMPTY.hex())  # the commit says which branch there is not
    except HeadwaterError:
        if find_request(branch.kernel, branch.pointer, request) is None:
            raise
        # ⚠ It has landed before, and its files may be gone since: the commit returns that outcome.
        return CheckedPuts(operations)


def _says_moved(conflict: CommitConflict) -> bool:
    conflicts = conflict.facts.get("conflicts")
    details = conflicts if isinstance(conflicts, list) else []
    return any(isinstance(one, dict) and one.get("kind") == ConflictKind.UNEXPECTED_HASH for one in details)


def check_rules(lakes: Lakes, catalog: Catalog, rules: MergeRules) -> MergeRules:
    """The contents that a merge resolves conflicts with."""
    for key, rule in rules.by_key.items():
        content = rule.resolved
        if isinstance(content, Content):
            typed = _covered(catalog.storage_root, OtherContent(content.type, content.value))
            if typed is not None:
                file = _checked_file(lakes.metadata_of(catalog), typed)
                _require_uuid(file, content_id_text(content.content_id), f"resolved content of {'.'.join(key)}")
    return rules


class _CheckedPut(msgspec.Struct, frozen=True):
    position: int
    put: Put
    file: MetadataFile
    is_table: bool

    @property
    def key(self) -> KeyPath:
        return tuple(self.put.key)


class _Checks:
    """The checks of one commit."""

    def __init__(self, lakes: Lakes, branch: BranchOfCatalog) -> None:
        self._metadata = lakes.metadata_of(branch.catalog)
        self._catalog = branch.catalog
        self._lakes = lakes
        self._branch = branch

    def run(self, operations: Sequence[CatalogOperation]) -> CheckedPuts:
        root = self._catalog.storage_root
        covered = {
            position: (one, content)
            for position, one in enumerate(operations)
            if isinstance(one, Put) and (content := _covered(root, one.content)) is not None
        }
        if len(covered) > FILES_MAX:
            raise InvalidInput(
                f"the commit puts {len(covered)} tables and views below the storage root, whose metadata must be read.",
                field="operations",
                remedy=f"Put at most {FILES_MAX} of them in one commit.",
            )
        puts = [
            _CheckedPut(position, put, _checked_file(self._metadata, content), isinstance(content, IcebergTable))
            for position, (put, content) in covered.items()
        ]
        newest = PointerLog(self._branch.kernel, self._branch.pointer).head().newest
        there = Snapshots(self._branch.kernel, self._catalog.id).get(newest, [one.key for one in puts])
        checked = list(operations)
        for one in puts:
            standing = None if _id_is_known(one.put, one.file) else there.get(one.key)
            checked[one.position] = self._with_content_id(one.put, one.file, standing, one.position)
        wanted = {one.key: self._new_places(one.file, there.get(one.key)) for one in puts if one.is_table}
        head = self._check_places(newest, wanted, operations)
        return CheckedPuts(checked, head, self._claimed([one for one in puts if one.is_table], there))

    def _claimed(self, puts: Sequence[_CheckedPut], there: Mapping[KeyPath, ContentEntry]) -> SnapshotRemoval | None:
        """⚠ A writer that puts metadata without some snapshots deletes their files next: refused while a plan reads them."""
        lost: dict[str, list[int]] = {}
        for one in puts:
            before = there.get(one.key)
            content = None if before is None else _covered(self._catalog.storage_root, OtherContent(before.type, before.value))
            if before is not None and isinstance(content, IcebergTable):
                lost[before.content_id] = self._metadata.lost_snapshots(content.metadata_location, one.file)
        if not any(lost.values()):
            return None
        with snapshot_removal(self._branch.kernel) as removal:
            for content_id, ids in lost.items():
                if ids:
                    removal.claim(content_id, ids)
        return removal

    def _check_places(
        self, newest: LogRecord, wanted: Mapping[KeyPath, Sequence[str]], operations: Sequence[CatalogOperation]
    ) -> str | None:
        branch = parse_reference_pointer(newest.entry.pointer)
        if branch is None or not any(wanted.values()):
            return None
        freed = {tuple(one.key) for one in operations if isinstance(one, Delete)}
        freed |= {tuple(one.from_key) for one in operations if isinstance(one, Rename) and tuple(one.key) in wanted}
        return self._lakes.branch_of(self._branch.kernel, self._catalog, branch.name).check_places(newest, wanted, freed)

    def _new_places(self, file: MetadataFile, there: ContentEntry | None) -> list[str]:
        """Where the table has files, without the places that it had before."""
        places = list(places_of(file.table["location"], file.table["properties"]))
        before = None if there is None else _covered(self._catalog.storage_root, OtherContent(there.type, there.value))
        if not isinstance(before, IcebergTable):
            return places
        folder = before.metadata_location.rpartition("/")[0]
        if places == [folder.removesuffix("/metadata")]:
            return []
        try:
            table = self._metadata.load(before.metadata_location).table
        except HeadwaterError:  # its metadata is gone: nothing proves where it was
            return places
        had = set(places_of(table["location"], table["properties"]))
        return [place for place in places if place not in had]

    def _with_content_id(self, put: Put, file: MetadataFile, there: ContentEntry | None, position: int) -> Put:
        """⚠ A new content gets the uuid as its id, and the commit refuses the put if the key holds a content of another id. A
        content that was given another id before, by a client without access to the file, keeps it while its uuid stays."""
        if put.content_id is not None:
            _require_uuid(file, put.content_id.lower(), f"operations[{position}].content_id")
        if there is None or there.content_id == file.uuid or not self._has_uuid(there, file.uuid):
            return msgspec.structs.replace(put, content_id=file.uuid)
        return put if put.expected_content_id else msgspec.structs.replace(put, expected_content_id=there.content_id)

    def _has_uuid(self, there: ContentEntry, uuid: str) -> bool:
        content = _covered(self._catalog.storage_root, OtherContent(there.type, there.value))
        if content is None:
            return False
        try:
            return _checked_file(self._metadata, content).uuid == uuid
        except HeadwaterError:  # its metadata is gone: nothing proves that it is the same table
            return False


def _covered(root: str, content: AnyContent) -> _WithMetadata | None:
    """The content, if it is a table or view whose metadata lies below the root."""
    if isinstance(content, OtherContent) and content.type in _TYPES:
        content = from_value(content.type, content.value)
    if isinstance(content, IcebergTable | IcebergView) and is_below(content.metadata_location, root):
        return content
    return None


def _id_is_known(put: Put, file: MetadataFile) -> bool:
    """Whether it does not matter here what the key holds."""
    return put.must_not_exist or put.expected_content_id == file.uuid


def _checked_file(metadata: MetadataFiles, content: _WithMetadata) -> MetadataFile:
    is_view = isinstance(content, IcebergView)
    file = metadata.load_for_commit(content.metadata_location, is_view=is_view)
    parts = file.view if is_view else file.table
    for field, part, id_field in _VIEW_IDS if is_view else _TABLE_IDS:
        id = getattr(content, field)
        if id not in (None, _NO_ID) and all(one[id_field] != id for one in parts[part]):
            raise MalformedMetadata(
                f"{file.location[:200]} has no {id_field} {id}.", field=field, remedy="Send the ids that the metadata has."
            )
    return file


def _require_uuid(file: MetadataFile, content_id: str, field: str) -> None:
    if content_id != file.uuid:
        raise InvalidInput(
            f"the content id is {content_id[:40]}, but the uuid in {file.location[:200]} is {file.uuid}.",
            field=field,
            remedy="Leave the content id out, or send metadata of that table or view.",
        )
