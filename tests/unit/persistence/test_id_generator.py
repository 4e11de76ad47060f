"""Ids are made within the lease, upwards, once: whatever clock, store, threads, forks and other lessees do."""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.persistence.backend import Backend
from headwater.persistence.backends.memory import open_memory
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.ids.id_generator import CLOCK_BACK_MS_MAX, IdGenerator
from headwater.persistence.ids.node_leases import LEASE_TYPE, NodeLeases
from headwater.persistence.ids.snowflake import EPOCH_MS, IDS_PER_MS, NODES, id_parts, id_time_micros
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import (
    AllNodesTaken,
    ClockMovedBackwards,
    IdGenerationStopped,
    NodeLeaseLost,
    OutcomeUnknown,
    StoreUnavailable,
)
from tests.support.faults.manual_clock import ManualClock

HOUR = 3_600.0


def leases(backend: Backend, clock: ManualClock, nodes: int = NODES, lease_seconds: int = 3_600) -> NodeLeases:
    return NodeLeases(backend, clock, nodes=nodes, lease_seconds=lease_seconds, host="host", rng=random.Random(1))


def source(backend: Backend | None = None, clock: ManualClock | None = None, nodes: int = NODES) -> IdGenerator:
    return IdGenerator(leases(backend or open_memory("memory://"), clock or ManualClock(), nodes))


def node_of(ids: IdGenerator) -> int:
    assert ids.lease is not None
    return ids.lease.node


# ── one source ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_frozen_clock_gives_4096_ids_and_then_a_clear_error() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    made = [ids() for _ in range(IDS_PER_MS)]
    assert made == sorted(set(made))
    assert {id_time_micros(one) for one in made} == {clock.micros}
    clock.frozen = True
    with pytest.raises(IdGenerationStopped, match="stands still"):
        ids()
    clock.frozen = False
    clock.move(0.001)
    assert ids() > made[-1]


def test_more_than_4096_in_a_millisecond_wait_for_the_next() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    made = ids.take(3 * IDS_PER_MS + 5)
    assert made == sorted(set(made))
    assert [id_parts(one).sequence for one in made[:IDS_PER_MS]] == list(range(IDS_PER_MS))
    assert len({id_parts(one).time_ms for one in made}) == 4
    assert 0.003 <= clock.slept_seconds < 0.01


def test_blocks_and_single_ids_never_overlap() -> None:
    ids = source()
    made = [ids(), *ids.take(10), ids(), *ids.take(0), *ids.take(5_000), ids()]
    assert made == sorted(set(made))
    assert len(made) == 5_013


def test_a_small_step_back_of_the_clock_is_waited_for() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    before = ids()
    clock.move(-CLOCK_BACK_MS_MAX / 1_000)
    assert ids() > before
    assert clock.slept_seconds >= CLOCK_BACK_MS_MAX / 1_000


@pytest.mark.parametrize(("behind_seconds", "waits"), [(1.9, True), (HOUR, False)])
def test_ids_wait_for_the_stores_incarnation_but_not_for_a_clock_that_is_hours_off(behind_seconds: float, waits: bool) -> None:
    clock = ManualClock()
    begins = clock.micros + round(behind_seconds * 1_000_000)
    leased = NodeLeases(open_memory("memory://"), clock, ids_from=lambda: begins)
    if waits:
        assert id_time_micros(IdGenerator(leased)()) >= begins // 1_000 * 1_000
    else:
        with pytest.raises(ClockMovedBackwards, match="incarnation"):
            IdGenerator(leased)
        assert clock.slept_seconds == 0


def test_a_large_step_back_is_an_error_until_the_clock_has_caught_up() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    before = ids()
    clock.move(-2 * CLOCK_BACK_MS_MAX / 1_000)
    with pytest.raises(ClockMovedBackwards) as caught:
        ids()
    assert caught.value.facts["behind_ms"] == 2 * CLOCK_BACK_MS_MAX
    clock.move(2 * CLOCK_BACK_MS_MAX / 1_000)
    assert ids() > before


def test_no_id_is_made_before_the_lease() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    clock.move(-CLOCK_BACK_MS_MAX / 1_000 / 2)
    assert ids.lease is not None
    assert id_parts(ids()).time_ms >= ids.lease.starts_ms


def test_a_clock_that_ids_cannot_hold_is_an_error() -> None:
    with pytest.raises(IdGenerationStopped, match="cannot hold"):
        source(clock=ManualClock(micros=0))
    with pytest.raises(IdGenerationStopped, match="cannot hold"):
        source(clock=ManualClock(micros=(EPOCH_MS + 2**41) * 1_000))


def test_threads_never_get_an_id_twice_and_each_sees_its_own_ascend() -> None:
    ids = IdGenerator(NodeLeases(open_memory("memory://")))
    made: list[list[int]] = [[] for _ in range(8)]

    def work(mine: list[int]) -> None:
        for n in range(2_000):
            mine.extend(ids.take(n % 7))
            mine.append(ids())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    everything = [one for mine in made for one in mine]
    assert len(everything) == len(set(everything)) == 8 * sum(n % 7 + 1 for n in range(2_000))


# ── the lease in time ───────────────────────────────────────────────────────────────────────────────────────


def test_the_lease_is_renewed_fifteen_minutes_before_its_end() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    first = ids.lease
    assert first is not None
    clock.move(HOUR * 3 / 4 - 1)
    ids()
    assert ids.lease == first
    clock.move(1)
    ids()
    assert ids.lease is not None
    assert (ids.lease.node, ids.lease.holder) == (first.node, first.holder)
    assert ids.lease.ends_ms == first.ends_ms + 45 * 60 * 1_000


def test_a_lease_that_ran_out_is_renewed_if_nobody_took_the_node() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    node, before = node_of(ids), ids()
    clock.move(5 * HOUR)
    assert ids() > before
    assert node_of(ids) == node


def test_a_lost_lease_stops_the_call_that_notices_and_the_next_leases_a_new_node() -> None:
    backend, clock = open_memory("memory://"), ManualClock()
    ids = source(backend, clock, nodes=2)
    node, before = node_of(ids), ids()
    clock.move(HOUR)
    thieves = [source(backend, clock, nodes=2), source(backend, clock, nodes=2)]
    assert {node_of(thief) for thief in thieves} == {0, 1}
    with pytest.raises(NodeLeaseLost) as caught:
        ids()
    assert caught.value.facts["node"] == node
    with pytest.raises(AllNodesTaken):
        ids()
    next(thief for thief in thieves if node_of(thief) != node).close()
    clock.move(0.001)
    assert ids() > before
    assert node_of(ids) == 1 - node


def test_an_hour_of_ids_all_lie_in_the_lease_that_was_held() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    for _ in range(500):
        clock.move(17.3)
        time_ms = id_parts(ids()).time_ms
        assert ids.lease is not None
        assert ids.lease.starts_ms <= time_ms < ids.lease.ends_ms


# ── several lessees ─────────────────────────────────────────────────────────────────────────────────────────


def test_lessees_at_one_time_have_different_nodes() -> None:
    backend, clock = open_memory("memory://"), ManualClock()
    assert sorted(node_of(source(backend, clock, nodes=16)) for _ in range(16)) == list(range(16))


def test_running_out_of_nodes_is_an_error_that_says_when_the_first_becomes_free() -> None:
    backend, clock = open_memory("memory://"), ManualClock()
    first = source(backend, clock)
    clock.move(60)
    held = [source(backend, clock) for _ in range(NODES - 1)]
    assert len({node_of(ids) for ids in [first, *held]}) == NODES
    with pytest.raises(
        AllNodesTaken, match=r"all 1024 node ids are leased; the first comes free at 2026-01-01T01:00:00\+00:00"
    ) as caught:
        source(backend, clock)
    assert first.lease is not None
    assert caught.value.facts["earliest_expires_at"] == (first.lease.ends_ms + EPOCH_MS) * 1_000
    clock.move(HOUR - 60)
    assert node_of(source(backend, clock)) == node_of(first)


def test_after_a_release_the_node_is_free_at_once_and_no_id_is_repeated() -> None:
    backend, clock = open_memory("memory://"), ManualClock()
    with source(backend, clock, nodes=1) as ids:
        before = ids.take(100)
    with pytest.raises(NodeLeaseLost, match="closed"):
        ids()
    ids.close()
    assert source(backend, clock, nodes=1)() > before[-1]
    assert 0 < clock.slept_seconds < 0.01, "the millisecond that was used had to end first"


def test_a_new_lessee_whose_clock_is_behind_the_bound_does_not_get_the_node() -> None:
    backend, ahead, behind = open_memory("memory://"), ManualClock(), ManualClock()
    ahead.move(600)
    with source(backend, ahead, nodes=1) as ids:
        before = ids.take(10)
    with pytest.raises(AllNodesTaken):
        source(backend, behind, nodes=1)
    behind.move(601)
    assert source(backend, behind, nodes=1)() > before[-1]


ACTIONS = st.sampled_from(["take", "take", "take", "tick", "hour", "skew", "back", "release", "crash"])


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 3), ACTIONS, st.integers(1, 5_000)), max_size=60))
def test_lessees_with_clocks_of_their_own_never_repeat_an_id(steps: list[tuple[int, str, int]]) -> None:
    """Four processes share two nodes; each has its own clock that jumps, lags and turns back; some die holding a lease."""
    backend = open_memory("memory://")
    clocks = [ManualClock() for _ in range(4)]
    sources: list[IdGenerator | None] = [None] * 4
    newest = [0] * 4
    seen: set[int] = set()

    def take(who: int, count: int) -> None:
        ids = sources[who]
        if ids is None:
            ids, newest[who] = source(backend, clocks[who], nodes=2), 0
            sources[who] = ids
        for one in ids.take(count):
            assert one not in seen
            assert one > newest[who]
            seen.add(one)
            newest[who] = one

    for who, action, number in steps:
        for clock in clocks:
            clock.move(0.0005)
        match action:
            case "take":
                try:
                    take(who, number % 50)
                except IdGenerationStopped:
                    continue
            case "tick":
                clocks[who].move(number / 10_000)
            case "hour":
                for clock in clocks:
                    clock.move(number)
            case "skew":
                clocks[who].move(number)
            case "back":
                clocks[who].move(-number / 500)
            case "release" if (released := sources[who]) is not None:
                released.close()
                sources[who] = None
            case "crash":
                sources[who] = None


# ── faults of the store ─────────────────────────────────────────────────────────────────────────────────────


class FaultyMemory(MemoryBackend):
    """Raises what is planned for the next conditional writes: before applying them, or after."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.plan: list[str] = []
        self.fired: list[str] = []

    def _faulty(self, write: Callable[[], bool]) -> bool:
        fault = self.plan.pop(0) if self.plan else ""
        if fault:
            self.fired.append(fault)
        if fault == "unavailable":
            raise StoreUnavailable("planned")
        if fault == "not landed":
            raise OutcomeUnknown("planned")
        applied = write()
        if fault == "landed":
            raise OutcomeUnknown("planned")
        return applied and fault != "landed, said not"

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        return self._faulty(lambda: MemoryBackend.insert_mutable(self, realm, row))

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        return self._faulty(lambda: MemoryBackend.update_mutable(self, realm, expected, row))


FAULTS = ["unavailable", "not landed", "landed", "landed, said not"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lease_is_acquired_renewed_and_released_once_whatever_the_store_answers(fault: str) -> None:
    backend, clock = FaultyMemory(), ManualClock()
    backend.plan = [fault]
    ids = source(backend, clock, nodes=1)
    before = ids()
    for _ in range(3):
        clock.move(HOUR * 0.8)
        backend.plan = [fault]
        assert ids() > before
        before = ids()
    backend.plan = [fault]
    ids.close()
    assert backend.fired == [fault] * 5
    clock.move(0.001)
    assert source(backend, clock, nodes=1)() > before


def test_a_lease_that_a_rival_took_while_ours_was_unanswered_is_not_ours() -> None:
    clock = ManualClock()
    theirs = MutableRow(type=LEASE_TYPE, key="0000", created_at=1, expires_at=clock.micros + 1_000_000_000)

    class RivalIsFirst(MemoryBackend):
        def insert_mutable(self, realm: str, row: MutableRow) -> bool:
            super().insert_mutable(realm, theirs)
            raise OutcomeUnknown("planned")

    backend = RivalIsFirst(MemoryStore())
    with pytest.raises(AllNodesTaken):
        source(backend, clock, nodes=1)
    assert backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, "0000") == theirs


def test_ids_continue_while_the_store_is_away_and_stop_when_the_lease_ends() -> None:
    backend, clock = FaultyMemory(), ManualClock()
    ids = source(backend, clock)
    before = ids()
    backend.plan = ["unavailable"] * 1_000
    clock.move(HOUR * 0.9)
    assert ids() > before
    fired = len(backend.fired)
    assert fired > 0
    ids()
    assert len(backend.fired) == fired, "an unanswered renewal is not repeated for every id"
    clock.move(HOUR * 0.1)
    with pytest.raises(NodeLeaseLost, match="could not be renewed"):
        ids()
    backend.plan = []
    assert ids() > before


def test_a_new_lease_on_a_clock_that_was_set_back_continues_after_the_last_id() -> None:
    backend, clock = FaultyMemory(), ManualClock()
    ids = source(backend, clock, nodes=2)
    node = node_of(ids)
    backend.plan = ["unavailable"] * 1_000
    clock.move(HOUR - 2)
    ids()
    assert backend.fired, "a renewal must have failed, or the lease would not end"
    backend.plan = []
    assert ids.lease is not None
    clock.micros = (ids.lease.ends_ms + EPOCH_MS) * 1_000 - 100_000
    before = ids()
    clock.move(0.2)
    assert node_of(source(backend, clock, nodes=2)) == node
    with pytest.raises(NodeLeaseLost):
        ids()
    clock.move(-0.5)
    after = ids()
    assert node_of(ids) != node
    assert id_parts(after).time_ms > id_parts(before).time_ms


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────────


def in_child(work: Callable[[], str]) -> str:
    """What the work says in a forked child."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said


def test_a_forked_child_makes_no_ids_of_its_parents_lease_and_does_not_free_it() -> None:
    clock = ManualClock()
    ids = source(clock=clock)
    before = ids()

    def child() -> str:
        try:
            return f"made {ids()}"
        except NodeLeaseLost as error:
            try:
                ids.close()
                return f"{error} {ids.take(1)}"
            except NodeLeaseLost:
                return f"refused twice: {error}"

    assert in_child(child).startswith("refused twice: this process was forked")
    assert ids() > before


def test_a_child_that_was_forked_while_a_thread_made_an_id_is_not_stuck() -> None:
    ids = source()

    def child() -> str:
        try:
            return f"made {ids()}"
        except NodeLeaseLost:
            return "refused"

    with ids._lock:
        assert in_child(child) == "refused"
