"""JSON bodies of statistics in the management API. Bounds and sketches are base64."""

from __future__ import annotations

import msgspec

from headwater.schemas.http.manage_json import Body, MutationMeta
from headwater.schemas.statistics import ColumnStatistics, FileStatistics, PutMode, TableStatistics


class StatisticsBody(Body, frozen=True, kw_only=True):
    """Published as a whole or not at all."""

    mode: PutMode = PutMode.UPSERT
    table: TableStatistics | None = None
    columns: list[ColumnStatistics] = []
    files: list[FileStatistics] = []


class StatisticsInfo(msgspec.Struct, frozen=True, kw_only=True):
    table_id: str
    snapshot_id: int
    source: str
    """`published`, or `snapshot-summary` for totals that were read from the snapshot's summary."""
    table: TableStatistics | None = None
    columns: int = 0
    """How many columns have statistics."""
    files: int = 0
    size_bytes: int = 0
    """Of the statistics themselves."""
    digest: str = ""
    """Of the statistics of columns and files."""
    version: str | None = None


class StatisticsWritten(msgspec.Struct, frozen=True, kw_only=True):
    statistics: StatisticsInfo
    columns_sent: int
    files_sent: int
    meta: MutationMeta


class ColumnStatisticsPage(msgspec.Struct, frozen=True, kw_only=True):
    columns: list[ColumnStatistics]
    next_token: str | None = None


class FileStatisticsPage(msgspec.Struct, frozen=True, kw_only=True):
    files: list[FileStatistics]
    next_token: str | None = None
