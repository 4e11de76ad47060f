"""What merges cost after few and after many merges, and how fast commits and reads are beside them.

Each merge is of a branch of its own with one changed key, as a job makes it that writes, audits and publishes.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import headwater
from bench.commit import Caller, put
from bench.context import Context
from bench.http_load import CLIENTS
from bench.measures import Measure, rate
from bench.nessie import Reader, measured
from bench.stores import fresh_store_url
from headwater.embedded import CatalogHandle
from tests.support.servers.feed_server import feed_server

TITLE = "Merges of one key, each from a branch of its own"
KINDS = ("memory", "sqlite")
MERGES_BEFORE = (0, 100, 500)
CLIENTS_BESIDE = 4
JOBS_OF_A_CLIENT = 250
SAMPLES = 20
TABLES = 1_000
LARGE_COMMIT_KEYS = 20_000

Work = Callable[[], int]

_numbers = itertools.count()


def run(context: Context) -> Iterator[Measure]:
    for kind in [kind for kind in KINDS if kind in context.kinds]:
        status = context.console.status(f"merging on {kind} …")
        with fresh_store_url(kind, context.console) as url, headwater.open(url, create=True) as engine, status:
            lake = engine.ensure_realm("bench").create_catalog("lake")
            lake.branch().commit([put(number) for number in range(TABLES)])
            yield from _measure(kind, lake, max(2.0, context.seconds))
    if "sqlite" in context.kinds:
        yield from _large_head(context)


def _measure(kind: str, lake: CatalogHandle, seconds: float) -> Iterator[Measure]:
    done = 0
    for before in MERGES_BEFORE:
        while done < before:
            lake.merge(_job(lake))
            done += 1
        jobs = [_job(lake) for _ in range(SAMPLES)]
        elapsed, on_core = time.perf_counter(), time.process_time()
        for job in jobs:
            lake.merge(job)
        elapsed, on_core = time.perf_counter() - elapsed, time.process_time() - on_core
        done += SAMPLES
        yield Measure("merge", kind, f"after {before} merges", SAMPLES / elapsed, "merges/s")
        yield Measure("merge", kind, f"after {before} merges", 1_000 * on_core / SAMPLES, "ms of CPU each")
    commit = _committing(lake)
    yield Measure("merge", kind, "1 client commits, nobody else", rate(commit, seconds), "commits/s")
    for beside, work in OTHERS.items():
        done_beside, commits = _beside([work(lake) for _ in range(CLIENTS_BESIDE)], commit, seconds)
        name = f"1 client commits, {CLIENTS_BESIDE} others {beside}"
        yield Measure("merge", kind, name, commits, "commits/s")
        yield Measure("merge", kind, name, done_beside, "done/s by the others")


def _beside(others: Sequence[Work], work: Work, seconds: float) -> tuple[float, float]:
    """What the others do in a second, and what `work` does beside them."""
    done, stop = [0] * len(others), threading.Event()

    def go_on(number: int) -> None:
        while not stop.is_set():
            done[number] += others[number]()

    threads = [threading.Thread(target=go_on, args=(number,)) for number in range(len(others))]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    try:
        own = rate(work, seconds)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return sum(done) / (time.perf_counter() - started), own


def _committing(lake: CatalogHandle) -> Work:
    caller = Caller(lake.branch(), next(_numbers))

    def commit() -> int:
        caller.commit()
        return 1

    return commit


def _publishing(lake: CatalogHandle) -> Work:
    def publish() -> int:
        lake.merge(_job(lake))
        return 1

    return publish


def _merging_old_branches(lake: CatalogHandle) -> Work:
    """Of branches that were all made before the first of them was merged: the dearest merges there are."""
    jobs = [_job(lake) for _ in range(JOBS_OF_A_CLIENT)]

    def merge() -> int:
        if not jobs:
            jobs.extend(_job(lake) for _ in range(10))
        lake.merge(jobs.pop())
        return 1

    return merge


def _job(lake: CatalogHandle) -> str:
    """A branch with one new table: what others do to the target meanwhile is not a conflict."""
    number = next(_numbers)
    lake.create_branch(f"job-{number}").commit([put(TABLES + number)])
    return f"job-{number}"


OTHERS: dict[str, Callable[[CatalogHandle], Work]] = {
    "commit": _committing,
    "make a branch, commit and merge": _publishing,
    "merge old branches": _merging_old_branches,
}


def _large_head(context: Context) -> Iterator[Measure]:
    """Reads of a branch over HTTP, behind a small commit and behind one of 20,000 keys."""
    seconds = max(2.0, context.seconds)
    with fresh_store_url("sqlite", context.console) as url:
        for name, keys in (("small head", 1), (f"head of {LARGE_COMMIT_KEYS:,} keys", LARGE_COMMIT_KEYS)):
            with headwater.open(url, create=True) as engine:
                lake = engine.ensure_realm("default").ensure_catalog("lake")
                lake.branch().commit([put(number) for number in range(keys)])
            with feed_server(url) as server:
                readers = [Reader("/api/v2/trees/main") for _ in range(CLIENTS)]
                yield from measured(server, "sqlite, 1 worker", f"GET trees/main, {name}", readers, seconds)
