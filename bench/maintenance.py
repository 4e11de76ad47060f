"""A long log enters, most of it expired; how fast a sweep marks, scans and deletes leaves, and what memory it takes.

The log is written by a clock that is a day behind, so that everything is older than the grace. Marking and scanning are
measured on the whole log, deleting on what is below the floor.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from bench.bulk_load import load_commits
from bench.context import Context
from bench.measures import Measure
from bench.stores import fresh_store_url
from headwater.persistence.clock import SystemClock
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import Store, open_store
from headwater.streaming.executors import LocalExecutor
from headwater.streaming.expire import Expiry
from headwater.streaming.identifiers import Identifiers
from headwater.streaming.policies import parse_retention
from headwater.streaming.retained_sources import WalkedSource
from headwater.streaming.runs import Runs
from headwater.streaming.sweep import Sweep, SweepOptions
from headwater.streaming.verify import current

TITLE = "Maintenance: a sweep by walking, on threads"
REALM = "bench#0000000000000001"
POINTER = "cat/1/heads/main"
SHARES = (10, 1)
"""Of the entries asked for: what doubles must double."""
SLOW = ("cassandra",)
"""Where loading takes longer than everything else: a tenth is enough."""
DAY_MICROS = 86_400 * 1_000_000


class Yesterday(SystemClock):
    def now_micros(self) -> int:
        return super().now_micros() - DAY_MICROS


def run(context: Context) -> Iterator[Measure]:
    for kind in context.kinds:
        for share in SHARES:
            entries = context.entries // share // (10 if kind in SLOW else 1)
            with fresh_store_url(kind, context.console) as url:
                yield from _measured(context, url, f"{kind}, {entries:,} entries", entries)


def _measured(context: Context, url: str, subject: str, entries: int) -> Iterator[Measure]:
    with open_store(url, create=True, clock=Yesterday()) as store:
        store.backend.add_name(REALM, POINTER)
        store.backend.reserve_pointer(REALM, POINTER, PointerRow(created_at=store.clock.now_micros()))
        with context.console.status(f"{subject}: loading …"):
            load_commits(store.kernel(REALM), POINTER, entries)
        identifiers = Identifiers()
        started = time.perf_counter()
        marked = len(WalkedSource(store.backend, identifiers).retained(current(store.backend, REALM, store.clock)).ids)
        yield Measure("maintain", subject, "marked", marked / (time.perf_counter() - started), "objects/s")
        scanned, seconds, _ = _sweep(store, identifiers, dry_run=True)
        yield Measure("maintain", subject, "marked, probed and scanned", scanned / seconds, "rows/s")
        Expiry(store.kernel(REALM), parse_retention("*=10n")).run()
        scanned, seconds, purged = _sweep(store, identifiers, dry_run=False)
        yield Measure("maintain", subject, "swept", scanned / seconds, "rows/s")
        yield Measure("maintain", subject, "deleted", purged / seconds, "rows/s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Measure("maintain", subject, "memory so far", memory, "MiB")


def _sweep(store: Store, identifiers: Identifiers, *, dry_run: bool) -> tuple[int, float, int]:
    """Rows scanned, seconds, rows deleted. By today's clock."""
    options = SweepOptions(filter="bloom", dry_run=dry_run)
    source = WalkedSource(store.backend, identifiers)
    executor = LocalExecutor(store.backend)
    sweep = Sweep(store, source, executor, identifiers, options, clock=SystemClock())
    runs = Runs(store.backend, SystemClock())
    started = time.perf_counter()
    with runs.run("sweep", dry_run=dry_run) as run:
        report = sweep.run(runs, run, [REALM])
    if report.failures:
        raise RuntimeError(report.failures[0])
    total = run.record.totals()
    return total.scanned, time.perf_counter() - started, total.purged
