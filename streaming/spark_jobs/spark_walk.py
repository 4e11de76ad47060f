"""Walks a fenced realm on executors to find what must stay: each task takes some entries of some pointers.

Identifiers of plug-ins run there too: those for object types where an object was found, those for realms in tasks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.persistence.backends import open_backend
from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Identifiers, Span, WalkShare, installed_identifiers
from headwater.streaming.retained.retained_sources import Retained, walked_positions
from headwater.streaming.spark_jobs.spark_ids import ID_ARROW, ID_DDL, IDS_PER_BATCH, FrameIds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRIES_PER_TASK = 5_000


class SparkWalkedSource:
    """`url` is what executors open the store with; `identifiers` creates the same identifiers there as here."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        identifiers: Callable[[], Identifiers] = installed_identifiers,
        *,
        entries_per_task: int = ENTRIES_PER_TASK,
    ) -> None:
        self._spark = spark
        self._url = url
        self._identifiers = identifiers
        self._entries_per_task = entries_per_task

    def retained(self, fenced: FencedRealm) -> Retained:
        known = self._identifiers()
        shares = list(known.shares(fenced.spans, self._entries_per_task))
        tasks = grouped(shares, self._entries_per_task)
        numbers = self._spark.range(0, len(tasks), 1, max(1, len(tasks)))
        marking = marked_by_task(self._url, fenced.realm, fenced.spans, tasks, self._identifiers, known.signature())
        return Retained(ids=FrameIds(numbers.mapInArrow(marking, ID_DDL)), positions=walked_positions(fenced.spans))


def grouped(shares: Sequence[WalkShare], entries_per_task: int) -> list[list[WalkShare]]:
    """Pointers with few entries share a task; what is not part of a log gets one task each."""
    tasks: list[list[WalkShare]] = []
    entries = 0
    for share in shares:
        if not tasks or not share.pointer or entries + share.entries > entries_per_task:
            tasks.append([])
            entries = 0
        tasks[-1].append(share)
        entries += share.entries if share.pointer else entries_per_task
    return tasks


def marked_by_task(
    url: str,
    realm: str,
    spans: Mapping[str, Span],
    tasks: Sequence[Sequence[WalkShare]],
    identifiers: Callable[[], Identifiers],
    wanted: Sequence[str],
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Runs on a worker: takes task numbers, yields ids. ⚠ Only if its identifiers are the same as the driver's."""

    def marking(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        if not numbers:
            return
        known = identifiers()
        if known.signature() != list(wanted):
            raise other_identifiers(wanted, known.signature())
        backend = open_backend(url)
        try:
            for number in numbers:
                found = known.retained_of(backend, realm, spans, tasks[number])
                column = pa.array(memoryview(found.packed()).cast("q"), pa.int64())
                for first in range(0, len(column), IDS_PER_BATCH):
                    yield pa.RecordBatch.from_arrays([column[first : first + IDS_PER_BATCH]], schema=ID_ARROW)
        finally:
            backend.close()

    return marking


def other_identifiers(wanted: Sequence[str], found: Sequence[str]) -> MaintenanceRefused:
    missing = sorted(set(wanted) - set(found)) or sorted(set(found) - set(wanted))
    return MaintenanceRefused(
        f"a worker has other identifiers than this process: {', '.join(missing) or 'in another order'}.",
        field="spark",
        remedy="Install the same plug-ins where executors run, or sweep without --spark. Nothing was deleted.",
    )
