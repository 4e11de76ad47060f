"""`format("headwater_rows")`: scans one table of a store in the splits of its backend.

Rows come without payload. The columns are those of `ScannedRow`, so that what was scanned can be handed back for deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition, IsNotNull
from pyspark.sql.types import StructType

from headwater.persistence.rows import ScannedRow, Split, Table
from headwater.streaming.sources.log_options import Text, parse_options
from headwater.streaming.sources.open_stores import opened_store, realm_instance

ROWS_PER_BATCH = 10_000

SCANNED_DDL = "realm string, type string, key string, id bigint, part int, created_at bigint, revision bigint"
"""`created_at` is in microseconds; `revision` changes whenever the row is rewritten."""
SCANNED_ARROW = pa.schema(
    [
        ("realm", pa.string()),
        ("type", pa.string()),
        ("key", pa.string()),
        ("id", pa.int64()),
        ("part", pa.int32()),
        ("created_at", pa.int64()),
        ("revision", pa.int64()),
    ]
)


class RowsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    store: Text
    table: Literal["objects", "pointers", "mutable", "names"] = "objects"
    realm: str = ""
    """A realm's name or instance; rows of all realms if left out."""
    splits: Annotated[int, Meta(ge=1, le=100_000)] = 8
    """The approximate number of tasks."""


class RowsPartition(InputPartition):
    def __init__(self, split: Split, realm: str | None) -> None:
        self.split = split
        self.realm = realm


class RowsSource(DataSource):
    """Options: see `RowsOptions`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options), RowsOptions, "headwater_rows")

    @classmethod
    def name(cls) -> str:
        return "headwater_rows"

    def schema(self) -> str:
        return SCANNED_DDL

    def reader(self, schema: StructType) -> RowsReader:
        return RowsReader(self._options)


class RowsReader(DataSourceReader):
    def __init__(self, options: RowsOptions) -> None:
        self._options = options
        self._types: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Accepts only the type: other filters are cheaper in Spark."""
        for one in filters:
            match one:
                case EqualTo(attribute=("type",), value=str(name)):
                    self._keep([name])
                case In(attribute=("type",), value=names):
                    self._keep([name for name in names if name is not None])
                case IsNotNull():
                    pass  # no column is ever null
                case _:
                    yield one

    def _keep(self, names: Sequence[str]) -> None:
        self._types = frozenset(names) if self._types is None else self._types & frozenset(names)

    def partitions(self) -> Sequence[RowsPartition]:
        store = opened_store(self._options.store)
        realm = realm_instance(store, self._options.realm) if self._options.realm else None
        return [RowsPartition(split, realm) for split in store.backend.splits(Table(self._options.table), self._options.splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)  # noqa: S101
        rows = opened_store(self._options.store).backend.scan(partition.split, realm=partition.realm)
        wanted = self._types
        kept = rows if wanted is None else (row for row in rows if row.type in wanted)
        while batch := list(islice(kept, ROWS_PER_BATCH)):
            yield scanned_batch(batch)


def scanned_batch(rows: Sequence[ScannedRow]) -> pa.RecordBatch:
    columns = [[getattr(row, name) for row in rows] for name in SCANNED_ARROW.names]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCANNED_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCANNED_ARROW)
