"""Two processes that commit to one pointer, in simulated time: the real rules of stepping back and retrying, and a store whose
calls take a while. Shows what turns cost and how they are shared, without a machine that other programs use too."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

import pytest

from headwater.persistence.clock import MICROS
from headwater.persistence.commit.contention import ContentionControl
from headwater.persistence.commit.retries import RetryPolicy

READ, WRITE, PLAN_BATCH, PLAN_REQUEST, LINGER = 600, 1_200, 60, 60, 200
"""Microseconds: of the head, of a batch and its compare-and-swap, and of a lane's own work."""
CALLERS = 8
SECONDS = 4
POLICY = RetryPolicy()


class Store:
    """One pointer, and the order of events."""

    def __init__(self) -> None:
        self.now = 0.0
        self.version = 0
        self._events: list[tuple[float, int, Iterator[float]]] = []
        self._number = 0

    def start(self, work: Iterator[float], after: float = 0.0) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + after, self._number, work))

    def run(self) -> None:
        while self._events[0][0] < SECONDS * MICROS:
            self.now, _, work = heapq.heappop(self._events)
            pause = next(work, None)
            if pause is not None:
                self.start(work, pause)


class Process:
    """A lane, and callers that each send their next commit a while after the last was answered."""

    def __init__(self, store: Store, chance: random.Random, think_micros: float) -> None:
        self.commits = self.batches = self.lost = 0
        self._store = store
        self._chance = chance
        self._think_micros = think_micros
        self._waiting = CALLERS
        self._held: int | None = None
        self._contention = ContentionControl()
        store.start(self._lane(), chance.uniform(0, 2_000))

    def _around(self, micros: float) -> float:
        return micros * self._chance.uniform(0.8, 1.2)

    def _lane(self) -> Iterator[float]:
        while True:
            if not self._waiting:
                yield 50
                continue
            yield LINGER
            batch, self._waiting = self._waiting, 0
            yield from self._land(batch)
            self.batches += 1
            self.commits += batch
            for _ in range(batch):
                self._store.start(self._caller())
            if pause_seconds := self._contention.landed(round(self._began), round(self._store.now)):
                yield pause_seconds * MICROS

    def _land(self, batch: int) -> Iterator[float]:
        store, waiting_since, lost = self._store, self._store.now, 0
        held = None if self._contention.stepped_back else self._held
        while True:
            if held is None:
                yield self._around(READ)
                held = store.version
            self._began = store.now
            yield PLAN_BATCH + PLAN_REQUEST * batch + self._around(WRITE)
            if held == store.version:
                store.version += 1
                self._held = store.version
                return
            lost, held = lost + 1, None
            self._contention.met_others(round(store.now))
            ceiling = max(POLICY.delay_seconds_first, self._contention.retry_seconds)
            yield MICROS * POLICY.delay_seconds(lost, (store.now - waiting_since) / MICROS, self._chance, ceiling)
            self.lost += 1

    def _caller(self) -> Iterator[float]:
        yield self._think_micros * self._chance.uniform(0.5, 1.5)
        self._waiting += 1


def run(processes: int, think_micros: float, seed: int) -> list[Process]:
    store, chance = Store(), random.Random(seed)
    made = [Process(store, chance, think_micros) for _ in range(processes)]
    store.run()
    return made


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("think_micros", [300, 800, 2_000])
def test_two_servers_share_a_pointer_evenly_and_turns_cost_little(think_micros: float, seed: int) -> None:
    (alone,), both = run(1, think_micros, seed), run(2, think_micros, seed)
    shares = sorted(one.commits for one in both)
    assert shares[0] >= 0.8 * shares[1]
    assert sum(shares) >= 0.85 * alone.commits
    lost, batches = sum(one.lost for one in both), sum(one.batches for one in both)
    assert 0 < lost < 0.35 * batches, "races are lost now and then, and never most of them"


def test_without_stepping_back_the_shares_are_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContentionControl, "landed", lambda *_: 0.0)
    shares = sorted(one.commits for one in run(2, 800, 1))
    assert shares[0] < 0.8 * shares[1]
