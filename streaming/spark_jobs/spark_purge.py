"""Deletes the rows of purged realms on Spark's workers: a job for each table, a task for some of its splits.

⚠ A worker checks the run's lease in the store before each batch, as the threads of one process do. A task that is repeated
after its worker was killed finds what is left: each split is read to its end, so what a scan does not find is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.coordination.work_leases import LeaseClaim
from headwater.persistence.realms.realm_purge import SCAN_SPLITS, TABLES_IN_ORDER, ScanFound, delete_of_split
from headwater.persistence.rows import Split
from headwater.streaming.spark_jobs.job_watch import BytesAccumulator, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS_PER_CORE = 4


class _Watch(NamedTuple):
    before_delete: Callable[[], None]
    on_rows: Callable[[int], None]
    on_result: Callable[[ScanFound], None]


class _Results:
    rows = 0

    def __init__(self, accumulator: BytesAccumulator) -> None:
        self._accumulator = accumulator

    def since(self, seen: int) -> list[ScanFound]:
        found = (msgspec.msgpack.decode(one, type=tuple[dict[str, int], set[str]]) for one in self._accumulator.since(seen))
        return [ScanFound(Counter(deleted), others) for deleted, others in found]


class SparkScans:
    """A `DeleteByScan` whose workers open the store by `store_url` and hold on to `claim`."""

    def __init__(self, spark: SparkSession, store_url: str, claim: LeaseClaim) -> None:
        self._spark = spark
        self._store_url = store_url
        self._claim = claim

    def __call__(self, backend: Backend, realms: Collection[str], before_batch: Callable[[], None]) -> ScanFound:
        found = ScanFound(Counter(), set())

        def add(one: ScanFound) -> None:
            found.deleted.update(one.deleted)
            found.others.update(one.others)

        context = self._spark.sparkContext
        count = max(SCAN_SPLITS, SPLITS_PER_CORE * int(context.defaultParallelism))
        for table in TABLES_IN_ORDER:
            splits = list(backend.splits(table, count))
            results = BytesAccumulator(context)
            numbers = self._spark.range(0, len(splits), 1, max(1, len(splits)))
            task = deleting_splits(self._store_url, splits, frozenset(realms), self._claim, results)
            action = numbers.mapInArrow(task, "split bigint").collect
            watched(context, action, _Results(results), _Watch(before_batch, _ignore, add))
        return found


def deleting_splits(
    url: str, splits: Sequence[Split], realms: frozenset[str], claim: LeaseClaim, results: BytesAccumulator
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Runs on a worker: takes split numbers and yields them when done."""

    def deleted(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        backend: Any = open_backend(url)
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    found = delete_of_split(backend, splits[number], realms, lambda: claim.require(backend))
                    results.add(msgspec.msgpack.encode((found.deleted, found.others)))
                yield pa.RecordBatch.from_arrays([batch.column(0)], names=["split"])
        finally:
            backend.close()

    return deleted


def _ignore(_: int) -> None: ...
