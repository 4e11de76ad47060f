"""Runs the same work from a number of callers, and measures the rate and the time of each call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from bench.measures import run_all


class Outcome(msgspec.Struct, frozen=True):
    done: int
    seconds: float
    cpu_seconds: float
    """Of this process, all threads together: what other programs on the machine can slow down but not use up."""
    waits_seconds: Sequence[float]
    """Sorted."""

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    def wait_ms(self, share: float) -> float:
        """The time within which this share of all was done."""
        return 1_000 * self.waits_seconds[min(int(share * self.done), self.done - 1)]


def in_threads(works: Sequence[Callable[[], object]], seconds: float) -> Outcome:
    """Each work again and again on a thread of its own. A fault in one is raised here."""
    waits: list[float] = []
    started, cpu_started = time.perf_counter(), time.process_time()

    def run(work: Callable[[], object]) -> None:
        begun = 0.0
        while begun < started + seconds:  # once at least
            begun = time.perf_counter()
            work()
            waits.append(time.perf_counter() - begun)

    run_all([partial(run, work) for work in works])
    return _outcome(waits, started, cpu_started)


def in_tasks(works: Sequence[Callable[[], Awaitable[object]]], seconds: float) -> Outcome:
    """The same with tasks of one event loop."""
    waits: list[float] = []
    started, cpu_started = time.perf_counter(), time.process_time()

    async def run(work: Callable[[], Awaitable[object]]) -> None:
        begun = 0.0
        while begun < started + seconds:
            begun = time.perf_counter()
            await work()
            waits.append(time.perf_counter() - begun)

    async def run_all() -> None:
        await asyncio.gather(*(run(work) for work in works))

    asyncio.run(run_all())
    return _outcome(waits, started, cpu_started)


def _outcome(waits: list[float], started: float, cpu_started: float) -> Outcome:
    return Outcome(len(waits), time.perf_counter() - started, time.process_time() - cpu_started, sorted(waits))
