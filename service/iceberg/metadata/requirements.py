"""Checks requirements against a table's metadata, and raises `RequirementFailed` for the first that fails."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.schemas.errors import RequirementFailed
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.table_requests import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
)


def check_requirements(requirements: Iterable[TableRequirement], base: Plain) -> None:
    for requirement in requirements:
        match requirement:
            case AssertCreate():
                raise _failed(requirement, "table already exists")
            case AssertTableUuid(uuid=uuid):
                _same(requirement, "UUID does not match", str(uuid), base["table-uuid"].lower())
            case AssertRefSnapshotId():
                _check_ref(requirement, base)
            case AssertLastAssignedFieldId(last_assigned_field_id=wanted):
                _same(requirement, "last assigned field id changed", wanted, base["last-column-id"])
            case AssertCurrentSchemaId(current_schema_id=wanted):
                _same(requirement, "current schema changed", wanted, base["current-schema-id"])
            case AssertLastAssignedPartitionId(last_assigned_partition_id=expected):
                _same(requirement, "last assigned partition id changed", expected, base.get("last-partition-id"))
            case AssertDefaultSpecId(default_spec_id=wanted):
                _same(requirement, "default partition spec changed", wanted, base["default-spec-id"])
            case AssertDefaultSortOrderId(default_sort_order_id=wanted):
                _same(requirement, "default sort order changed", wanted, base["default-sort-order-id"])


def _check_ref(requirement: AssertRefSnapshotId, base: Plain) -> None:
    reference = base["refs"].get(requirement.ref)
    found = None if reference is None else reference["snapshot-id"]
    if found == requirement.snapshot_id:
        return
    if found is None:
        raise _failed(requirement, f"branch or tag {requirement.ref!r} is missing, expected {requirement.snapshot_id}")
    if requirement.snapshot_id is None:
        raise _failed(requirement, f"branch or tag {requirement.ref!r} was created concurrently")
    changed = f"has changed: expected id {requirement.snapshot_id} != {found}"
    raise _failed(requirement, f"branch or tag {requirement.ref!r} {changed}")


def _same(requirement: TableRequirement, what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise _failed(requirement, f"{what}: expected {wanted} != {found}")


def _failed(requirement: TableRequirement, why: str) -> RequirementFailed:
    name = str(type(requirement).__struct_config__.tag)
    return RequirementFailed(f"Requirement failed: {why}.", field=name, remedy="Load the table again.")
