"""One fault at a time at every write of a commit: crashes, lost answers, doubled and buried ones, fences and cuts between."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.coordination.realm_fence import read_realm_fence, take_realm_fence
from headwater.persistence.log.log_entry import ENTRY, objects_added
from headwater.persistence.rows import FENCE_CLOSED, PointerRow, Table
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import CommitConflict, CommitOutcomeUnknown, RealmNotActive, StoreAccessDenied, StoreUnavailable
from tests.support.faults.faulty_backend import (
    Crash,
    Fault,
    FaultyBackend,
    Pause,
    crash_after,
    crash_before,
    first,
    twice,
    unavailable,
    unknown,
)
from tests.support.faults.manual_clock import ManualClock
from tests.support.models.commit_harness import (
    HASTY,
    MAIN,
    REALM,
    Lanes,
    Write,
    checked_log,
    cut,
    folded,
    move_row,
    request_ids,
    state_at,
    store_on,
)

STEPS = {"one transaction": False, "two steps": True}
CAS = {False: "commit", True: "cas_pointer"}
QUICK = RetryPolicy(attempts_max=4, seconds_max=2, delay_seconds_first=0.0005, delay_seconds_max=0.001, decide_seconds_max=0.02)


class Bench:
    """A writer behind a faulty backend, and another one on the same rows that nothing happens to."""

    def __init__(self, inner: Backend, *, in_two_steps: bool, retries: RetryPolicy = HASTY) -> None:
        self.inner = inner
        self.faulty = FaultyBackend(inner, in_two_steps=in_two_steps)
        self.cas = CAS[in_two_steps]
        self.store = store_on(self.faulty, retries=retries)
        self.lanes = Lanes(self.store.kernel(REALM))
        self.others = Lanes(store_on(inner).kernel(REALM))
        self.others_written = 0

    @property
    def kernel(self) -> RealmKernel:
        """As a reader in another process sees it."""
        return store_on(self.inner).kernel(REALM)

    def others_commit(self, count: int = 1) -> None:
        for _ in range(count):
            self.others_written += 1
            self.others.landed(MAIN, Write(puts={"others": {"v": self.others_written}}))

    def arm(self, fault: Fault) -> Fault:
        return self.faulty.arm(fault)


@pytest.fixture
def inner() -> MemoryBackend:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return backend


@pytest.fixture(params=list(STEPS.values()), ids=list(STEPS))
def in_two_steps(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def bench(inner: MemoryBackend, in_two_steps: bool) -> Iterator[Bench]:
    made = Bench(inner, in_two_steps=in_two_steps)
    made.others_commit(30)
    yield made
    made.faulty.disarm()


def check_history(bench: Bench, *ours: Write) -> None:
    """Each of our requests once, everything of the others, and the state that all of them make."""
    entries = checked_log(bench.kernel)
    ids = request_ids(entries)
    assert [ids.count(write.request_id) for write in ours] == [1] * len(ours)
    assert len(entries) == bench.others_written + len(ours)
    assert state_at(bench.kernel, entries[-1]) == folded(entries)


# ── lost attempts ───────────────────────────────────────────────────────────────────────────────────────────


def stored(bench: Bench) -> dict[int, str]:
    """Types by id."""
    scans = (bench.inner.scan(split, realm=REALM) for split in bench.inner.splits(Table.OBJECTS, 1))
    return {row.id: row.type for scan in scans for row in scan}


@pytest.mark.parametrize("bytes_each", [10, 60_000], ids=["small", "with operations that are stored apart"])
def test_rows_of_an_attempt_that_was_lost_are_gone_at_once(bench: Bench, bytes_each: int) -> None:
    """What is new is what the log names, and one row for the request."""
    write = Write(puts={f"k{n}": {"v": "x" * bytes_each} for n in range(8)}, request_id_is_callers=True)
    before = stored(bench)
    fault = bench.arm(first(bench.cas, bench.others_commit))
    bench.lanes.commit(MAIN, write)
    assert fault.fired == 1
    check_history(bench, write)
    entries = [logged for logged in checked_log(bench.kernel) if logged.object_id not in before]
    named = {id for logged in entries for id in objects_added(logged.entry, logged.object_id)}
    new = {id: type for id, type in stored(bench).items() if id not in before}
    assert {id for id, type in new.items() if type != "request"} == named
    assert list(new.values()).count("request") == 1


def test_an_attempt_whose_rows_cannot_be_removed_is_repeated_anyway(inner: MemoryBackend) -> None:
    bench = Bench(inner, in_two_steps=True)
    bench.others_commit(3)
    write = Write(puts={"a": {"v": 1}})
    faults = [bench.arm(first(bench.cas, bench.others_commit)), bench.arm(unavailable("remove_objects"))]
    bench.lanes.commit(MAIN, write)
    assert [fault.fired for fault in faults] == [1, 1]
    check_history(bench, write)


def test_rows_of_an_attempt_of_unknown_outcome_stay(inner: MemoryBackend) -> None:
    bench = Bench(inner, in_two_steps=True, retries=QUICK)
    bench.others_commit(3)
    before = stored(bench)
    bench.arm(unknown(bench.cas, landed=False))
    for _ in range(1_000):  # until time runs out
        bench.arm(unavailable("decide_pointer"))
    with pytest.raises(CommitOutcomeUnknown):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
    assert bench.faulty.calls["remove_objects"] == 0
    assert set(stored(bench).values()) == {"entry", "content"} and len(stored(bench)) == len(before) + 2


# ── unknown outcomes ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not landed"])
@pytest.mark.parametrize("burying", [0, 1, 60], ids=["alone", "one on top", "sixty on top"])
def test_an_unanswered_commit_is_in_the_log_once_under_any_number_of_later_ones(
    bench: Bench, landed: bool, burying: int
) -> None:
    fault = bench.arm(unknown(bench.cas, landed=landed, then=lambda: bench.others_commit(burying)))
    write = Write(puts={"a": {"v": 1}})
    answer = bench.lanes.commit(MAIN, write)
    assert fault.fired == 1
    assert answer.logged is not None and answer.logged.entry.seq == (31 if landed else 31 + burying)
    assert not answer.replayed, "it was called lost, and only its request id kept it from landing twice"
    check_history(bench, write)


@pytest.mark.parametrize("burying", [0, 1, 60])
def test_a_commit_that_the_driver_sent_twice_is_in_the_log_once(bench: Bench, burying: int) -> None:
    fault = bench.arm(twice(bench.cas, between=lambda: bench.others_commit(burying)))
    write = Write(puts={"a": {"v": 1}})
    answer = bench.lanes.commit(MAIN, write)
    assert fault.fired == 1 and not answer.replayed
    check_history(bench, write)


def test_a_batch_whose_answer_is_lost_three_times_is_in_the_log_once_and_in_order(bench: Bench) -> None:
    faults = [unknown(bench.cas, landed=False), unknown(bench.cas, landed=True), unavailable("decide_pointer")]
    for fault in faults:
        bench.arm(fault)
    writes = [Write(puts={"a": {"v": n}}) for n in range(5)]
    bench.lanes.together(MAIN, *writes)
    assert all(fault.fired for fault in faults)
    check_history(bench, *writes)
    assert request_ids(checked_log(bench.kernel))[-5:] == [write.request_id for write in writes]


def test_a_lost_attempt_is_applied_again_to_the_new_head(bench: Bench) -> None:
    write = Write(puts={"a": {"v": 1}}, expected={"others": {"v": 31}})
    fault = bench.arm(first(bench.cas, bench.others_commit))
    with pytest.raises(CommitConflict):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 0}}, expected={"others": {"v": 30}}))
    assert fault.fired == 1
    bench.lanes.commit(MAIN, write)
    check_history(bench, write)


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not landed"])
def test_an_undecided_commit_is_reported_with_its_entry_id_and_a_retry_applies_it_once(
    inner: MemoryBackend, in_two_steps: bool, landed: bool
) -> None:
    bench = Bench(inner, in_two_steps=in_two_steps, retries=QUICK)
    bench.others_commit(3)
    bench.lanes.commit(MAIN, before := Write(puts={"b": {"v": 1}}, request_id_is_callers=True))
    outage = [unavailable("decide_pointer") for _ in range(200)]
    bench.arm(unknown(bench.cas, landed=landed))
    bench.faulty.arm(*outage)
    write = Write(puts={"a": {"v": 1}}, request_id_is_callers=True)
    again, undecided = bench.lanes.together(MAIN, before, write)
    assert isinstance(undecided, CommitOutcomeUnknown) and outage[0].fired
    assert not isinstance(again, BaseException) and again.replayed, "what was in the log before is known"
    bench.faulty.disarm()
    bench.others_commit(2)
    answer = bench.lanes.commit(MAIN, write)
    assert answer.replayed is landed and answer.logged is not None
    assert landed == (answer.logged.entry_id.hex() == undecided.facts["entry_id"])
    check_history(bench, before, write)


def test_each_undecided_request_of_a_batch_gets_its_own_entry_id(inner: MemoryBackend, in_two_steps: bool) -> None:
    bench = Bench(inner, in_two_steps=in_two_steps, retries=QUICK)
    bench.others_commit(3)
    bench.lanes.commit(MAIN, Write(puts={"b": {"v": 1}}))
    bench.arm(unknown(bench.cas, landed=True))
    bench.faulty.arm(*[unavailable("decide_pointer") for _ in range(200)])
    writes = [Write(puts={"a": {"v": n}}) for n in range(3)]
    refused = Write(puts={"a": {"v": 9}}, expected={"a": {"v": 0}})
    *answers, unconfirmed = bench.lanes.together(MAIN, *writes, refused)
    entries = checked_log(bench.kernel)[-3:]
    assert request_ids(entries) == [write.request_id for write in writes]
    assert all(isinstance(answer, CommitOutcomeUnknown) for answer in answers)
    told = [answer.facts["entry_id"] for answer in answers if isinstance(answer, CommitOutcomeUnknown)]
    assert told == [logged.entry_id.hex() for logged in entries]
    assert isinstance(unconfirmed, CommitOutcomeUnknown), "a conflict with what nobody knows to be there"


def test_an_unanswered_commit_whose_history_was_swept_meanwhile_is_unknown_and_never_called_lost(bench: Bench) -> None:
    def bury_and_sweep() -> None:
        bench.others_commit(60)
        gone = {logged.object_id for logged in checked_log(bench.kernel)[:80]}
        cut(bench.kernel, MAIN, 81)
        for split in bench.inner.splits(Table.OBJECTS, 1):
            bench.inner.delete_scanned([row for row in bench.inner.scan(split) if row.id in gone])

    fault = bench.arm(unknown(bench.cas, landed=True, then=bury_and_sweep))
    with pytest.raises(CommitOutcomeUnknown):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
    assert fault.fired == 1


@pytest.mark.parametrize("method", ["add_name", "reserve_pointer", "write_objects"])
def test_an_unanswered_write_before_the_one_that_commits_is_not_an_unknown_commit(inner: MemoryBackend, method: str) -> None:
    bench = Bench(inner, in_two_steps=False)
    faults = [unknown(method, landed=False), unknown(method, landed=True)]
    bench.faulty.arm(*faults)
    write = big_write()
    bench.lanes.commit(MAIN, write)
    assert all(fault.fired for fault in faults)
    check_history(bench, write)


def test_an_unanswered_commit_is_unknown_also_where_the_store_then_refuses_to_talk(bench: Bench) -> None:
    def refuse(_: object) -> None:
        raise StoreAccessDenied("the password was changed.")

    refusal = Fault("decide_pointer", refuse)
    bench.arm(unknown(bench.cas, landed=True))
    bench.arm(refusal)
    with pytest.raises(CommitOutcomeUnknown):
        bench.lanes.commit(MAIN, write := Write(puts={"a": {"v": 1}}))
    assert refusal.fired == 1
    check_history(bench, write)


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


def big_write(value: int = 1) -> Write:
    """Its operations take several rows, its contents many: it has every kind of write that a commit can have."""
    return Write(puts={f"big-{n}": {"v": value, "text": "x" * 900} for n in range(900)}, request_id_is_callers=True)


def write_points(in_two_steps: bool) -> list[Fault]:
    """A crash before the first write of a new pointer's big commit, after the last, and between any two."""
    objects = 3 if in_two_steps else 2  # later parts, part 0, and the objects of the commit
    methods = [("add_name", 0), ("reserve_pointer", 0), *[("write_objects", n) for n in range(objects)], (CAS[in_two_steps], 0)]
    return [crash(method, skip=skip) for method, skip in methods for crash in (crash_before, crash_after)]


@pytest.mark.parametrize("number", range(12))
def test_a_crash_between_any_two_writes_leaves_all_of_the_commit_or_nothing(
    inner: MemoryBackend, in_two_steps: bool, number: int
) -> None:
    points = write_points(in_two_steps)
    if number >= len(points):
        assert not in_two_steps  # a transaction has fewer points
        return
    bench = Bench(inner, in_two_steps=in_two_steps)
    fault = bench.arm(points[number])
    write = big_write()
    with pytest.raises(Crash):
        bench.lanes.commit(MAIN, write)
    assert fault.fired == 1
    landed = fault.name == f"crash after {bench.cas}"
    row = inner.read_pointer(REALM, MAIN)
    assert (row is not None and row.seq == 1) == landed
    assert row is None or inner.list_names(REALM) == [MAIN], "a pointer that no list of names leads to"
    next_process = Bench(inner, in_two_steps=in_two_steps)
    answer = next_process.lanes.commit(MAIN, write)
    assert answer.replayed is landed
    check_history(next_process, write)


# ── fences, cuts, closed pointers ───────────────────────────────────────────────────────────────────────────


def created_at_of(backend: Backend) -> dict[int, int]:
    return {row.id: row.created_at for split in backend.splits(Table.OBJECTS, 1) for row in backend.scan(split, realm=REALM)}


def test_a_paused_writer_that_wakes_after_a_fence_reuses_nothing_that_it_had_prepared(bench: Bench) -> None:
    pause = Pause(bench.cas)
    bench.arm(pause.fault)
    write = big_write()
    sleeper = threading.Thread(target=bench.lanes.commit, args=(MAIN, write))
    sleeper.start()
    assert pause.reached.wait(10)
    fence = bench.store.clock.now_micros() + 3_600_000_000
    move_row(bench.inner, MAIN, lambda row: msgspec.structs.replace(row, fence=fence))
    prepared = set(created_at_of(bench.inner))
    pause.wake()
    sleeper.join()
    check_history(bench, write)
    newest = checked_log(bench.kernel)[-1].entry
    ours = {newest.operations_id, *newest.index_added, *(op.after_id for op in newest.operations)}
    created_at = created_at_of(bench.inner)
    assert not ours & prepared
    assert all(created_at[object_id] >= fence for object_id in ours)


def test_a_truncation_and_a_fence_survive_the_commit_that_they_delayed(bench: Bench) -> None:
    fault = bench.arm(first(bench.cas, lambda: cut(bench.kernel, MAIN, 20)))
    write = Write(puts={"a": {"v": 1}})
    bench.lanes.commit(MAIN, write)
    row = bench.inner.read_pointer(REALM, MAIN)
    assert fault.fired == 1 and row is not None and row.floor == 20 and row.anchor is not None
    entries = checked_log(bench.kernel)
    assert entries[0].entry.seq == 20 and request_ids(entries)[-1] == write.request_id


def test_a_new_pointer_is_reserved_before_it_is_planned_and_takes_over_the_realms_fence(inner: MemoryBackend) -> None:
    bench = Bench(inner, in_two_steps=False)
    clock = bench.store.clock
    fence = clock.now_micros() + 3_600_000_000
    rows_seen: list[PointerRow | None] = []

    class Watching(Write, frozen=True, kw_only=True):
        def plan(self, draft):  # type: ignore[no-untyped-def]
            rows_seen.append(inner.read_pointer(REALM, MAIN))
            return super().plan(draft)

    assert take_realm_fence(inner, read_realm_fence(inner, REALM), fence, clock) is not None
    bench.lanes.commit(MAIN, Watching(puts={"a": {"v": 1}}))
    assert rows_seen[-1] is not None and not rows_seen[-1].head
    row = inner.read_pointer(REALM, MAIN)
    assert row is not None and row.fence == fence
    Bench(inner, in_two_steps=False).lanes.commit(MAIN, Write(puts={"b": {"v": 1}}))
    assert all(created_at >= fence for created_at in created_at_of(inner).values())


def test_a_closed_pointer_refuses_a_lane_that_holds_its_head_and_opens_again(bench: Bench) -> None:
    bench.lanes.commit(MAIN, before := Write(puts={"a": {"v": 1}}))
    move_row(bench.inner, MAIN, lambda row: msgspec.structs.replace(row, fence=FENCE_CLOSED))
    with pytest.raises(RealmNotActive):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 2}}))
    move_row(bench.inner, MAIN, lambda row: msgspec.structs.replace(row, fence=0))
    bench.lanes.commit(MAIN, after := Write(puts={"a": {"v": 3}}))
    check_history(bench, before, after)


def test_a_closed_realm_accepts_no_new_pointer_and_no_row_for_one(inner: MemoryBackend) -> None:
    bench = Bench(inner, in_two_steps=False)
    assert take_realm_fence(inner, read_realm_fence(inner, REALM), FENCE_CLOSED, ManualClock()) is not None
    with pytest.raises(RealmNotActive):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
    assert inner.read_pointer(REALM, MAIN) is None


# ── outages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["read_pointer", "fetch_objects", "commit", "cas_pointer", "write_objects"])
def test_a_store_that_is_away_for_a_moment_only_delays_the_commit(inner: MemoryBackend, method: str) -> None:
    bench = Bench(inner, in_two_steps=method != "commit")
    bench.others_commit(30)
    faults = [unavailable(method), unavailable(method)]
    bench.faulty.arm(*faults)
    write = Write(puts={"a": {"v": 1}}, deletes=("others",))
    bench.lanes.commit(MAIN, write)
    assert all(fault.fired for fault in faults)
    check_history(bench, write)


def test_a_store_that_stays_unreachable_is_reported_as_such_and_nothing_lands_later(bench: Bench) -> None:
    outage = [unavailable(bench.cas) for _ in range(20)]
    bench.faulty.arm(*outage)
    with pytest.raises(StoreUnavailable):
        bench.lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
    assert outage[0].fired
    bench.faulty.disarm()
    bench.lanes.commit(MAIN, after := Write(puts={"a": {"v": 2}}))
    check_history(bench, after)


def test_a_lost_look_into_the_past_is_repeated_before_anything_is_applied(inner: MemoryBackend) -> None:
    bench = Bench(inner, in_two_steps=False)
    write = Write(puts={"a": {"v": 1}}, request_id_is_callers=True)
    bench.others_commit(2)
    bench.others.commit(MAIN, write)
    bench.others_commit(30)
    outage = [unavailable("fetch_objects", skip=n) for n in (0, 1, 2)]
    bench.faulty.arm(*outage)
    assert bench.lanes.commit(MAIN, write).replayed
    assert all(fault.fired for fault in outage)
    check_history(bench, write)


def test_entries_of_lost_attempts_are_never_served(bench: Bench) -> None:
    bench.arm(first(bench.cas, bench.others_commit))
    bench.arm(unavailable("remove_objects"))  # as if the process had ended before it removed them
    lost_and_won = bench.lanes.landed(MAIN, Write(puts={"a": {"v": 1}}))
    entries = checked_log(bench.kernel)
    stored = [row for split in bench.inner.splits(Table.OBJECTS, 1) for row in bench.inner.scan(split, realm=REALM)]
    orphans = {row.id for row in stored if row.type == ENTRY.name} - {logged.object_id for logged in entries}
    assert len(orphans) == (1 if bench.faulty.in_two_steps else 0)
    assert entries[-1] == lost_and_won
