"""Measures how fast a retained set catches up with a long log, in Changes and in object rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

from bench.bulk_load import load_commits
from bench.context import Context
from bench.large_store import REALM, Yesterday, pointer_name
from bench.measures import Measure
from bench.processes import core_seconds, driver_megabytes
from bench.stores import fresh_store_url
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import Store, open_store
from headwater.settings import load_settings
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.spark_jobs.retained_job import RetainedJob
from headwater.wiring.spark import open_spark

TITLE = "The retained set catches up"
POINTERS = 4
FIRST = 200
"""Changes of a first, small batch, which warms everything up."""
CHANGES_PER_BATCH = 100_000


def run(context: Context) -> Iterator[Measure]:
    spark = open_spark(load_settings())
    for kind in [kind for kind in context.kinds if kind in ("sqlite", "postgresql")]:
        subject = f"{kind}, {context.entries:,} Changes"
        with (
            fresh_store_url(kind, context.console) as url,
            open_store(url, create=True, clock=Yesterday()) as store,
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
        ):
            job = RetainedJob(spark, store, url, RetainedStore(folder, REALM))
            _load(store, FIRST)
            job.run()
            _load(store, FIRST)
            before = job.run().rows
            with context.console.status(f"{subject}: loading …"):
                _load(store, context.entries)
            started, on_core = time.perf_counter(), core_seconds()
            rows = job.run(changes_per_batch=CHANGES_PER_BATCH).rows - before
            seconds, on_core = time.perf_counter() - started, core_seconds() - on_core
        yield Measure("retained", subject, "caught up", context.entries / seconds, "Changes/s")
        yield Measure("retained", subject, "caught up", rows / seconds, "object rows/s")
        yield Measure("retained", subject, "of all processes", on_core / context.entries * 1e6, "µs of CPU a Change")
        yield Measure("retained", subject, "driver so far", driver_megabytes(spark), "MiB")


def _load(store: Store, entries: int) -> None:
    for number in range(POINTERS):
        if store.backend.read_pointer(REALM, pointer_name(number)) is None:
            store.backend.add_name(REALM, pointer_name(number))
            store.backend.reserve_pointer(REALM, pointer_name(number), PointerRow(created_at=store.clock.now_micros()))
        load_commits(store.kernel(REALM), pointer_name(number), entries // POINTERS)
