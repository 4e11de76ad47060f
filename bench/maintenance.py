"""Measures how fast Spark marks, scans and deletes a store that is half garbage, and the memory of its driver.

The store is written by a clock that is a day behind, so that everything is older than the grace. It is swept twice dry, by the
streamed set and by a bloom filter, then in earnest by a join. `python -m bench.maintenance URL OBJECTS` does it with a store
that was made before, by `bench.large_store`: half of what it holds is gone then.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from bench.context import Context
from bench.large_store import REALM, Yesterday, load_objects
from bench.measures import Measure, show
from bench.processes import driver_megabytes
from bench.stores import fresh_store_url
from headwater.persistence.clock import SystemClock
from headwater.persistence.store import open_store
from headwater.settings import load_settings
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import installed_identifiers
from headwater.streaming.retained.retained_filter import FilterKind
from headwater.streaming.retained.retained_sources import Retained, RetainedSource
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.runs.runs import Counts, Runs
from headwater.streaming.spark_jobs.retained_job import RetainedJob
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource
from headwater.streaming.sweep.sweep import Sweep, SweepOptions
from headwater.wiring.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Maintenance: a sweep on Spark"
SLOW = ("cassandra",)
"""Where loading takes longer than everything else: a tenth is enough."""
OBJECTS_PER_SPLIT = 100_000


def run(context: Context) -> Iterator[Measure]:
    spark = open_spark(load_settings())
    for kind in [kind for kind in context.kinds if kind != "memory"]:
        for objects in context.objects:
            wanted = objects // (10 if kind in SLOW else 1)
            subject = f"{kind}, {wanted:,} objects"
            with fresh_store_url(kind, context.console) as url:
                with context.console.status(f"{subject}: loading …"), open_store(url, create=True, clock=Yesterday()) as store:
                    load_objects(store, wanted)
                yield from measured(spark, url, subject, wanted)


def measured(spark: SparkSession, url: str, subject: str, objects: int) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        started = time.perf_counter()
        with open_store(url) as store:
            rows = RetainedJob(spark, store, url, RetainedStore(folder, REALM), pin=False).run().rows
        yield Measure("maintain", subject, "retained set seeded", rows / (time.perf_counter() - started), "objects/s")
        yield from _swept(
            _Sweeping(spark, url, StreamedSource(spark, folder)), subject, objects, "exact", "streamed set, dry run"
        )
    yield from _swept(_Sweeping(spark, url), subject, objects, "bloom", "bloom, dry run")
    yield from _swept(_Sweeping(spark, url), subject, objects, "exact", "exact", dry_run=False)
    yield Measure("maintain", subject, "driver so far", driver_megabytes(spark), "MiB")


def _swept(
    sweeping: _Sweeping, subject: str, objects: int, kind: FilterKind, name: str, *, dry_run: bool = True
) -> Iterator[Measure]:
    found = sweeping.run(kind, dry_run=dry_run, objects=objects)
    yield Measure("maintain", subject, f"{name}: marked", found.marked / found.marking_seconds, "objects/s")
    yield Measure("maintain", subject, f"{name}: judged", found.counts.scanned / found.judging_seconds, "rows/s")
    yield Measure("maintain", subject, f"{name}: all of it", found.marking_seconds + found.judging_seconds, "s")
    gone = found.counts.would_purge if dry_run else found.counts.purged
    yield Measure("maintain", subject, f"{name}: {'would go' if dry_run else 'deleted'}", gone, "rows")


class _Sweeping:
    """Also the source of its own sweep, to know how long marking took."""

    def __init__(self, spark: SparkSession, url: str, source: RetainedSource | None = None) -> None:
        self._spark = spark
        self._url = url
        self._source = source or SparkWalkedSource(spark, url)
        self.marking_seconds = self.judging_seconds = 0.0
        self.marked = 0
        self.counts = Counts()

    def retained(self, fenced: FencedRealm) -> Retained:
        started = time.perf_counter()
        found = self._source.retained(fenced)
        self.marking_seconds = time.perf_counter() - started
        return found

    def run(self, kind: FilterKind, *, dry_run: bool, objects: int) -> _Sweeping:
        """By today's clock."""
        options = SweepOptions(filter=kind, dry_run=dry_run, splits=max(8, objects // OBJECTS_PER_SPLIT))
        with open_store(self._url, clock=SystemClock()) as store:
            executor = SparkExecutor(self._spark, self._url, store.backend)
            sweep = Sweep(store, self, executor, installed_identifiers(), options)
            runs = Runs(store.backend, store.clock)
            started = time.perf_counter()
            with runs.run("sweep", dry_run=dry_run) as under_way:
                report = sweep.run(runs, under_way, [REALM])
            if report.failures:
                raise RuntimeError(report.failures[0])
        self.judging_seconds = time.perf_counter() - started - self.marking_seconds
        self.marked, self.counts = under_way.record.retained_ids, under_way.record.totals()
        return self


def main(url: str, objects: str) -> None:
    spark = open_spark(load_settings())
    show(TITLE, list(measured(spark, url, f"{int(objects):,} objects", int(objects))), Console())


if __name__ == "__main__":
    main(*sys.argv[1:])
