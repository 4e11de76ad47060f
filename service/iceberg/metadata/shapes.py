"""Checks JSON values that are to be part of table metadata; an error names the place that is wrong.

The metadata itself stays a plain dictionary, so that what this version does not know of is kept: these structs only check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

from headwater.schemas.errors import MalformedMetadata

Plain = dict[str, Any]
T = TypeVar("T")

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
GivenId = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
"""Id of something that is being added: -1 leaves the choice to the catalog."""
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=10_000)]
FormatVersion = Literal[1, 2, 3]


class _Shape(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    pass


# ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────


class FieldShape(_Shape, frozen=True):
    id: Id
    name: Name
    type: TypeShape
    required: bool
    doc: str | None = None


class StructShape(_Shape, frozen=True, tag_field="type", tag="struct"):
    fields: list[FieldShape]


class ListShape(_Shape, frozen=True, tag_field="type", tag="list"):
    element_id: Id
    element: TypeShape
    element_required: bool


class MapShape(_Shape, frozen=True, tag_field="type", tag="map"):
    key_id: Id
    key: TypeShape
    value_id: Id
    value: TypeShape
    value_required: bool


TypeShape = str | StructShape | ListShape | MapShape


class SchemaShape(_Shape, frozen=True):
    fields: list[FieldShape]
    type: Literal["struct"] = "struct"
    schema_id: GivenId = 0
    identifier_field_ids: list[Id] = []


# ── partition specs and sort orders ─────────────────────────────────────────────────────────────────────────


class PartitionFieldShape(_Shape, frozen=True):
    transform: Name
    name: Name
    source_id: Id | None = None
    source_ids: list[Id] | None = None
    field_id: Id | None = None


class SpecShape(_Shape, frozen=True):
    fields: list[PartitionFieldShape]
    spec_id: GivenId = 0


class SortFieldShape(_Shape, frozen=True):
    transform: Name
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]
    source_id: Id | None = None
    source_ids: list[Id] | None = None


class OrderShape(_Shape, frozen=True):
    fields: list[SortFieldShape]
    order_id: GivenId = 0


# ── snapshots and what belongs to them ──────────────────────────────────────────────────────────────────────


class SnapshotShape(_Shape, frozen=True):
    snapshot_id: Long
    timestamp_ms: Long
    manifest_list: str | None = None
    manifests: list[str] | None = None
    """Instead of a manifest list, in format 1."""
    parent_snapshot_id: Long | None = None
    sequence_number: Long | None = None
    summary: dict[str, str] | None = None
    schema_id: Id | None = None
    first_row_id: Long | None = None
    added_rows: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


class ReferenceShape(_Shape, frozen=True):
    snapshot_id: Long
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    max_snapshot_age_ms: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    max_ref_age_ms: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None


class SnapshotLogShape(_Shape, frozen=True):
    snapshot_id: Long
    timestamp_ms: Long


class MetadataLogShape(_Shape, frozen=True):
    metadata_file: str
    timestamp_ms: Long


class StatisticsShape(_Shape, frozen=True):
    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long
    file_footer_size_in_bytes: Long
    blob_metadata: list[Plain]


class PartitionStatisticsShape(_Shape, frozen=True):
    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long


class EncryptionKeyShape(_Shape, frozen=True):
    key_id: Name
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] = {}


class TableShape(_Shape, frozen=True, kw_only=True):
    """Whole metadata, with what format 1 may leave out filled in."""

    format_version: FormatVersion
    table_uuid: UUID
    location: Name
    last_updated_ms: Long
    last_column_id: Id
    schemas: Annotated[list[SchemaShape], Meta(min_length=1)]
    current_schema_id: Id
    partition_specs: Annotated[list[SpecShape], Meta(min_length=1)]
    default_spec_id: Id
    last_partition_id: Id
    sort_orders: Annotated[list[OrderShape], Meta(min_length=1)]
    default_sort_order_id: Id
    properties: dict[str, str] = {}
    current_snapshot_id: Long | None = None
    snapshots: list[SnapshotShape] = []
    refs: dict[str, ReferenceShape] = {}
    snapshot_log: list[SnapshotLogShape] = []
    metadata_log: list[MetadataLogShape] = []
    statistics: list[StatisticsShape] = []
    partition_statistics: list[PartitionStatisticsShape] = []
    encryption_keys: list[EncryptionKeyShape] = []
    last_sequence_number: Long = 0
    next_row_id: Long | None = None


def shaped(value: object, type: type[T], what: str) -> T:
    """`MalformedMetadata` names the place, as `schema.fields[0].id`."""
    return decoded(lambda: msgspec.convert(value, type), what)


def decoded(make: Callable[[], T], what: str) -> T:
    """Turns msgspec's refusal into an error of the caller."""
    try:
        return make()
    except msgspec.ValidationError as error:
        fault, _, where = str(error).partition(" - at `$")
        raise malformed(f"{what[:200]}{where.rstrip('`')}: {fault}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(f"{what[:200]} is not JSON: {error}.") from None
    except RecursionError:
        raise malformed(f"{what[:200]} is nested too deeply.") from None


def malformed(message: str, field: str = "body") -> MalformedMetadata:
    return MalformedMetadata(message, field=field)
