"""Random histories of commits, creates, assigns and deletes: the state at every entry is the model's, and what every state
reaches is exactly what the Changes say was added and not released."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import draft
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.state import State, base_state
from headwater.persistence.rows import Table
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind, Op, Value
from headwater.schemas.errors import InvalidInput, ObjectNotFound, ObjectTooLarge
from tests.support.models.commit_harness import (
    MAIN,
    REALM,
    Lanes,
    LiveSets,
    MoveTo,
    Write,
    checked_log,
    new_store,
    reachable_at,
    state_at,
    store_on,
    whole_log,
)

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
POINTERS = ("main", "side", "third")
KEYS = [f"key-{n:04d}" for n in range(40)]
MANY_KEYS = [f"key-{n:04d}" for n in range(4_000)]


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with new_store("memory://") as store:
        yield store.kernel(REALM)


class History:
    """A kernel and its model, moved together by one source of chance."""

    def __init__(self, seed: int, keys: list[str], scale: int = 1) -> None:
        self.keys, self.scale = keys, scale
        backend = MemoryBackend(MemoryStore())
        backend.create_schema()
        self.store = store_on(backend)
        self.kernel = self.store.kernel(REALM)
        self.lanes = Lanes(self.kernel)
        self.chance = random.Random(seed)
        self.states: dict[tuple[str, int], dict[str, Value]] = {}
        self.logs: dict[str, list[LogRecord]] = {}
        self._number = 0

    def step(self, kind: str = "") -> None:
        pointer = self.chance.choice(POINTERS)
        match kind or self.chance.choices(("commit", "big", "move", "forget"), (12, 2, 3, 1))[0]:
            case "commit":
                sizes = [self.chance.randint(1, 4) * self.scale for _ in range(self.chance.randint(1, 6))]
                self._append(pointer, [self._write(size) for size in sizes])
            case "big":
                self._append(pointer, [self._write(30 * self.scale), self._write(2)])
            case "move":
                self._append(pointer, [self._move(pointer), *[self._write(3) for _ in range(self.chance.randint(0, 3))]])
            case "forget":  # another process, which holds no head and no spine
                self.lanes = Lanes(self.kernel)

    def _write(self, count: int) -> Write:
        keys = self.chance.sample(self.keys, count)
        puts = keys[: self.chance.randint(0, count)]
        self._number += 1
        kind = self.chance.choice((Kind.COMMIT, Kind.COMMIT, Kind.MERGE, Kind.TRANSPLANT))
        return Write(puts={key: {"v": self._number, "of": key} for key in puts}, deletes=tuple(keys[len(puts) :]), kind=kind)

    def _move(self, pointer: str) -> MoveTo:
        kind = self.chance.choice((Kind.CREATE, Kind.ASSIGN, Kind.ASSIGN, Kind.DELETE))
        known = [logged for log in self.logs.values() for logged in log]
        if kind is Kind.DELETE or not known or self.chance.random() < 0.2:
            return MoveTo(kind=kind)
        return MoveTo(kind=kind, base=base_state(self.chance.choice(known)))

    def _append(self, pointer: str, requests: list[Write | MoveTo]) -> None:
        log = self.logs.setdefault(pointer, [])
        for request, answer in zip(requests, self.lanes.together(pointer, *requests), strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer.logged is not None:
                state = dict(self.states[pointer, len(log)]) if log else {}
                log.append(answer.logged)
                self.states[pointer, len(log)] = self._after(request, state)

    def _after(self, request: Write | MoveTo, state: dict[str, Value]) -> dict[str, Value]:
        if isinstance(request, MoveTo):
            return {} if request.base is None else self.states[request.base.base.pointer, request.base.base.seq]
        state.update(request.puts)
        return {key: value for key, value in state.items() if key not in request.deletes}

    def check(self) -> None:
        cold = store_on(self.store.backend).kernel(REALM)
        live = LiveSets(self.logs)
        for pointer, log in self.logs.items():
            if not log:
                continue
            assert checked_log(cold, pointer) == log
            for logged in log:
                seq = logged.entry.seq
                assert state_at(cold, logged) == self.states[pointer, seq]
                assert reachable_at(cold, logged) == live.at(pointer, seq), f"{pointer} at {seq}"


def run_history(seed: int, keys: list[str], scale: int, steps: int, tail_entries_max: int) -> History:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "TAIL_ENTRIES_MAX", tail_entries_max)
        patch.setattr(draft, "OPERATIONS_BYTES_MAX", 700 * scale)  # a big commit spills
        history = History(seed, keys, scale)
        for _ in range(steps):
            history.step()
        for kind in ("big", "move", "commit", "forget", "commit"):
            history.step(kind)
        history.check()
    return history


@pytest.mark.parametrize("tail_entries_max", [3, 24])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=500 if SOAK else 30, deadline=None, suppress_health_check=list(HealthCheck))
def test_states_and_reachable_objects_are_the_models_at_every_entry(tail_entries_max: int, seed: int) -> None:
    run_history(seed, KEYS, 1, 30, tail_entries_max)


@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_the_same_holds_where_the_index_has_several_levels_and_stripes(seed: int) -> None:
    history = run_history(seed, MANY_KEYS, 30, 25, 4)
    levels = [logged.entry.levels for log in history.logs.values() for logged in log]
    assert max(map(len, levels)) >= 2
    assert any(logged.entry.operations_id for log in history.logs.values() for logged in log)


def test_a_branch_that_is_committed_to_at_once_keeps_the_tail_of_its_base(kernel: RealmKernel) -> None:
    lanes = Lanes(kernel)
    base = lanes.landed(MAIN, Write(puts={"a": {"v": 1}, "b": {"v": 2}}))
    lanes.landed("branch", MoveTo(kind=Kind.CREATE, base=base_state(base)))
    newest = lanes.landed("branch", Write(puts={"c": {"v": 3}}))
    assert state_at(kernel, newest) == {"a": {"v": 1}, "b": {"v": 2}, "c": {"v": 3}}


def test_a_pointer_can_be_assigned_to_an_entry_of_the_same_batch(kernel: RealmKernel) -> None:
    class BackToHead(MoveTo, frozen=True, kw_only=True):
        def plan(self, seen: draft.Draft) -> draft.Plan:
            return draft.Plan(kind=self.kind, author="harness", message="", base=base_state(seen.entries[-1]))

    answers = Lanes(kernel).together(
        MAIN, Write(puts={"a": {"v": 1}}), BackToHead(kind=Kind.ASSIGN), Write(puts={"b": {"v": 2}})
    )
    assert not any(isinstance(answer, BaseException) for answer in answers)
    assert state_at(kernel, whole_log(kernel)[-1]) == {"a": {"v": 1}, "b": {"v": 2}}


def test_a_commit_of_twenty_thousand_keys_is_one_entry_with_all_its_operations(kernel: RealmKernel) -> None:
    lanes = Lanes(kernel)
    big = {f"key-{n:05d}": {"location": f"s3://bucket/{n}", "snapshot_id": n} for n in range(20_000)}
    logged = lanes.landed(MAIN, Write(puts=big))
    assert logged.entry.operations_id
    lanes.landed(MAIN, Write(puts={"key-00007": {"v": 1}}, deletes=("key-00008",)))
    cold = store_on(kernel.store.backend).kernel(REALM)
    first, last = checked_log(cold)
    assert len(first.entry.operations) == 20_000 and first.entry == logged.entry
    expected = big | {"key-00007": {"v": 1}}
    del expected["key-00008"]
    assert state_at(cold, last) == expected
    live = LiveSets({MAIN: [first, last]})
    assert all(reachable_at(cold, logged) == live.at(MAIN, logged.entry.seq) for logged in (first, last))


def test_two_keys_may_change_names_with_each_other_in_one_commit(kernel: RealmKernel) -> None:
    class Swap(Write, frozen=True, kw_only=True):
        def plan(self, seen: draft.Draft) -> draft.Plan:
            return swap_of(seen, "a", "b")

    lanes = Lanes(kernel)
    lanes.landed(MAIN, Write(puts={"a": {"v": 1}, "b": {"v": 2}}))
    swapped = lanes.landed(MAIN, Swap())
    assert state_at(kernel, swapped) == {"a": {"v": 2}, "b": {"v": 1}}
    assert reachable_at(kernel, swapped) == LiveSets({MAIN: whole_log(kernel)}).at(MAIN, 2)


def swap_of(seen: draft.Draft, one: str, other: str) -> draft.Plan:
    def renamed(source: str, target: str) -> draft.PlannedOperation:
        found = seen.find((source,))
        assert found is not None
        content = seen.content(found)
        return draft.PlannedOperation(
            op=Op.RENAME, key=(target,), from_key=(source,), content_id=content.content_id, type=content.type, tag=7,
            before=content.value, before_id=found.object_id, after=content.value,
        )  # fmt: skip

    return draft.Plan(kind=Kind.COMMIT, author="", message="", operations=[renamed(one, other), renamed(other, one)])


@pytest.mark.parametrize(
    ("spoilt", "error"),
    [
        (Write(puts={"too long" * 100: {"v": 1}}), InvalidInput),
        (Write(puts={"number": {"v": 2**70}}), InvalidInput),
        (Write(puts={"surrogate": {"v": "\ud800"}}), InvalidInput),
        (Write(puts={"large": {"v": "x" * 400_000}}), ObjectTooLarge),
        (Write(puts={"a": {"v": 1}}, message="m" * 400_000), ObjectTooLarge),
    ],
    ids=["key", "number", "text", "content", "message"],
)
def test_a_request_that_cannot_be_stored_fails_alone_and_leaves_no_rows(
    kernel: RealmKernel, spoilt: Write, error: type[Exception]
) -> None:
    before, refused, after = Lanes(kernel).together(MAIN, Write(puts={"x": {"v": 1}}), spoilt, Write(puts={"y": {"v": 2}}))
    assert not isinstance(before, BaseException) and not isinstance(after, BaseException)
    assert isinstance(refused, error)
    _, last = checked_log(kernel)
    assert state_at(kernel, last) == {"x": {"v": 1}, "y": {"v": 2}}
    assert kernel.objects.objects_written == 4  # two entries and their contents


def test_a_state_that_lacks_an_object_is_not_served_in_part(kernel: RealmKernel) -> None:
    logged = Lanes(kernel).landed(MAIN, Write(puts={key: {"v": 1} for key in KEYS}))
    backend = kernel.store.backend
    assert isinstance(backend, MemoryBackend)
    gone = logged.entry.operations[7].after_id
    for table_split in backend.splits(Table.OBJECTS, 1):
        backend.delete_scanned([row for row in backend.scan(table_split) if row.id == gone])
    cold = store_on(backend).kernel(REALM)
    with pytest.raises(ObjectNotFound):
        State(cold, logged).contents(value for _, value in State(cold, logged).index.items())
