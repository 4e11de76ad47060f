"""Parses a commit request into requirements and updates, and keeps the updates as they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar
from uuid import UUID

import msgspec

from headwater.schemas.errors import InvalidInput, MalformedMetadata
from headwater.service.iceberg.metadata.shapes import FormatVersion, GivenId, Id, Long, Name, Plain, decoded

UPDATES_MAX = 10_000
T = TypeVar("T")


class _Update(msgspec.Struct, frozen=True, rename="kebab", tag_field="action", gc=False):
    pass


class AssignUuid(_Update, frozen=True, tag="assign-uuid"):
    uuid: UUID


class UpgradeFormatVersion(_Update, frozen=True, tag="upgrade-format-version"):
    format_version: FormatVersion


class AddSchema(_Update, frozen=True, tag="add-schema"):
    schema: Plain


class SetCurrentSchema(_Update, frozen=True, tag="set-current-schema"):
    schema_id: GivenId


class AddSpec(_Update, frozen=True, tag="add-spec"):
    spec: Plain


class SetDefaultSpec(_Update, frozen=True, tag="set-default-spec"):
    spec_id: GivenId


class AddSortOrder(_Update, frozen=True, tag="add-sort-order"):
    sort_order: Plain


class SetDefaultSortOrder(_Update, frozen=True, tag="set-default-sort-order"):
    sort_order_id: GivenId


class AddSnapshot(_Update, frozen=True, tag="add-snapshot"):
    snapshot: Plain


class SetSnapshotRef(_Update, frozen=True, tag="set-snapshot-ref"):
    ref_name: Name
    type: Literal["branch", "tag"]
    snapshot_id: Long
    max_ref_age_ms: Long | None = None
    max_snapshot_age_ms: Long | None = None
    min_snapshots_to_keep: Long | None = None


class RemoveSnapshots(_Update, frozen=True, tag="remove-snapshots"):
    snapshot_ids: list[Long]


class RemoveSnapshotRef(_Update, frozen=True, tag="remove-snapshot-ref"):
    ref_name: Name


class SetLocation(_Update, frozen=True, tag="set-location"):
    location: Name


class SetProperties(_Update, frozen=True, tag="set-properties"):
    updates: dict[str, str]


class RemoveProperties(_Update, frozen=True, tag="remove-properties"):
    removals: list[str]


class SetStatistics(_Update, frozen=True, tag="set-statistics"):
    statistics: Plain


class RemoveStatistics(_Update, frozen=True, tag="remove-statistics"):
    snapshot_id: Long


class SetPartitionStatistics(_Update, frozen=True, tag="set-partition-statistics"):
    partition_statistics: Plain


class RemovePartitionStatistics(_Update, frozen=True, tag="remove-partition-statistics"):
    snapshot_id: Long


class RemovePartitionSpecs(_Update, frozen=True, tag="remove-partition-specs"):
    spec_ids: list[Id]


class RemoveSchemas(_Update, frozen=True, tag="remove-schemas"):
    schema_ids: list[Id]


class AddEncryptionKey(_Update, frozen=True, tag="add-encryption-key"):
    encryption_key: Plain


class RemoveEncryptionKey(_Update, frozen=True, tag="remove-encryption-key"):
    key_id: Name


TableUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)


class _Requirement(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", gc=False):
    pass


class AssertCreate(_Requirement, frozen=True, tag="assert-create"):
    pass


class AssertTableUuid(_Requirement, frozen=True, tag="assert-table-uuid"):
    uuid: UUID


class AssertRefSnapshotId(_Requirement, frozen=True, tag="assert-ref-snapshot-id"):
    ref: Name
    snapshot_id: Long | None = None


class AssertLastAssignedFieldId(_Requirement, frozen=True, tag="assert-last-assigned-field-id"):
    last_assigned_field_id: int


class AssertCurrentSchemaId(_Requirement, frozen=True, tag="assert-current-schema-id"):
    current_schema_id: int


class AssertLastAssignedPartitionId(_Requirement, frozen=True, tag="assert-last-assigned-partition-id"):
    last_assigned_partition_id: int | None = None


class AssertDefaultSpecId(_Requirement, frozen=True, tag="assert-default-spec-id"):
    default_spec_id: int


class AssertDefaultSortOrderId(_Requirement, frozen=True, tag="assert-default-sort-order-id"):
    default_sort_order_id: int


TableRequirement = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)

_update = msgspec.json.Decoder(TableUpdate)
_requirement = msgspec.json.Decoder(TableRequirement)


def names_of(union: object) -> tuple[str, ...]:
    """The actions or types that a union knows, in its order."""
    return tuple(member.__struct_config__.tag for member in union.__args__)  # type: ignore[attr-defined]


TABLE_UPDATES = names_of(TableUpdate)
TABLE_REQUIREMENTS = names_of(TableRequirement)


def read_updates(raw: Sequence[msgspec.Raw]) -> tuple[TableUpdate, ...]:
    return tuple(_read(one, _update, f"updates[{number}]", "action", TABLE_UPDATES) for number, one in enumerate(_few(raw)))


def read_requirements(raw: Sequence[msgspec.Raw]) -> tuple[TableRequirement, ...]:
    return tuple(
        _read(one, _requirement, f"requirements[{number}]", "type", TABLE_REQUIREMENTS) for number, one in enumerate(_few(raw))
    )


def _few(raw: Sequence[msgspec.Raw]) -> Sequence[msgspec.Raw]:
    if len(raw) > UPDATES_MAX:
        raise InvalidInput(f"{len(raw)} are too many.", field="updates", remedy=f"Send at most {UPDATES_MAX}.")
    return raw


def _read(raw: msgspec.Raw, decoder: msgspec.json.Decoder[T], what: str, field: str, known: Sequence[str]) -> T:
    try:
        return decoded(lambda: decoder.decode(raw), what)
    except MalformedMetadata as error:
        if f".{field}:" not in error.message and f"`{field}`" not in error.message:
            raise
        raise MalformedMetadata(error.message, field=field, remedy=f"Use {', '.join(known)}.") from None
