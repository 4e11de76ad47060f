"""Commits, moves, conflicts, crashes, lost answers, fences and cuts in any order, by several processes, against a model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import draft
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import base_state
from headwater.persistence.rows import FENCE_CLOSED, Table
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind, Value
from headwater.schemas.errors import CommitConflict, CommitRetriesExhausted, CursorExpired, RealmNotActive, StoreUnavailable
from tests.support.faults.faulty_backend import (
    Crash,
    Fault,
    FaultyBackend,
    crash_after,
    crash_before,
    first,
    twice,
    unavailable,
    unknown,
)
from tests.support.faults.manual_clock import ManualClock
from tests.support.models.commit_harness import (
    REALM,
    Lanes,
    LiveSets,
    MoveTo,
    Write,
    checked_log,
    cut,
    move_row,
    reachable_at,
    request_ids,
    state_at,
    store_on,
)

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
POINTERS = ("main", "side")
PROCESSES = 3
KEYS = [f"key-{n}" for n in range(12)]
FIRED: Counter[str] = Counter()
"""What happened in all runs of the machine."""

pointers = st.sampled_from(POINTERS)
processes = st.integers(0, PROCESSES - 1)
NEW_POINTER_POINTS = ("before add_name", "after add_name", "before reserve_pointer", "after reserve_pointer")
key_sets = st.sets(st.sampled_from(KEYS), min_size=1, max_size=10)


class Step(msgspec.Struct, frozen=True):
    """One entry of the model's log."""

    request_id: str
    state: dict[str, Value]


class CommitMachine(RuleBasedStateMachine):
    @initialize(in_two_steps=st.booleans())
    def open(self, in_two_steps: bool) -> None:
        self.inner = MemoryBackend(MemoryStore())
        self.inner.create_schema()
        self.in_two_steps = in_two_steps
        self.cas = "cas_pointer" if in_two_steps else "commit"
        self.clock = ManualClock()
        self.latest = self.clock.micros
        self.lanes = [self.new_process() for _ in range(PROCESSES)]
        self.reader = store_on(self.inner, clock=self.clock).kernel(REALM)
        self.logs: dict[str, list[Step]] = {pointer: [] for pointer in POINTERS}
        self.floors = dict.fromkeys(POINTERS, 1)
        self.fences = dict.fromkeys(POINTERS, 0)
        self.callers: list[tuple[str, Write]] = []
        self.number = 0

    def new_process(self) -> Lanes:
        """With nothing in memory; its faults are its own."""
        backend = FaultyBackend(self.inner, in_two_steps=self.in_two_steps)
        return Lanes(store_on(backend, clock=self.clock).kernel(REALM))

    def backend_of(self, process: int) -> FaultyBackend:
        backend = self.lanes[process].kernel.store.backend
        assert isinstance(backend, FaultyBackend)
        return backend

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    def state(self, pointer: str) -> dict[str, Value]:
        return self.logs[pointer][-1].state if self.logs[pointer] else {}

    def write(self, keys: set[str], *, callers: bool = False, deletes: bool = False) -> Write:
        self.number += 1
        puts = {} if deletes else {key: {"v": self.number} for key in sorted(keys)}
        return Write(puts=puts, deletes=tuple(sorted(keys)) if deletes else (), request_id_is_callers=callers)

    def applied(self, pointer: str, write: Write) -> None:
        """What the model says of a write that landed; one with nothing to do adds no entry."""
        before = self.state(pointer)
        after = {key: value for key, value in (before | write.puts).items() if key not in write.deletes}
        if write.puts or after != before:
            self.logs[pointer].append(Step(write.request_id, after))

    def commit(self, process: int, pointer: str, write: Write) -> None:
        self.lanes[process].commit(pointer, write)
        self.applied(pointer, write)

    def with_fault(self, process: int, pointer: str, write: Write, fault: Fault, *, meanwhile: Write | None = None) -> None:
        """Commit under a fault that must not be seen in the outcome; `meanwhile` is what the fault has others commit."""
        self.backend_of(process).arm(fault)
        self.lanes[process].commit(pointer, write)
        self.backend_of(process).disarm()
        assert fault.fired == 1
        FIRED[fault.name] += 1
        if meanwhile is not None and fault.name.endswith("not landed"):
            self.applied(pointer, meanwhile)
            self.applied(pointer, write)
        else:
            self.applied(pointer, write)
            if meanwhile is not None:
                self.applied(pointer, meanwhile)

    # ── commits ─────────────────────────────────────────────────────────────────────────────────────────────

    @rule(process=processes, pointer=pointers, keys=key_sets, deletes=st.booleans())
    def one_commit(self, process: int, pointer: str, keys: set[str], deletes: bool) -> None:
        self.commit(process, pointer, self.write(keys, deletes=deletes))
        FIRED["deletes" if deletes else "puts"] += 1

    @rule(process=processes, pointer=pointers, batch=st.lists(key_sets, min_size=2, max_size=30))
    def a_batch_with_a_conflict_in_it(self, process: int, pointer: str, batch: list[set[str]]) -> None:
        writes = [self.write(keys) for keys in batch]
        conflict = Write(puts={KEYS[0]: {"v": 0}}, expected={KEYS[1]: {"v": "never"}})
        *answers, refused = self.lanes[process].together(pointer, *writes, conflict)
        assert isinstance(refused, CommitConflict) and all(isinstance(answer, CommitOutcome) for answer in answers)
        for write in writes:
            self.applied(pointer, write)
        FIRED["batch"] += 1
        FIRED["conflict in a batch"] += 1

    @rule(process=processes, pointer=pointers, key=st.sampled_from(KEYS), right=st.booleans())
    def an_expected_value(self, process: int, pointer: str, key: str, right: bool) -> None:
        """Whatever head the process holds, only the newest decides."""
        now = self.state(pointer).get(key)
        self.number += 1
        write = Write(puts={key: {"v": self.number}}, expected={key: now if right else {"v": "never"}})
        if right:
            self.commit(process, pointer, write)
        else:
            with pytest.raises(CommitConflict):
                self.lanes[process].commit(pointer, write)
        FIRED["expected value held" if right else "conflict"] += 1

    @rule(process=processes, pointer=pointers, kind=st.sampled_from([Kind.CREATE, Kind.ASSIGN, Kind.DELETE]), data=st.data())
    def move(self, process: int, pointer: str, kind: Kind, data: st.DataObject) -> None:
        bases = [(name, seq) for name in self.logs for seq in range(self.floors[name], len(self.logs[name]) + 1)]
        base = data.draw(st.sampled_from(bases)) if bases and kind is not Kind.DELETE else None
        request = MoveTo(kind=kind, base=base_state(self.entry_at(*base)) if base else None)
        self.lanes[process].commit(pointer, request)
        state = self.logs[base[0]][base[1] - 1].state if base else {}
        self.logs[pointer].append(Step(request.request_id, state))
        FIRED[kind] += 1
        FIRED[f"{kind} with base"] += base is not None

    @rule(process=processes, pointer=pointers, keys=key_sets)
    def a_callers_request(self, process: int, pointer: str, keys: set[str]) -> None:
        write = self.write(keys, callers=True)
        self.commit(process, pointer, write)
        self.callers.append((pointer, write))

    @precondition(lambda self: self.callers)
    @rule(process=processes, data=st.data())
    def a_callers_request_again(self, process: int, data: st.DataObject) -> None:
        pointer, write = data.draw(st.sampled_from(self.callers))
        if write.request_id in [step.request_id for step in self.logs[pointer][self.floors[pointer] - 1 :]]:
            assert self.lanes[process].commit(pointer, write).replayed
            FIRED["replay"] += 1

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(process=processes)
    def restart(self, process: int) -> None:
        self.lanes[process] = self.new_process()
        FIRED["restart"] += 1

    @rule(process=processes, pointer=pointers, big=st.booleans(), when=st.sampled_from(["before", "after"]))
    def crash_at_the_cas(self, process: int, pointer: str, big: bool, when: str) -> None:
        self.lanes[process] = self.new_process()  # with a stale head, the first CAS would not land, and it crashes at that one
        self.crash_at(process, pointer, big, when, self.cas, 0)

    @rule(process=processes, pointer=pointers, when=st.sampled_from(["before", "after"]), data=st.data())
    def crash_at_the_objects(self, process: int, pointer: str, when: str, data: st.DataObject) -> None:
        """A big commit writes its operations apart, and without transactions its objects too."""
        skip = data.draw(st.integers(0, 1)) if self.in_two_steps else 0
        self.crash_at(process, pointer, True, when, "write_objects", skip)

    @rule(process=processes, big=st.booleans(), point=st.sampled_from(NEW_POINTER_POINTS))
    def crash_of_a_new_pointer(self, process: int, big: bool, point: str) -> None:
        pointer = f"new-{self.number}"
        self.logs[pointer], self.floors[pointer], self.fences[pointer] = [], 1, 0
        when, method = point.split()
        self.crash_at(process, pointer, big, when, method, 0)

    def crash_at(self, process: int, pointer: str, big: bool, when: str, method: str, skip: int) -> None:
        fault = (crash_before if when == "before" else crash_after)(method, skip=skip)
        self.backend_of(process).arm(fault)
        write = self.write(set(KEYS if big else KEYS[:2]), callers=True)
        try:
            self.lanes[process].commit(pointer, write)
        except Crash:
            FIRED[f"{fault.name} {skip}"] += 1
        assert fault.fired == self.backend_of(process).dead
        if not fault.fired or fault.name == f"crash after {self.cas}":
            self.applied(pointer, write)
        self.lanes[process] = self.new_process()
        self.callers.append((pointer, write))

    @rule(process=processes, pointer=pointers, keys=key_sets, landed=st.booleans())
    def unknown_outcome(self, process: int, pointer: str, keys: set[str], landed: bool) -> None:
        self.with_fault(process, pointer, self.write(keys), unknown(self.cas, landed=landed))

    @rule(process=processes, pointer=pointers, keys=key_sets, landed=st.booleans(), other=processes)
    def unknown_outcome_buried(self, process: int, pointer: str, keys: set[str], landed: bool, other: int) -> None:
        if other == process:
            return
        self.lanes[process] = self.new_process()  # with a stale head, what is sent would not land
        write, buries = self.write(keys), self.write(keys)
        fault = unknown(self.cas, landed=landed, then=lambda: self.lanes[other].landed(pointer, buries))
        self.with_fault(process, pointer, write, fault, meanwhile=buries)
        FIRED[f"buried, {'landed' if landed else 'not landed'}"] += 1

    @rule(process=processes, pointer=pointers, keys=key_sets)
    def sent_twice(self, process: int, pointer: str, keys: set[str]) -> None:
        self.with_fault(process, pointer, self.write(keys), twice(self.cas))

    @rule(process=processes, pointer=pointers, keys=key_sets, method=st.sampled_from(["cas", "read_pointer"]))
    def away_for_a_moment(self, process: int, pointer: str, keys: set[str], method: str) -> None:
        self.lanes[process] = self.new_process()  # which must read
        self.with_fault(process, pointer, self.write(keys), unavailable(self.cas if method == "cas" else method))

    @rule(process=processes, pointer=pointers, keys=key_sets)
    def away_for_long(self, process: int, pointer: str, keys: set[str]) -> None:
        self.backend_of(process).arm(*[unavailable(self.cas) for _ in range(20)])
        with pytest.raises(StoreUnavailable):
            self.lanes[process].commit(pointer, self.write(keys))
        self.backend_of(process).disarm()
        FIRED["unavailable"] += 1

    @rule(process=processes, pointer=pointers, keys=key_sets, other=processes)
    def always_overtaken(self, process: int, pointer: str, keys: set[str], other: int) -> None:
        if other == process:
            return
        others = [self.write(keys) for _ in range(8)]
        wins: list[Callable[[], None]] = [lambda write=write: self.commit(other, pointer, write) for write in others]  # type: ignore[misc]
        self.backend_of(process).arm(*[first(self.cas, win) for win in wins])
        with pytest.raises(CommitRetriesExhausted):
            self.lanes[process].commit(pointer, self.write(keys))
        self.backend_of(process).disarm()
        FIRED["retries exhausted"] += 1

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(process=processes, pointer=pointers, keys=key_sets)
    def wakes_after_a_fence(self, process: int, pointer: str, keys: set[str]) -> None:
        if not self.logs[pointer]:
            return
        self.fences[pointer] = fence = max(self.fences[pointer], self.clock.micros) + 60_000_000

        def raise_fence() -> None:
            move_row(self.inner, pointer, lambda row: msgspec.structs.replace(row, fence=fence))

        write = self.write(keys)
        self.with_fault(process, pointer, write, first(self.cas, raise_fence))
        entry = self.entry_at(pointer, len(self.logs[pointer]))
        ours = {entry.object_id, *(op.after_id for op in entry.entry.operations), *entry.entry.index_added}
        rows = (row for split in self.inner.splits(Table.OBJECTS, 1) for row in self.inner.scan(split, realm=REALM))
        assert all(row.created_at >= fence for row in rows if row.id in ours)
        FIRED["woke after a fence"] += 1

    @rule(pointer=pointers, process=processes)
    def closed(self, pointer: str, process: int) -> None:
        if not self.logs[pointer]:
            return
        move_row(self.inner, pointer, lambda row: msgspec.structs.replace(row, fence=FENCE_CLOSED))
        with pytest.raises(RealmNotActive):
            self.lanes[process].commit(pointer, self.write({KEYS[0]}))
        move_row(self.inner, pointer, lambda row: msgspec.structs.replace(row, fence=self.fences[pointer]))
        FIRED["closed"] += 1

    @rule(pointer=pointers, data=st.data(), during=st.booleans(), process=processes, keys=key_sets)
    def cut_history(self, pointer: str, data: st.DataObject, during: bool, process: int, keys: set[str]) -> None:
        seqs = range(self.floors[pointer] + 1, len(self.logs[pointer]) + 1)
        if not seqs:
            return
        floor = data.draw(st.sampled_from(seqs))
        if during:
            self.with_fault(process, pointer, self.write(keys), first(self.cas, lambda: cut(self.reader, pointer, floor)))
        else:
            cut(self.reader, pointer, floor)
        self.floors[pointer] = floor
        log = PointerLog(self.reader, pointer)
        if floor > 2:
            with pytest.raises(CursorExpired):
                log.position(floor - 2, log.head())
        FIRED["cut during a commit" if during else "cut"] += 1

    @rule(seconds=st.sampled_from([-0.5, 0.0, 0.001, 3600.0]))
    def the_clock_moves(self, seconds: float) -> None:
        self.latest = max(self.latest, self.clock.micros)
        if self.clock.micros + seconds * 1_000_000 < self.latest - 900_000:
            return  # ids are refused to whoever falls back by more than a second
        self.clock.move(seconds)
        FIRED["clock back" if seconds < 0 else "clock"] += 1

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────

    def entry_at(self, pointer: str, seq: int) -> LogRecord:
        return self.reader.walk.at(PointerLog(self.reader, pointer).head().newest, seq)

    @invariant()
    def the_heads_are_the_models(self) -> None:
        for pointer in self.logs:
            row = self.inner.read_pointer(REALM, pointer)
            assert (row.seq if row else 0) == len(self.logs[pointer])

    def teardown(self) -> None:
        if not hasattr(self, "logs"):
            return
        cold: RealmKernel = store_on(self.inner, clock=self.clock).kernel(REALM)
        whole: dict[str, list[LogRecord]] = {}
        for pointer, steps in self.logs.items():
            if not steps:
                continue
            served = checked_log(cold, pointer)
            assert request_ids(served) == [step.request_id for step in steps[self.floors[pointer] - 1 :]]
            newest = PointerLog(cold, pointer).head().newest
            whole[pointer] = cold.walk.between(newest, 1, len(steps))  # nothing is swept here
        live = LiveSets(whole)
        for pointer, entries in whole.items():
            for logged, step in zip(entries, self.logs[pointer], strict=True):
                assert state_at(cold, logged) == step.state
                assert reachable_at(cold, logged) == live.at(pointer, logged.entry.seq)


ROUNDS_MAX = 8
"""Of random histories, before it is said that something never happens."""


def every_kind_of_event() -> set[str]:
    kinds = {
        "puts", "deletes", "batch", "conflict in a batch", "expected value held", "conflict", "create", "create with base",
        "assign", "assign with base", "delete", "replay", "restart", "buried, landed", "buried, not landed", "unavailable",
        "retries exhausted", "woke after a fence", "closed", "cut", "cut during a commit", "clock", "clock back",
        "read_pointer unavailable",
    }  # fmt: skip
    for cas in ("commit", "cas_pointer"):
        kinds |= {f"{cas} unknown, landed", f"{cas} unknown, not landed", f"{cas} sent twice", f"{cas} unavailable"}
    for when in ("before", "after"):
        points = ["add_name 0", "reserve_pointer 0", "write_objects 0", "write_objects 1", "commit 0", "cas_pointer 0"]
        kinds |= {f"crash {when} {point}" for point in points}
    return kinds


def test_any_order_of_events_leaves_the_log_and_the_states_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 5)
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 300)
    FIRED.clear()
    for round in range(ROUNDS_MAX):
        # The first round is the same in every run; more of them, at random, only until everything has happened once.
        run_state_machine_as_test(CommitMachine, settings=_settled(derandomize=not SOAK and round == 0))
        never = every_kind_of_event() - {kind for kind, count in FIRED.items() if count}
        if not never:
            return
    raise AssertionError(f"never happened: {sorted(never)}")


def _settled(*, derandomize: bool) -> settings:
    return settings(
        max_examples=1_000 if SOAK else 80,
        stateful_step_count=40,
        deadline=None,
        derandomize=derandomize,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
