"""Catalog commits of one put each enter, from one caller and from many; commits per second, per CAS, and their waits leave."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator

import headwater
from bench.context import Context
from bench.measures import Measure, rate_in_threads
from bench.stores import fresh_store_url
from headwater.embedded import Headwater, ReferenceHandle

TITLE = "Commits: one put each, 1,000 tables, through the embedded engine"
TABLES = 1_000
MANY = 64
BRANCHES = 8


def run(context: Context) -> Iterator[Measure]:
    for kind in context.kinds:
        status = context.console.status(f"committing on {kind} …")
        with fresh_store_url(kind, context.console) as url, headwater.open(url, create=True) as engine, status:
            for name, value, unit in _measure(engine, context.seconds):
                yield Measure("commit", kind, name, value, unit)


def _measure(engine: Headwater, seconds: float) -> Iterator[tuple[str, float, str]]:
    catalog = engine.ensure_realm("bench").create_catalog("lake")
    main = catalog.branch()
    main.commit([_put(n) for n in range(TABLES)])
    yield from _rates(engine, "1 caller", [main], 1, seconds)
    yield from _rates(engine, f"{MANY} callers", [main], MANY, seconds)
    branches = [catalog.create_branch(f"b{n}") for n in range(BRANCHES)]
    yield from _rates(engine, f"on {BRANCHES} branches", branches, MANY, seconds)
    yield "log read", _log_rate(main, seconds), "commits/s"


def _rates(
    engine: Headwater, name: str, branches: list[ReferenceHandle], callers: int, seconds: float
) -> Iterator[tuple[str, float, str]]:
    waits: list[float] = []
    stats = engine.realm("bench").kernel.committer.stats
    before = stats.commits, stats.batches
    works = [_commits(branches[n % len(branches)], waits, n) for n in range(callers)]
    yield name, rate_in_threads(works, seconds), "commits/s"
    if callers > 1:
        yield name, (stats.commits - before[0]) / max(1, stats.batches - before[1]), "commits per CAS"
    yield name, statistics.median(waits) * 1_000, "ms, median wait"


def _commits(branch: ReferenceHandle, waits: list[float], seed: int) -> Callable[[], int]:
    chance = random.Random(seed)

    def commit() -> int:
        started = time.perf_counter()
        branch.commit([_put(chance.randrange(TABLES))])
        waits.append(time.perf_counter() - started)
        return 1

    return commit


_snapshots = itertools.count(1)


def _put(table: int) -> headwater.Put:
    snapshot = next(_snapshots)
    location = f"s3://lake/db/table_{table:05d}/metadata/{snapshot:08d}.metadata.json"
    return headwater.Put(
        (f"table_{table:05d}",), headwater.IcebergTable(location, snapshot_id=snapshot, schema_id=0, spec_id=0, sort_order_id=0)
    )


def _log_rate(branch: ReferenceHandle, seconds: float) -> float:
    read, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        read += sum(1 for _ in itertools.islice(branch.log(), 1_000))
    return read / elapsed
