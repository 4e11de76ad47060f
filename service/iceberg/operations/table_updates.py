"""Table metadata, requirements and updates enter; the metadata that they make leaves, or what does not hold. No files.

PyIceberg applies the updates. What it leaves to the client is done here: ids of schemas, specs and orders that exist already
are used again, ids that are taken by others are given anew, and `-1` means the last one that was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from headwater.schemas.errors import MalformedMetadata, RequirementFailed
from headwater.service.iceberg.operations.locations import Warehouse
from headwater.service.iceberg.operations.metadata_files import well_formed

LAST_ADDED = -1


def check_requirements(requirements: Iterable[TableRequirement], base: TableMetadata | None) -> None:
    for requirement in requirements:
        if _is_first_branch(requirement, base):
            continue
        try:
            requirement.validate(base)
        except CommitFailedException as failed:
            raise RequirementFailed(str(failed), field=requirement.type, remedy="Load the table again.") from None


def updated(base: TableMetadata | None, base_location: str | None, updates: Sequence[TableUpdate]) -> TableMetadata:
    """`MalformedMetadata` if the updates cannot be applied, `RequirementFailed` if they come too late."""
    start = base if base is not None else MetastoreCatalog._empty_table_metadata()
    if base is not None:
        _check_in_time(base, updates)
        _check_uuid(base, updates)

    def make() -> TableMetadata:
        first, rest = _upgraded_to_3(start, updates)
        return update_table_metadata(
            first, tuple(_with_ids(first, rest)), enforce_validation=True, metadata_location=base_location
        )

    made: TableMetadata = well_formed(make, "updates")
    if isinstance(made, TableMetadataV3) and made.next_row_id is None:  # of a table that was just upgraded
        return made.model_copy(update={"next_row_id": 0})
    return made


def _upgraded_to_3(start: TableMetadata, updates: Sequence[TableUpdate]) -> tuple[TableMetadata, Sequence[TableUpdate]]:
    """PyIceberg upgrades to format 2 alone. Its other updates know format 3, so the upgrade to it is done first, and here."""
    upgrades = [one for one in updates if isinstance(one, UpgradeFormatVersionUpdate) and one.format_version == 3]
    if not upgrades or start.format_version >= 3:
        return start, updates
    rest = [one for one in updates if one not in upgrades]
    if "location" in start.model_fields_set:  # so that a mere upgrade counts as a change too
        rest.append(SetLocationUpdate(location=start.location))
    raised = start.model_copy(update={"format_version": 3})
    return TableMetadataUtil._construct_without_validation(raised).model_copy(update={"next_row_id": 0}), rest


def check_locations(warehouse: Warehouse, updates: Iterable[TableUpdate]) -> None:
    """Everything that names a place."""
    for update in updates:
        match update:
            case SetLocationUpdate():
                warehouse.check(update.location)
            case SetPropertiesUpdate():
                warehouse.check_properties(update.updates)
            case AddSnapshotUpdate():
                warehouse.check(update.snapshot.manifest_list, "snapshot.manifest-list")
            case SetStatisticsUpdate():
                warehouse.check(update.statistics.statistics_path, "statistics.statistics-path")
            case SetPartitionStatisticsUpdate():
                warehouse.check(update.partition_statistics.statistics_path, "partition-statistics.statistics-path")


def _is_first_branch(requirement: TableRequirement, base: TableMetadata | None) -> bool:
    """A table without snapshots may get its first one on any branch; PyIceberg allows that for main alone."""
    return (
        isinstance(requirement, AssertRefSnapshotId)
        and base is not None
        and not base.snapshots
        and requirement.snapshot_id is None
        and requirement.ref not in base.refs
    )


def _check_in_time(base: TableMetadata, updates: Iterable[TableUpdate]) -> None:
    """A snapshot that was made before another one landed on another branch: the client can make it again."""
    for update in updates:
        if not isinstance(update, AddSnapshotUpdate):
            continue
        snapshot, last = update.snapshot, getattr(base, "last_sequence_number", None) or 0
        number, row = snapshot.sequence_number, getattr(base, "next_row_id", None)
        if base.format_version >= 2 and number is not None and snapshot.parent_snapshot_id is not None and number <= last:
            raise _too_late(f"sequence number {number} is not above {last}")
        if base.format_version >= 3 and snapshot.first_row_id is not None and row is not None and snapshot.first_row_id < row:
            raise _too_late(f"first row id {snapshot.first_row_id} is below {row}")


def _check_uuid(base: TableMetadata, updates: Iterable[TableUpdate]) -> None:
    for update in updates:
        if isinstance(update, AssignUUIDUpdate) and update.uuid != base.table_uuid:
            raise MalformedMetadata("The table has a uuid already, which stays.", field="assign-uuid")


def _too_late(why: str) -> RequirementFailed:
    return RequirementFailed(
        f"Another snapshot was added meanwhile: {why}.", field="add-snapshot", remedy="Load the table again."
    )


def _with_ids(base: TableMetadata, updates: Sequence[TableUpdate]) -> Iterable[TableUpdate]:
    schemas, specs, orders = _Ids(base.schemas), _Ids(base.partition_specs), _Ids(base.sort_orders)
    properties = set(base.properties)
    for update in updates:
        match update:
            case AddSchemaUpdate():
                added = schemas.add(update.schema_, "schema_id", _same_schema)
                if added is not None:
                    yield update.model_copy(update={"schema_": added})
            case AddPartitionSpecUpdate():
                added = specs.add(update.spec, "spec_id", lambda one, other: bool(one.fields == other.fields))
                if added is not None:
                    yield update.model_copy(update={"spec": added})
            case AddSortOrderUpdate():
                added = orders.add(update.sort_order, "order_id", lambda one, other: bool(one.fields == other.fields))
                if added is not None:
                    yield update.model_copy(update={"sort_order": added})
            case SetCurrentSchemaUpdate():
                yield update.model_copy(update={"schema_id": schemas.meant(update.schema_id)})
            case SetDefaultSpecUpdate():
                yield update.model_copy(update={"spec_id": specs.meant(update.spec_id)})
            case SetDefaultSortOrderUpdate():
                yield update.model_copy(update={"sort_order_id": orders.meant(update.sort_order_id)})
            case SetPropertiesUpdate():
                properties |= update.updates.keys()
                yield update
            case RemovePropertiesUpdate():
                yield update.model_copy(update={"removals": [name for name in update.removals if name in properties]})
                properties -= set(update.removals)
            case _:
                yield update


class _Ids:
    """Schemas, specs or sort orders by id, and what `-1` means."""

    def __init__(self, there: Sequence[Any]) -> None:
        self._there = list(there)
        self._renamed: dict[int, int] = {}
        self._last: int | None = None

    def add(self, new: Any, id_field: str, same: Any) -> Any:
        """The one to add under an id that is free; None if it is there already."""
        given = getattr(new, id_field)
        for one in self._there:
            if same(one, new):
                self._note(given, getattr(one, id_field))
                return None
        taken = {getattr(one, id_field) for one in self._there}
        chosen = max(taken) + 1 if given in taken else given
        added = new if chosen == given else new.model_copy(update={id_field: chosen})
        self._there.append(added)
        self._note(given, chosen)
        return added

    def meant(self, id: int) -> int:
        if id == LAST_ADDED:
            if self._last is None:
                raise ValueError("-1 means the last one added, but none was added")
            return self._last
        return self._renamed.get(id, id)

    def _note(self, given: int, chosen: int) -> None:
        self._renamed[given] = chosen
        self._last = chosen


def _same_schema(one: Any, other: Any) -> bool:
    return bool(one.as_struct() == other.as_struct() and set(one.identifier_field_ids) == set(other.identifier_field_ids))
