"""What is known of a table's snapshot, its columns and its files. Bounds are in Iceberg's binary form."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class PutMode(StrEnum):
    """What happens to rows that are there already."""

    UPSERT = "upsert"
    """A row that is sent takes the place of the one with its key; others stay."""
    IF_ABSENT = "if-absent"
    """A row that is there stays as it is."""
    REPLACE = "replace"
    """Everything else of the kinds that are sent (totals, columns, files) is removed."""


class TableStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    row_count: int
    file_count: int | None = None
    size_bytes: int | None = None
    delete_file_count: int | None = None
    properties: dict[str, str] = {}


class Sketch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the distinct values, so that counts of several snapshots or files can be merged."""

    type: str
    """E.g. `apache-datasketches-theta-v1`, as in Puffin files."""
    data: bytes


class DistinctCount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The number of distinct values (NDV)."""

    count: int
    is_exact: bool = False
    sketches: list[Sketch] = []


class Histogram(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bucket i holds `counts[i]` values from `bounds[i]` to `bounds[i + 1]`."""

    bounds: list[bytes]
    counts: list[int]


class ColumnStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    column_id: int
    """The field id of the snapshot's schema."""
    value_count: int | None = None
    """Nulls included."""
    null_count: int | None = None
    nan_count: int | None = None
    size_bytes: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None
    distinct: DistinctCount | None = None
    histogram: Histogram | None = None


class FileStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    path: str
    row_count: int
    size_bytes: int | None = None
    columns: list[ColumnStatistics] = []
