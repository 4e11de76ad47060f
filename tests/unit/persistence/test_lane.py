"""Requests for one pointer: answers, batches, back-pressure, request ids, clocks, and callers that do not wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import committer, lane
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.store import Store
from headwater.schemas.errors import (
    CommitConflict,
    CommitRetriesExhausted,
    InvalidInput,
    LaneFull,
    StoreUnavailable,
)
from tests.support.faults.faulty_backend import FaultyBackend, Pause, first
from tests.support.faults.manual_clock import ManualClock
from tests.support.models.commit_harness import (
    MAIN,
    REALM,
    Bump,
    Lanes,
    Write,
    checked_log,
    new_store,
    request_ids,
    state_at,
    store_on,
    vector_of,
    whole_log,
)


@pytest.fixture
def backend() -> FaultyBackend:
    inner = MemoryBackend(MemoryStore())
    inner.create_schema()
    return FaultyBackend(inner)


@pytest.fixture
def store(backend: FaultyBackend) -> Iterator[Store]:
    with store_on(backend) as opened:
        yield opened


# ── negative answers ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def two_stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    url = f"sqlite:///{tmp_path}/shared.db"
    with new_store(url) as one, new_store(url) as two:
        yield one, two


def test_a_conflict_is_never_reported_from_a_head_that_another_process_has_moved(two_stores: tuple[Store, Store]) -> None:
    stale, other = (Lanes(store.kernel(REALM)) for store in two_stores)
    stale.commit(MAIN, Write(puts={"a": {"v": 1}}))
    other.commit(MAIN, Write(puts={"a": {"v": 2}}))
    # By the head that `stale` holds, the first is a conflict, the second none and the third has nothing to do.
    answer = stale.commit(MAIN, Write(puts={"a": {"v": 3}}, expected={"a": {"v": 2}}))
    assert answer.logged is not None
    other.commit(MAIN, Write(puts={"a": {"v": 4}}))
    with pytest.raises(CommitConflict):
        stale.commit(MAIN, Write(puts={"a": {"v": 5}}, expected={"a": {"v": 3}}))
    other.commit(MAIN, Write(puts={"b": {"v": 1}}))
    assert stale.commit(MAIN, Write(deletes=("b",))).logged is not None
    assert state_at(other.kernel, checked_log(other.kernel)[-1]) == {"a": {"v": 4}}


def test_a_request_with_nothing_to_do_is_answered_with_the_head_it_was_checked_against(two_stores: tuple[Store, Store]) -> None:
    stale, other = (Lanes(store.kernel(REALM)) for store in two_stores)
    stale.commit(MAIN, Write(puts={"a": {"v": 1}, "b": {"v": 1}}))
    moved = other.landed(MAIN, Write(puts={"a": {"v": 2}}))
    assert stale.commit(MAIN, Write(deletes=("absent",))) == CommitOutcome(MAIN, None, moved.entry.seq, moved.commit)


def test_a_conflict_against_the_held_head_costs_one_strong_read_and_no_write(store: Store, backend: FaultyBackend) -> None:
    lanes = Lanes(store.kernel(REALM))
    lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
    backend.calls.clear()
    with pytest.raises(CommitConflict):
        lanes.commit(MAIN, Write(puts={"a": {"v": 5}}, expected={"a": None}))
    assert backend.calls == {"read_pointer": 1}


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_waiting_requests_land_with_one_cas_and_a_conflict_fails_alone(store: Store, backend: FaultyBackend) -> None:
    lanes = Lanes(store.kernel(REALM))
    lanes.commit(MAIN, Bump(writer="w"))
    backend.calls.clear()
    requests = [Bump(writer="w") for _ in range(50)]
    requests.insert(20, Write(puts={"a": {"v": 1}}, expected={"vector": None}))  # type: ignore[arg-type]
    answers = lanes.together(MAIN, *requests)
    assert isinstance(answers.pop(20), CommitConflict)
    assert [answer.logged.entry.seq for answer in answers if isinstance(answer, CommitOutcome) and answer.logged] == list(
        range(2, 52)
    )
    assert backend.calls["commit"] == 1 and lanes.stats.refused == 1
    assert vector_of(checked_log(store.kernel(REALM))) == {"w": 51}


def test_each_request_of_a_batch_sees_the_result_of_those_before_it(store: Store) -> None:
    lanes = Lanes(store.kernel(REALM))
    put, delete, again, conflict = lanes.together(
        MAIN,
        Write(puts={"a": {"v": 1}}),
        Write(deletes=("a",), expected={"a": {"v": 1}}),
        Write(puts={"a": {"v": 2}}, expected={"a": None}),
        Write(puts={"a": {"v": 3}}, expected={"a": {"v": 1}}),
    )
    assert isinstance(put, CommitOutcome) and isinstance(delete, CommitOutcome) and isinstance(again, CommitOutcome)
    assert isinstance(conflict, CommitConflict)
    assert state_at(lanes.kernel, whole_log(lanes.kernel)[-1]) == {"a": {"v": 2}}


class Broken(Write, frozen=True, kw_only=True):
    error: BaseException = RuntimeError("a bug in a plug-in")

    def plan(self, draft: Draft) -> Plan:
        raise self.error


def test_a_request_with_a_broken_plan_fails_alone(store: Store) -> None:
    before, broken, after = Lanes(store.kernel(REALM)).together(MAIN, Bump(writer="w"), Broken(), Bump(writer="w"))
    assert isinstance(before, CommitOutcome) and isinstance(broken, RuntimeError) and isinstance(after, CommitOutcome)
    assert vector_of(checked_log(store.kernel(REALM))) == {"w": 2}


def test_a_lane_continues_after_an_error_that_nothing_handles(store: Store) -> None:
    kernel = store.kernel(REALM)
    with pytest.raises(SystemExit):
        kernel.committer.commit(MAIN, Broken(error=SystemExit(3)))
    assert kernel.committer.commit(MAIN, Bump(writer="w")).logged is not None


class Several(Write, frozen=True, kw_only=True):
    """Entries one after the other, and then perhaps a refusal."""

    count: int = 3
    fails: bool = False

    def plan(self, draft: Draft) -> Iterator[Plan]:  # type: ignore[override]
        for _ in range(self.count):
            yield Bump(writer="several").plan(draft)
        if self.fails:
            raise CommitConflict("after all")


def test_a_request_of_several_entries_lands_whole_or_not_at_all(store: Store) -> None:
    lanes = Lanes(store.kernel(REALM))
    fails, whole = Several(fails=True), Several(request_id_is_callers=True)
    one, refused, several, two = lanes.together(MAIN, Bump(writer="w"), fails, whole, Bump(writer="w"))
    assert isinstance(one, CommitOutcome) and isinstance(refused, CommitConflict) and isinstance(two, CommitOutcome)
    assert isinstance(several, CommitOutcome) and several.head_seq == 4
    entries = checked_log(lanes.kernel)
    assert vector_of(entries) == {"w": 2, "several": 3}
    replayed = Lanes(store_on(store.backend).kernel(REALM)).commit(MAIN, whole)
    assert replayed.replayed and replayed.logged == several.logged
    assert len(checked_log(lanes.kernel)) == len(entries)


def test_a_pointer_whose_store_is_slow_does_not_hold_up_another(store: Store, backend: FaultyBackend) -> None:
    committer = store.kernel(REALM).committer
    pause = Pause("commit")
    backend.arm(pause.fault)
    slow = committer.submit("slow", Bump(writer="w"))
    assert pause.reached.wait(10)
    assert committer.submit("quick", Bump(writer="w")).result(10).logged is not None
    assert not slow.done()
    pause.wake()
    assert slow.result(10).logged is not None


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_full_lane_refuses_new_requests_and_commits_accepted_ones(
    store: Store, backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "WAITING_REQUESTS_MAX", 5)
    kernel = store.kernel(REALM)
    pause = Pause("commit")
    backend.arm(pause.fault)
    taken = [kernel.committer.submit(MAIN, Bump(writer="w"))]
    assert pause.reached.wait(10)
    taken += [kernel.committer.submit(MAIN, Bump(writer="w")) for _ in range(5)]
    with pytest.raises(LaneFull):
        kernel.committer.submit(MAIN, Bump(writer="refused"))
    pause.wake()
    assert all(future.result(10).logged is not None for future in taken)
    assert vector_of(checked_log(kernel)) == {"w": 6}


def test_running_out_of_attempts_is_its_own_error_and_never_a_conflict(backend: FaultyBackend) -> None:
    policy = RetryPolicy(attempts_max=5, seconds_max=60, delay_seconds_first=0.0001, delay_seconds_max=0.001)
    others = Lanes(store_on(backend.inner).kernel(REALM))
    others.commit(MAIN, Bump(writer="others"))
    always = [first("commit", lambda: others.landed(MAIN, Bump(writer="others"))) for _ in range(5)]
    backend.arm(*always)
    lanes = Lanes(store_on(backend, retries=policy).kernel(REALM))
    refused, exhausted = lanes.together(MAIN, Write(expected={"vector": None}), Bump(writer="unlucky"))
    assert isinstance(exhausted, CommitRetriesExhausted) and exhausted.facts["attempts"] == 5
    assert isinstance(refused, CommitRetriesExhausted), "a conflict that no head confirmed"
    assert all(fault.fired for fault in always) and lanes.stats.lost == 5
    assert vector_of(checked_log(lanes.kernel)) == {"others": 6}


def test_lanes_that_never_rest_do_not_keep_others_from_a_thread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "LANES_AT_ONCE", 2)
    with store_on(store.backend) as crowded:
        kernel = crowded.kernel(REALM)
        resting = threading.Event()

        def never_rests(pointer: str) -> None:
            def again(_: Future[CommitOutcome]) -> None:
                if not resting.is_set():
                    kernel.committer.submit(pointer, Bump(writer="w")).add_done_callback(again)

            for _ in range(2):
                kernel.committer.submit(pointer, Bump(writer="w")).add_done_callback(again)

        for pointer in ("busy-1", "busy-2", "busy-3"):
            never_rests(pointer)
        try:
            assert kernel.committer.submit("quiet", Bump(writer="q")).result(20).logged is not None
        finally:
            resting.set()


def _has_idle_thread(lanes: committer.Committer) -> bool:
    deadline = time.monotonic() + 10
    while not lanes._idle and time.monotonic() < deadline:
        time.sleep(0.001)
    return bool(lanes._idle)


def test_a_thread_that_receives_a_lane_while_it_stops_waiting_runs_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, late = committer._IdleThread.wait, threading.Event()

    def too_late(thread: committer._IdleThread, seconds: float = -1) -> bool:
        if seconds < 0:
            return wait(thread)
        if wait(thread, 10):
            thread._woken.release()
            late.set()
        return False

    monkeypatch.setattr(committer._IdleThread, "wait", too_late)
    kernel = store.kernel(REALM)
    for _ in range(2):
        assert kernel.committer.submit(MAIN, Bump(writer="w")).result(10).logged is not None
        assert _has_idle_thread(kernel.committer)
    assert late.is_set()


def test_a_thread_that_waits_for_a_lane_does_not_hold_up_closing(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "IDLE_SECONDS", 3_600)
    store = store_on(backend)
    kernel = store.kernel(REALM)
    kernel.committer.commit(MAIN, Bump(writer="w"))
    assert _has_idle_thread(kernel.committer)
    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


def test_lanes_that_rest_are_forgotten_beyond_a_bound_and_lose_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "LANES_KEPT_MAX", 10)
    kernel = store.kernel(REALM)
    for n in range(60):
        kernel.committer.commit(f"pointer-{n % 30}", Bump(writer="w"))
    assert len(kernel.committer._lanes) <= 12
    assert all(vector_of(checked_log(kernel, f"pointer-{n}")) == {"w": 2} for n in range(30))


def test_a_closed_committer_finishes_accepted_requests_and_refuses_new_ones(backend: FaultyBackend) -> None:
    store = store_on(backend)
    kernel = store.kernel(REALM)
    taken = [kernel.committer.submit(MAIN, Bump(writer="w")) for _ in range(600)]
    store.close()
    assert all(future.done() and future.result().logged is not None for future in taken)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            kernel.committer.commit(MAIN, Bump(writer="late"))


# ── callers that go away, listeners that fail ───────────────────────────────────────────────────────────────


def test_a_caller_that_disconnects_cancels_only_its_own_request(store: Store, backend: FaultyBackend) -> None:
    kernel = store.kernel(REALM)
    pause = Pause("commit")
    backend.arm(pause.fault)

    async def callers() -> list[CommitOutcome | BaseException]:
        first_in = asyncio.ensure_future(kernel.committer.commit_async(MAIN, Bump(writer="in flight")))
        assert await asyncio.to_thread(pause.reached.wait, 10)
        waiting = [asyncio.ensure_future(kernel.committer.commit_async(MAIN, Bump(writer=f"w{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        first_in.cancel()
        waiting[1].cancel()
        await asyncio.sleep(0)
        pause.wake()
        return await asyncio.gather(*waiting, return_exceptions=True)

    one, cancelled, three = asyncio.run(callers())
    assert isinstance(one, CommitOutcome) and isinstance(cancelled, asyncio.CancelledError) and isinstance(three, CommitOutcome)
    assert vector_of(checked_log(kernel)) == {"in flight": 1, "w0": 1, "w2": 1}


def test_a_listener_that_fails_does_not_make_a_landed_commit_look_failed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = store.kernel(REALM)
    told: list[int] = []

    def listener(_: str, draft: Draft) -> None:
        told.append(draft.head.seq)
        raise RuntimeError("a closed event loop")

    kernel.on_moved(listener)
    assert kernel.committer.commit(MAIN, Bump(writer="w")).logged is not None
    assert told == [1] and "listener" in caplog.text


# ── request ids ─────────────────────────────────────────────────────────────────────────────────────────────


def callers_write(value: int = 1) -> Write:
    return Write(puts={"a": {"v": value}}, request_id_is_callers=True)


def test_one_request_id_twice_in_a_batch_is_one_entry(store: Store) -> None:
    lanes, write = Lanes(store.kernel(REALM)), callers_write()
    one, other, two = lanes.together(MAIN, write, Bump(writer="w"), write)
    assert isinstance(one, CommitOutcome) and isinstance(two, CommitOutcome) and isinstance(other, CommitOutcome)
    assert two.replayed and not one.replayed and one.logged == two.logged
    assert len(checked_log(lanes.kernel)) == 2


def test_one_request_id_twice_is_one_entry_in_one_process_in_two_and_after_a_restart(
    two_stores: tuple[Store, Store], tmp_path: Path
) -> None:
    one, two = (Lanes(store.kernel(REALM)) for store in two_stores)
    writes = [callers_write(n) for n in range(4)]
    landed = [one.landed(MAIN, write) for write in writes]
    two.commit(MAIN, Bump(writer="w"))
    for n in range(60):
        one.commit(MAIN, Bump(writer="w")), two.commit(MAIN, callers_write(n))
    with new_store(f"sqlite:///{tmp_path}/shared.db") as restarted:
        for lanes in (one, two, Lanes(restarted.kernel(REALM))):
            for write, logged in zip(writes, landed, strict=True):
                answer = lanes.commit(MAIN, write)
                assert answer.replayed and answer.logged == logged
    ids = request_ids(checked_log(one.kernel))
    assert len(ids) == len(set(ids)) == 4 + 1 + 120


def test_an_entry_that_was_only_drafted_is_not_taken_for_one_that_landed(backend: FaultyBackend) -> None:
    others = Lanes(store_on(backend.inner).kernel(REALM))
    others.commit(MAIN, Bump(writer="others"))
    fault = backend.arm(first("commit", lambda: others.landed(MAIN, Bump(writer="others"))))
    cold = Lanes(store_on(backend).kernel(REALM))
    own, callers = Write(puts={"b": {"v": 1}}), callers_write()
    cold.together(MAIN, own, callers)
    assert fault.fired == 1
    ids = request_ids(checked_log(cold.kernel))
    assert ids.count(own.request_id) == 1 and ids.count(callers.request_id) == 1 and len(ids) == 4


def test_a_request_that_another_process_is_committing_right_now_is_one_entry(backend: FaultyBackend) -> None:
    write = callers_write()
    others = Lanes(store_on(backend.inner).kernel(REALM))
    others.commit(MAIN, Bump(writer="others"))
    fault = backend.arm(first("commit", lambda: others.landed(MAIN, write)))
    answer = Lanes(store_on(backend).kernel(REALM)).commit(MAIN, write)
    assert fault.fired == 1 and answer.replayed
    assert request_ids(checked_log(others.kernel)).count(write.request_id) == 1


def test_a_replay_of_a_big_commit_has_all_its_operations(store: Store) -> None:
    big = Write(puts={f"k{n}": {"text": "x" * 900} for n in range(400)}, request_id_is_callers=True)
    landed = Lanes(store.kernel(REALM)).landed(MAIN, big)
    assert landed.entry.operations_id and len(landed.entry.operations) == 400
    assert Lanes(store_on(store.backend).kernel(REALM)).landed(MAIN, big) == landed


def test_a_request_without_an_id_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        store.kernel(REALM).committer.commit(MAIN, Write(puts={"a": {"v": 1}}, request_id=""))


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_entry_times_increase_strictly_even_if_the_clock_goes_back(backend: FaultyBackend) -> None:
    clock = ManualClock()
    lanes = Lanes(store_on(backend, clock=clock).kernel(REALM))
    lanes.together(MAIN, *[Bump(writer="frozen") for _ in range(5)])
    clock.move(-0.5)
    lanes.commit(MAIN, Bump(writer="back by half a second"))
    behind = ManualClock(clock.micros - 3_600_000_000)
    Lanes(store_on(backend, clock=behind).kernel(REALM)).commit(MAIN, Bump(writer="an hour behind"))
    clock.move(10)
    lanes.commit(MAIN, Bump(writer="right again"))
    times = [logged.entry.time for logged in checked_log(lanes.kernel)]
    assert times == sorted(set(times)) and len(times) == 8
    assert times[:5] == list(range(times[0], times[0] + 5)) and times[-1] == clock.micros


def test_a_clock_that_is_set_back_while_others_win_neither_fails_nor_hangs_the_commit(backend: FaultyBackend) -> None:
    clock = ManualClock()
    others = Lanes(store_on(backend.inner, clock=ManualClock()).kernel(REALM))
    others.commit(MAIN, Bump(writer="others"))

    def win_and_turn_back() -> None:
        others.commit(MAIN, Bump(writer="others"))
        clock.move(-0.4)

    faults = [first("commit", win_and_turn_back) for _ in range(3)]
    backend.arm(*faults)
    lanes = Lanes(store_on(backend, clock=clock).kernel(REALM))
    assert lanes.commit(MAIN, Bump(writer="w")).logged is not None
    assert all(fault.fired for fault in faults)
    assert vector_of(checked_log(lanes.kernel)) == {"others": 4, "w": 1}


def test_a_node_lease_that_ran_out_and_went_to_another_process_costs_no_commit(backend: FaultyBackend) -> None:
    clock = ManualClock()
    sleeper, others = (Lanes(store_on(backend, clock=clock).kernel(REALM)) for _ in range(2))
    sleeper.commit(MAIN, Bump(writer="sleeper"))
    clock.move(100_000)
    others.commit(MAIN, Bump(writer="others"))  # whose process begins with the same node
    sleeper.commit(MAIN, Bump(writer="sleeper"))
    assert vector_of(checked_log(sleeper.kernel)) == {"sleeper": 2, "others": 1}
