"""Writes the first rows of a retained set as Parquet, walked on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from headwater.persistence.backends import open_backend
from headwater.streaming.reachability.retained_identifiers import Identifiers, Span, WalkedRealm, WalkShare
from headwater.streaming.reachability.segments import Bounds
from headwater.streaming.retained.retained_batch import write_parquet
from headwater.streaming.retained.retained_seed import ROW_DDL, row_batches, seed_rows
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.job_watch import BytesAccumulator
from headwater.streaming.spark_jobs.spark_walk import ENTRIES_PER_TASK, grouped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_BATCH = 20_000


class SparkSeedWriter:
    """A `SeedWriter`. Executors open the store by `url` and report to the driver where segments begin, nothing else."""

    def __init__(self, spark: SparkSession, url: str, *, entries_per_task: int = ENTRIES_PER_TASK) -> None:
        self._spark = spark
        self._url = url
        self._entries_per_task = entries_per_task

    def __call__(self, realm: str, spans: Mapping[str, Span], folder: str, on_bound: Callable[[Bounds], None], /) -> int:
        shares = [share for share in Identifiers().shares(spans, self._entries_per_task) if share.pointer]
        tasks = grouped(shares, self._entries_per_task)
        bounds = BytesAccumulator(self._spark.sparkContext)
        numbers = self._spark.range(0, len(tasks), 1, max(1, len(tasks)))
        with typed_errors():
            rows = write_parquet(numbers.mapInArrow(seeding(self._url, realm, spans, tasks, bounds), ROW_DDL), folder)
        for bound in bounds.since(0):
            on_bound(msgspec.msgpack.decode(bound, type=Bounds))
        return rows


def seeding(
    url: str, realm: str, spans: Mapping[str, Span], tasks: Sequence[Sequence[WalkShare]], bounds: BytesAccumulator
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Runs on a worker: takes task numbers, yields rows of the set."""

    def seeded(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        if not numbers:
            return
        backend = open_backend(url)
        try:
            for number in numbers:
                walked = WalkedRealm(backend, realm, spans)
                rows = seed_rows(walked, tasks[number], lambda bound: bounds.add(msgspec.msgpack.encode(bound)))
                yield from row_batches(rows, ROWS_PER_BATCH)
        finally:
            backend.close()

    return seeded
