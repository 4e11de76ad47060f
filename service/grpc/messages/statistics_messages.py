"""Statistics as messages, and messages as statistics."""

from __future__ import annotations

from typing import Any

from headwater.schemas.http.statistics_json import StatisticsInfo
from headwater.schemas.rpc import statistics_pb2
from headwater.schemas.statistics import (
    ColumnStatistics,
    DistinctCount,
    FileStatistics,
    Histogram,
    PutMode,
    Sketch,
    TableStatistics,
)

MODES = {
    statistics_pb2.PUT_MODE_UNSPECIFIED: PutMode.UPSERT,
    statistics_pb2.PUT_MODE_UPSERT: PutMode.UPSERT,
    statistics_pb2.PUT_MODE_IF_ABSENT: PutMode.IF_ABSENT,
    statistics_pb2.PUT_MODE_REPLACE: PutMode.REPLACE,
}
_TABLE = ("file_count", "size_bytes", "delete_file_count")
_COLUMN = ("value_count", "null_count", "nan_count", "size_bytes", "lower", "upper")


def table_of(message: statistics_pb2.TableStats) -> TableStatistics:
    known = {name: getattr(message, name) for name in _TABLE if message.HasField(name)}
    return TableStatistics(row_count=message.row_count, properties=dict(message.properties), **known)


def column_of(message: statistics_pb2.ColumnStats) -> ColumnStatistics:
    """⚠ Called for every column of every file: only what is set is looked at."""
    known: dict[str, Any] = {field.name: value for field, value in message.ListFields()}
    known.setdefault("column_id", 0)
    if "distinct" in known:
        distinct = message.distinct
        known["distinct"] = DistinctCount(
            count=distinct.count,
            is_exact=distinct.is_exact,
            sketches=[Sketch(type=one.type, data=one.data) for one in distinct.sketches],
        )
    if "histogram" in known:
        known["histogram"] = Histogram(bounds=list(message.histogram.bounds), counts=list(message.histogram.counts))
    return ColumnStatistics(**known)


def file_of(message: statistics_pb2.FileColumnStats) -> FileStatistics:
    return FileStatistics(
        path=message.path,
        row_count=message.row_count,
        size_bytes=message.size_bytes if message.HasField("size_bytes") else None,
        columns=[column_of(one) for one in message.columns],
    )


def table_message(table: TableStatistics) -> statistics_pb2.TableStats:
    known = {name: value for name in _TABLE if (value := getattr(table, name)) is not None}
    return statistics_pb2.TableStats(row_count=table.row_count, properties=table.properties, **known)


def column_message(column: ColumnStatistics) -> statistics_pb2.ColumnStats:
    known = {name: value for name in _COLUMN if (value := getattr(column, name)) is not None}
    shown = statistics_pb2.ColumnStats(column_id=column.column_id, **known)
    if column.distinct is not None:
        shown.distinct.count, shown.distinct.is_exact = column.distinct.count, column.distinct.is_exact
        shown.distinct.sketches.extend(statistics_pb2.Sketch(type=one.type, data=one.data) for one in column.distinct.sketches)
    if column.histogram is not None:
        shown.histogram.bounds.extend(column.histogram.bounds)
        shown.histogram.counts.extend(column.histogram.counts)
    return shown


def file_message(file: FileStatistics) -> statistics_pb2.FileColumnStats:
    return statistics_pb2.FileColumnStats(
        path=file.path,
        row_count=file.row_count,
        size_bytes=file.size_bytes,
        columns=[column_message(one) for one in file.columns],
    )


def summary_message(info: StatisticsInfo) -> statistics_pb2.StatsSummary:
    return statistics_pb2.StatsSummary(
        table_id=info.table_id,
        snapshot_id=info.snapshot_id,
        source=info.source,
        table=None if info.table is None else table_message(info.table),
        columns=info.columns,
        files=info.files,
        size_bytes=info.size_bytes,
        digest=info.digest,
        version=info.version or "",
    )
