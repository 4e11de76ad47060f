"""Measures catalog commits of one put each, from one caller and from many: rates, waits and costs."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial

import headwater
from bench.callers import Outcome, in_tasks, in_threads
from bench.context import Context
from bench.database_calls import ASKING, counted
from bench.measures import Measure
from bench.stores import fresh_store_url
from headwater.embedded import ReferenceHandle
from headwater.persistence.commit.lane import LaneStats

TITLE = "Commits: one put each, 1,000 tables, through the embedded engine"
TABLES = 1_000
CALLERS = (1, 8, 64)
BRANCHES = 8
ROUNDS = 3
"""Each rate is the best of so many: other programs on the machine only ever take away."""

Value = tuple[str, float, str]


def run(context: Context) -> Iterator[Measure]:
    for kind in context.kinds:
        status = context.console.status(f"committing on {kind} …")
        with fresh_store_url(kind, context.console) as url, headwater.open(url, create=True) as engine, status:
            lake = engine.ensure_realm("bench").create_catalog("lake")
            stats = lake.realm.kernel.committer.stats
            branches = [lake.branch(), *(lake.create_branch(f"b{number}") for number in range(BRANCHES))]
            for name, value, unit in _measure(kind, branches, stats, context.seconds):
                yield Measure("commit", kind, name, value, unit)


def _measure(kind: str, branches: list[ReferenceHandle], stats: LaneStats, seconds: float) -> Iterator[Value]:
    main, *others = branches
    for branch in branches:
        branch.commit([put(number) for number in range(TABLES)])
    in_threads([Caller(main, 0).commit], min(seconds, 0.5))  # warm
    for callers in CALLERS:
        name = "1 caller" if callers == 1 else f"{callers} callers"
        yield from _rates(name, [Caller(main, seed) for seed in range(callers)], stats, seconds)
    yield from _rates("64 asyncio tasks", [Caller(main, seed) for seed in range(64)], stats, seconds, tasks=True)
    yield from _rates("8 callers, one table", [Caller(main, seed, tables=1) for seed in range(8)], stats, seconds)
    callers_of_branches = [Caller(others[seed % BRANCHES], seed) for seed in range(64)]
    yield from _rates(f"64 callers on {BRANCHES} branches", callers_of_branches, stats, seconds)
    if ASKING[kind]:
        yield from _database_calls(kind, main, stats, seconds)
    yield "log read", _log_rate(main, seconds), "commits/s"


def _rates(name: str, callers: Sequence[Caller], stats: LaneStats, seconds: float, *, tasks: bool = False) -> Iterator[Value]:
    best: Outcome | None = None
    commits, batches = stats.commits, stats.batches
    for _ in range(ROUNDS):
        if tasks:
            outcome = in_tasks([caller.commit_async for caller in callers], seconds)
        else:
            outcome = in_threads([caller.commit for caller in callers], seconds)
        best = outcome if best is None or outcome.rate > best.rate else best
    if best is None:
        return
    yield name, best.rate, "commits/s"
    yield name, best.wait_ms(0.5), "ms, p50"
    yield name, best.wait_ms(0.99), "ms, p99"
    yield name, best.wait_ms(1), "ms, max"
    yield name, 1e6 * best.cpu_seconds / best.done, "µs of CPU each"
    yield name, (stats.commits - commits) / max(1, stats.batches - batches), "commits per CAS"


def _database_calls(kind: str, branch: ReferenceHandle, stats: LaneStats, seconds: float) -> Iterator[Value]:
    for callers in CALLERS:
        before = stats.commits
        with counted(kind) as calls:
            in_threads([Caller(branch, seed).commit for seed in range(callers)], min(seconds, 0.5))
        name = "1 caller" if callers == 1 else f"{callers} callers"
        yield name, calls.count / max(1, stats.commits - before), "database calls each"


class Caller:
    """Commits to a branch again and again, each time to a table at random."""

    def __init__(self, branch: ReferenceHandle, seed: int, tables: int = TABLES) -> None:
        self._branch = branch
        self._next_table = partial(random.Random(seed).randrange, tables)

    def commit(self) -> object:
        return self._branch.commit([put(self._next_table())])

    async def commit_async(self) -> object:
        return await self._branch.commit_async([put(self._next_table())])


_snapshots = itertools.count(1)


def put(table: int) -> headwater.Put:
    snapshot = next(_snapshots)
    location = f"s3://lake/db/table_{table:05d}/metadata/{snapshot:08d}.metadata.json"
    return headwater.Put(
        (f"table_{table:05d}",), headwater.IcebergTable(location, snapshot_id=snapshot, schema_id=0, spec_id=0, sort_order_id=0)
    )


def _log_rate(branch: ReferenceHandle, seconds: float) -> float:
    read, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds or not read:
        read += sum(1 for _ in itertools.islice(branch.log(), 1_000))
    return read / elapsed
