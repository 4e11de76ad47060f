"""Measures what a commit and a page cost in catalogs of many tables and with a long log, on SQLite.

Costs of commits are CPU time of this process, and sizes are measured in turns: other programs then disturb all of them alike.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator

import headwater
from bench.bulk_load import load_commits, load_tables, table_key
from bench.callers import Outcome, in_threads
from bench.context import Context
from bench.measures import Measure
from bench.stores import fresh_store_url
from headwater.embedded import CatalogHandle, Headwater, ReferenceHandle
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import RealmKernel, open_store

TITLE = "Scale: many tables and a long log, on SQLite"
TABLES_SMALL = 1_000
CALLERS = 8
TURNS = 5
PAGE = 100
PAGES = 40


def run(context: Context) -> Iterator[Measure]:
    with fresh_store_url("sqlite", context.console) as url, headwater.open(url, create=True) as engine:
        yield from _commits(context, engine)
        yield from _pages(context, engine, url)


# ── commits to catalogs of several sizes ────────────────────────────────────────────────────────────────────


def _commits(context: Context, engine: Headwater) -> Iterator[Measure]:
    sizes = (TABLES_SMALL, *context.tables)
    branches = {size: _loaded(context, engine, size) for size in sizes}
    kernel = engine.realm("bench").kernel
    cpu: dict[int, list[float]] = {size: [] for size in sizes}
    written: dict[int, list[float]] = {size: [] for size in sizes}
    with context.console.status("committing to catalogs of each size in turns …"):
        for _ in range(TURNS):
            for size, branch in branches.items():
                before, made = kernel.objects.bytes_written, kernel.committer.stats.commits
                outcome = _commit(branch, size, context.seconds / 2)
                cpu[size].append(1e6 * outcome.cpu_seconds / outcome.done)
                written[size].append((kernel.objects.bytes_written - before) / (kernel.committer.stats.commits - made))
    for size in sizes:
        subject = f"{size:,} tables"
        yield Measure("scale", subject, "commit, 8 callers", min(cpu[size]), "µs of CPU")
        yield Measure("scale", subject, "written", statistics.mean(written[size]), "bytes/commit")
        if size != TABLES_SMALL:
            yield Measure("scale", subject, "against the smallest", min(cpu[size]) / min(cpu[TABLES_SMALL]), "× CPU time")


def _loaded(context: Context, engine: Headwater, size: int) -> ReferenceHandle:
    catalog: CatalogHandle = engine.ensure_realm("bench").create_catalog(f"lake{size}")
    started = time.perf_counter()
    with context.console.status(f"loading {size:,} tables …"):
        load_tables(catalog.realm.kernel, catalog.branch().pointer, size)
    context.console.print(f"[dim]{size:,} tables loaded in {time.perf_counter() - started:.0f} s[/dim]")
    return catalog.branch()


def _commit(branch: ReferenceHandle, tables: int, seconds: float) -> Outcome:
    def caller(seed: int) -> Callable[[], object]:
        chance = random.Random(seed)

        def commit() -> object:
            number, snapshot = chance.randrange(tables), chance.randrange(10**8)
            location = f"s3://lake/db/table_{number:07d}/metadata/{snapshot:08d}.metadata.json"
            return branch.commit([headwater.Put(table_key(number), headwater.IcebergTable(location, snapshot, 0, 0, 0))])

        return commit

    return in_threads([caller(seed) for seed in range(CALLERS)], seconds)


# ── pages of a long log ─────────────────────────────────────────────────────────────────────────────────────


def _pages(context: Context, engine: Headwater, url: str) -> Iterator[Measure]:
    catalog = engine.ensure_realm("bench").create_catalog("long")
    pointer, started = catalog.branch().pointer, time.perf_counter()
    with context.console.status(f"loading {context.entries:,} commits …") as status:
        kernel = catalog.realm.kernel
        load_commits(kernel, pointer, context.entries, lambda step: status.update(f"loading commits: {step:,} …"))
    subject = f"{context.entries:,} entries"
    yield Measure("scale", subject, "loaded", context.entries / (time.perf_counter() - started), "entries/s")
    with open_store(url) as store:
        cold = store.kernel(kernel.realm)
        newest, middle = _page_ms(cold, pointer, context.entries)
        yield Measure("scale", subject, f"newest page of {PAGE}", newest, "ms")
        yield Measure("scale", subject, f"page of {PAGE} about the middle", middle, "ms")
        yield Measure("scale", subject, "middle against newest page", middle / newest, "× time")


def _page_ms(kernel: RealmKernel, pointer: str, entries: int) -> tuple[float, float]:
    """Medians. Nothing is cached when a page is read, neither the way to it nor its entries."""
    chance = random.Random(entries)
    newest, middle = [], []
    for _ in range(PAGES):
        newest.append(_timed_page(kernel, pointer, entries - PAGE))
        middle.append(_timed_page(kernel, pointer, entries // 2 + chance.randint(-entries // 10, entries // 10)))
    return statistics.median(newest), statistics.median(middle)


def _timed_page(kernel: RealmKernel, pointer: str, after: int) -> float:
    kernel.store.cache.clear()
    started = time.perf_counter()
    page = PointerLog(kernel, pointer).page(after, PAGE)
    taken = time.perf_counter() - started
    if len(page.entries) != PAGE:
        raise AssertionError(f"{len(page.entries)} entries after {after}")
    return 1_000 * taken
