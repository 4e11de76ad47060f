"""Checks statistics against the schema of their snapshot. Pure; the first fault is the answer, with its field."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.producer.json_safety import check_text
from headwater.producer.statistics.column_order import Comparable, decode_bound
from headwater.schemas.errors import InvalidInput
from headwater.schemas.statistics import (
    ColumnStatistics,
    DistinctCount,
    FileStatistics,
    Histogram,
    TableStatistics,
)

COUNT_MAX = 2**63 - 1
PATH_BYTES_MAX = 8_192
PROPERTIES_MAX = 100
BUCKETS_MAX = 4_096
SKETCHES_MAX = 8
SKETCH_BYTES_MAX = 65_536


class SnapshotSchema(msgspec.Struct, frozen=True):
    """The columns of a snapshot, nested ones included: field id → type, as Iceberg spells it; None for structs, lists and
    maps, which have counts, but no bounds."""

    columns: Mapping[int, str | None]


def check_table(table: TableStatistics) -> TableStatistics:
    for name in ("row_count", "file_count", "size_bytes", "delete_file_count"):
        _count(getattr(table, name), f"table.{name}")
    if len(table.properties) > PROPERTIES_MAX:
        raise InvalidInput(
            f"{len(table.properties)} properties.", field="table.properties", remedy=f"Send at most {PROPERTIES_MAX}."
        )
    for name, value in table.properties.items():
        check_text(name, "table.properties", 256, blank=False)
        check_text(value, f"table.properties.{name[:80]}", 1_024)
    return msgspec.structs.replace(table, properties=dict(sorted(table.properties.items())))


def check_file(file: FileStatistics, schema: SnapshotSchema, field: str) -> FileStatistics:
    check_text(file.path, f"{field}.path", PATH_BYTES_MAX, blank=False)
    _count(file.row_count, f"{field}.row_count")
    _count(file.size_bytes, f"{field}.size_bytes")
    seen: set[int] = set()
    for position, column in enumerate(file.columns):
        there = f"{field}.columns[{position}]"
        if column.column_id in seen:
            raise InvalidInput(f"column {column.column_id} comes twice.", field=there, remedy="Send each column once.")
        seen.add(column.column_id)
        check_column(column, schema, there)
    return file


def check_column(column: ColumnStatistics, schema: SnapshotSchema, field: str) -> ColumnStatistics:
    if column.column_id not in schema.columns:
        raise InvalidInput(
            f"the snapshot's schema has no column {column.column_id}.",
            field=f"{field}.column_id",
            remedy="Send field ids of the schema that the snapshot was written with.",
        )
    type = schema.columns[column.column_id] or "struct, list or map"
    for name in ("value_count", "null_count", "nan_count", "size_bytes"):
        _count(getattr(column, name), f"{field}.{name}")
    values, nulls = column.value_count, column.null_count or 0
    if values is not None and nulls + (column.nan_count or 0) > values:
        raise InvalidInput(
            f"{nulls} nulls and {column.nan_count or 0} NaNs among {values} values.",
            field=f"{field}.null_count",
            remedy="Count nulls and NaNs among the values too.",
        )
    present = None if values is None else values - nulls
    _check_bounds(column, type, field)
    if column.distinct is not None:
        _check_distinct(column.distinct, values, f"{field}.distinct")
    if column.histogram is not None:
        _check_histogram(column.histogram, type, present, f"{field}.histogram")
    return column


def _check_bounds(column: ColumnStatistics, type: str, field: str) -> None:
    lower = None if column.lower is None else decode_bound(type, column.lower, f"{field}.lower")
    upper = None if column.upper is None else decode_bound(type, column.upper, f"{field}.upper")
    if lower is not None and upper is not None and _less(upper, lower):
        raise InvalidInput("the lower bound is above the upper one.", field=f"{field}.lower", remedy="Exchange them.")


def _check_distinct(distinct: DistinctCount, values: int | None, field: str) -> None:
    _count(distinct.count, f"{field}.count")
    if values is not None and distinct.count > values:
        raise InvalidInput(
            f"{distinct.count} distinct among {values} values.", field=f"{field}.count", remedy="Send at most the value count."
        )
    if len(distinct.sketches) > SKETCHES_MAX:
        raise InvalidInput(
            f"{len(distinct.sketches)} sketches.", field=f"{field}.sketches", remedy=f"Send at most {SKETCHES_MAX}."
        )
    for position, sketch in enumerate(distinct.sketches):
        check_text(sketch.type, f"{field}.sketches[{position}].type", 256, blank=False)
        if len(sketch.data) > SKETCH_BYTES_MAX:
            raise InvalidInput(
                f"a sketch of {len(sketch.data)} bytes.",
                field=f"{field}.sketches[{position}].data",
                remedy=f"Send at most {SKETCH_BYTES_MAX} bytes.",
            )


def _check_histogram(histogram: Histogram, type: str, present: int | None, field: str) -> None:
    bounds, counts = histogram.bounds, histogram.counts
    if not 1 <= len(counts) <= BUCKETS_MAX or len(bounds) != len(counts) + 1:
        raise InvalidInput(
            f"{len(counts)} counts between {len(bounds)} bounds.",
            field=field,
            remedy=f"Send 1 to {BUCKETS_MAX} counts and one bound more.",
        )
    for position, count in enumerate(counts):
        _count(count, f"{field}.counts[{position}]")
    decoded = [decode_bound(type, one, f"{field}.bounds[{position}]") for position, one in enumerate(bounds)]
    for position in range(1, len(decoded)):
        if _less(decoded[position], decoded[position - 1]):
            raise InvalidInput(
                "the bounds are out of order.", field=f"{field}.bounds[{position}]", remedy="Send them in the column's order."
            )
    if present is not None and sum(counts) > present:
        raise InvalidInput(
            f"the buckets hold {sum(counts)} values, the column {present} that are not null.",
            field=f"{field}.counts",
            remedy="Count each value in one bucket.",
        )


def _less(one: Comparable, other: Comparable) -> bool:
    """Both were decoded for the same type."""
    return one < other  # type: ignore[operator]


def _count(value: int | None, field: str) -> None:
    if value is not None and not 0 <= value <= COUNT_MAX:
        raise InvalidInput(f"{value} is not a count.", field=field, remedy=f"Use 0 to {COUNT_MAX}.")
