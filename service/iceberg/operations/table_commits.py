"""Commits updates of one or more tables together: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import msgspec

from headwater.persistence.clock import now_millis
from headwater.producer.commits.operations import CatalogOperation, Put, Unchanged
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.plans.snapshot_removals import SnapshotRemoval, snapshot_removal
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, InvalidInput, RequirementFailed
from headwater.service.iceberg.metadata.requirements import check_requirements
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.table_builder import encoded, updated
from headwater.service.iceberg.metadata.table_requests import (
    AddSnapshot,
    AssertCreate,
    RemoveSnapshots,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetStatistics,
    TableRequirement,
    TableUpdate,
    read_requirements,
    read_updates,
)
from headwater.service.iceberg.metadata.table_snapshots import removed_snapshots
from headwater.service.iceberg.operations.lake_branch import TABLE, BranchStep, CommitAuthor, LakeBranch, LakeState, shown
from headwater.service.iceberg.operations.metadata_files import MetadataFile
from headwater.service.iceberg.operations.tables import metadata_file_response, table_content
from headwater.service.iceberg.operations.update_headers import headers_of
from headwater.service.storage.locations import Warehouse, places_of

TABLES_MAX = 1_000


class TableChange(msgspec.Struct, frozen=True):
    """What one table shall become, checked as far as that needs no table."""

    key: KeyPath
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    sent: Sequence[msgspec.Raw]

    @property
    def creates(self) -> bool:
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)


def table_change(
    branch: LakeBranch, key: KeyPath, requirements: Sequence[msgspec.Raw], updates: Sequence[msgspec.Raw]
) -> TableChange:
    change = TableChange(key, read_requirements(requirements), read_updates(updates), updates)
    _check_locations(branch.metadata.warehouse, change.updates)
    return change


def update_table(branch: LakeBranch, caller: CommitAuthor, change: TableChange) -> MetadataFile:
    with snapshot_removal(branch.kernel) as removal:

        def judge(state: LakeState) -> BranchStep:
            return _judge(branch, state, [change], removal)

        return metadata_file_response(branch, branch.change(caller, [change.key], judge))


def change_table(
    branch: LakeBranch, caller: CommitAuthor, key: KeyPath, choose_updates: Callable[[Plain], Sequence[msgspec.Raw]]
) -> None:
    """⚠ The updates are chosen again for every attempt, by the very metadata that the commit replaces."""

    with snapshot_removal(branch.kernel) as removal:

        def judge(state: LakeState) -> BranchStep:
            location = str(state.require_table(key).value["metadata_location"])
            change = table_change(branch, key, (), choose_updates(branch.load_metadata(key, location).table))
            return _judge(branch, state, [change], removal)

        branch.change(caller, [key], judge)


def update_tables(branch: LakeBranch, caller: CommitAuthor, changes: Sequence[TableChange]) -> None:
    """⚠ One commit and one Change, however many tables."""
    if not 1 <= len(changes) <= TABLES_MAX:
        raise InvalidInput(f"A transaction of {len(changes)} tables.", field="table-changes", remedy=f"Send 1 to {TABLES_MAX}.")
    keys = [change.key for change in changes]
    if len(set(keys)) != len(keys):
        raise InvalidInput("A table occurs twice.", field="table-changes", remedy="Send all updates of a table together.")

    with snapshot_removal(branch.kernel) as removal:

        def judge(state: LakeState) -> BranchStep:
            return _judge(branch, state, changes, removal)

        branch.change(caller, keys, judge)


def _judge(branch: LakeBranch, state: LakeState, changes: Sequence[TableChange], removal: SnapshotRemoval) -> BranchStep:
    """All requirements are checked before the first file is written."""
    made = [_made(branch, state, change) for change in changes]
    for change, (base, metadata, _) in zip(changes, made, strict=True):
        if any(isinstance(update, RemoveSnapshots) for update in change.updates) and base is not None:
            gone = removed_snapshots(base.table, metadata)
            if gone:
                removal.claim(state.require_table(change.key).content_id, gone)
    places = {one.key: _new_places(base, metadata) for one, (base, metadata, _) in zip(changes, made, strict=True)}
    head = branch.check_places(state.at, places)
    operations: list[CatalogOperation] = []
    files: list[MetadataFile] = []
    written: list[str] = []
    try:
        for change, (base, metadata, before) in zip(changes, made, strict=True):
            if base is not None and before is not None and not change.updates:  # it only asks whether requirements hold
                operations.append(Unchanged(change.key, expected=before))
                files.append(base)
                continue
            previous = None if base is None else base.location
            json = encoded(metadata)
            file = branch.metadata.write(json, metadata["location"], metadata["properties"], previous, metadata)
            files.append(file)
            written.append(file.location)
            operations.append(_put(change, file, before))
    except HeadwaterError:
        for location in written:
            branch.metadata.remove(location)
        raise
    names = ", ".join(shown(change.key) for change in changes[:5]) + (" …" if len(changes) > 5 else "")
    creates = len(changes) == 1 and changes[0].creates
    verb, operation = ("Create", "create-table") if creates else ("Update", "update-table")
    headers = headers_of(operation, [(change.key, change.sent) for change in changes])
    return BranchStep(operations, f"{verb} table {names}", headers, written, files[0], head)


def _put(change: TableChange, file: MetadataFile, before: IcebergTable | None) -> Put:
    content = table_content(file)
    if before is None:
        return Put(change.key, content, must_not_exist=True, content_id=str(UUID(file.table["table-uuid"])))
    return Put(change.key, content, expected=before)


def _made(branch: LakeBranch, state: LakeState, change: TableChange) -> tuple[MetadataFile | None, Plain, IcebergTable | None]:
    """The file that the table has, its new metadata, and the content that it replaces."""
    if change.creates:
        found = state.get(change.key)
        if found is not None and found.type == TABLE:
            raise RequirementFailed(f"Requirement failed: table already exists: {shown(change.key)}", field="assert-create")
        state.require_free(change.key, TABLE)
        return None, updated(None, None, _with_location(branch, change), now_millis()), None
    before = msgspec.convert(state.require_table(change.key).value, IcebergTable)
    base = branch.load_metadata(change.key, before.metadata_location)
    check_requirements(change.requirements, base.table)
    return base, updated(base.table, base.location, change.updates, now_millis()), before


def _new_places(base: MetadataFile | None, metadata: Plain) -> list[str]:
    """Where the table has files from now on and had none before."""
    before = set() if base is None else set(places_of(base.table["location"], base.table["properties"]))
    return [place for place in places_of(metadata["location"], metadata["properties"]) if place not in before]


def _with_location(branch: LakeBranch, change: TableChange) -> Sequence[TableUpdate]:
    if any(isinstance(update, SetLocation) for update in change.updates):
        return change.updates
    return (*change.updates, SetLocation(location=branch.metadata.warehouse.new_location(change.key)))


def _check_locations(warehouse: Warehouse, updates: Iterable[TableUpdate]) -> None:
    """Everything that names a place."""
    for update in updates:
        match update:
            case SetLocation():
                warehouse.check(update.location)
            case SetProperties():
                warehouse.check_properties(update.updates)
            case AddSnapshot(snapshot=snapshot):
                for manifest in [snapshot.get("manifest-list"), *(snapshot.get("manifests") or ())]:
                    if manifest is not None:
                        warehouse.check(manifest, "snapshot.manifest-list")
            case SetStatistics(statistics=statistics):
                warehouse.check(statistics.get("statistics-path", ""), "statistics.statistics-path")
            case SetPartitionStatistics(partition_statistics=statistics):
                warehouse.check(statistics.get("statistics-path", ""), "partition-statistics.statistics-path")
