"""Requirements and updates of one or more tables enter; one commit leaves, with every table's new metadata, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertCreate, SetLocationUpdate, TableRequirement, TableUpdate

from headwater.producer.content import IcebergTable
from headwater.producer.operations import CatalogOperation, Put
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, InvalidInput, MalformedMetadata, RequirementFailed, Unsupported
from headwater.service.iceberg.operations.lake_branch import TABLE, Caller, LakeBranch, LakeState, Step, shown
from headwater.service.iceberg.operations.metadata_files import MetadataFile, well_formed
from headwater.service.iceberg.operations.table_updates import check_locations, check_requirements, updated
from headwater.service.iceberg.operations.tables import dump, table_content, told_file
from headwater.service.iceberg.operations.told_updates import Updates, headers_of

TABLES_MAX = 1_000
UPDATES_MAX = 10_000
TABLE_UPDATES = (
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-current-schema",
    "add-spec",
    "set-default-spec",
    "add-sort-order",
    "set-default-sort-order",
    "add-snapshot",
    "set-snapshot-ref",
    "remove-snapshots",
    "remove-snapshot-ref",
    "set-location",
    "set-properties",
    "remove-properties",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
)
REFUSED_TABLE_UPDATES = ("add-encryption-key", "remove-encryption-key")
TABLE_REQUIREMENTS = (
    "assert-create",
    "assert-table-uuid",
    "assert-ref-snapshot-id",
    "assert-last-assigned-field-id",
    "assert-current-schema-id",
    "assert-last-assigned-partition-id",
    "assert-default-spec-id",
    "assert-default-sort-order-id",
)

_requirements: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])
_updates: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])


class TableChange(msgspec.Struct, frozen=True):
    """What one table shall become, checked as far as that needs no table."""

    key: KeyPath
    requirements: tuple[Any, ...]
    updates: tuple[Any, ...]
    told: Updates

    @property
    def creates(self) -> bool:
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)


def table_change(branch: LakeBranch, key: KeyPath, requirements: list[dict[str, Any]], updates: Updates) -> TableChange:
    check_names(requirements, "type", TABLE_REQUIREMENTS, ())
    check_names(updates, "action", TABLE_UPDATES, REFUSED_TABLE_UPDATES)
    change = TableChange(
        key,
        well_formed(lambda: _requirements.validate_python(requirements), "requirements"),
        well_formed(lambda: _updates.validate_python([dict(update) for update in updates]), "updates"),
        updates,
    )
    check_locations(branch.metadata.warehouse, change.updates)
    return change


def update_table(branch: LakeBranch, caller: Caller, change: TableChange) -> MetadataFile:
    def judge(state: LakeState) -> Step:
        return _judge(branch, state, [change])

    return told_file(branch, branch.change(caller, [change.key], judge))


def update_tables(branch: LakeBranch, caller: Caller, changes: Sequence[TableChange]) -> None:
    """⚠ One commit and one Change, however many tables."""
    if not 1 <= len(changes) <= TABLES_MAX:
        raise InvalidInput(f"A transaction of {len(changes)} tables.", field="table-changes", remedy=f"Send 1 to {TABLES_MAX}.")
    keys = [change.key for change in changes]
    if len(set(keys)) != len(keys):
        raise InvalidInput("A table occurs twice.", field="table-changes", remedy="Send all updates of a table together.")

    def judge(state: LakeState) -> Step:
        return _judge(branch, state, changes)

    branch.change(caller, keys, judge)


def check_names(items: list[dict[str, Any]], field: str, known: Sequence[str], refused: Sequence[str]) -> None:
    """Of updates or requirements, before anything is made of them."""
    if len(items) > UPDATES_MAX:
        raise InvalidInput(f"{len(items)} are too many.", field=field, remedy=f"Send at most {UPDATES_MAX}.")
    for item in items:
        name = item.get(field)
        if name in refused:
            raise Unsupported(f"{name} is not supported.", field=field, remedy="See docs/iceberg-rest.md.")
        if name not in known:
            raise MalformedMetadata(f"Unknown {field}: {str(name)[:80]!r}.", field=field, remedy=f"Use {', '.join(known)}.")


def _judge(branch: LakeBranch, state: LakeState, changes: Sequence[TableChange]) -> Step:
    """All requirements are checked before the first file is written."""
    made = [_made(branch, state, change) for change in changes]
    operations: list[CatalogOperation] = []
    files: list[MetadataFile] = []
    try:
        for change, (json, metadata, there) in zip(changes, made, strict=True):
            before = None if there is None else msgspec.convert(there, IcebergTable)
            previous = None if before is None else before.metadata_location
            file = branch.metadata.write(json, metadata.location, metadata.properties, previous, metadata)
            files.append(file)
            operations.append(_put(change, file, before))
    except HeadwaterError:
        for file in files:
            branch.metadata.remove(file.location)
        raise
    names = ", ".join(shown(change.key) for change in changes[:5]) + (" …" if len(changes) > 5 else "")
    creates = len(changes) == 1 and changes[0].creates
    verb, operation = ("Create", "create-table") if creates else ("Update", "update-table")
    headers = headers_of(operation, [(change.key, change.told) for change in changes])
    return Step(operations, f"{verb} table {names}", headers, [file.location for file in files], files[0])


def _put(change: TableChange, file: MetadataFile, before: IcebergTable | None) -> Put:
    content = table_content(file)
    if before is None:
        return Put(change.key, content, must_not_exist=True, content_id=str(file.table.table_uuid))
    return Put(change.key, content, expected=before)


def _made(branch: LakeBranch, state: LakeState, change: TableChange) -> tuple[bytes, TableMetadata, dict[str, Any] | None]:
    """The new metadata as JSON and as its model, and the content that it replaces."""
    found = state.get(change.key)
    if change.creates:
        if found is not None:
            raise RequirementFailed(f"Requirement failed: table already exists: {shown(change.key)}", field="assert-create")
        state.require_free(change.key)
    else:
        found = state.require_table(change.key)
    file = None if found is None or found.type != TABLE else branch.metadata.load(found.value["metadata_location"])
    base = None if file is None else file.table
    if base is not None:
        check_requirements(change.requirements, base)
    updates = change.updates
    if base is None and not any(isinstance(update, SetLocationUpdate) for update in updates):
        updates = (*updates, SetLocationUpdate(location=branch.metadata.warehouse.new_location(change.key)))
    metadata = updated(base, None if file is None else file.location, updates)
    json = dump(metadata) if file is None else _with_unread(dump(metadata), file, metadata)
    return json, metadata, None if found is None else found.value


def _with_unread(json: bytes, base: MetadataFile, metadata: Any) -> bytes:
    """⚠ Fields that this version does not know stay: another engine may need them to read the table."""
    known = {field.alias or name for name, field in type(metadata).model_fields.items()}
    unread = {name: value for name, value in base.plain.items() if name not in known}
    return json if not unread else msgspec.json.encode({**unread, **msgspec.json.decode(json)})
