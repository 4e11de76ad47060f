"""Simple commits to a kernel, and its log, states and reachable objects, checked against each other."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.draft import BaseState, Draft, Plan, PlannedOperation
from headwater.persistence.commit.lane import Lane, LaneStats
from headwater.persistence.commit.replies import FutureReply
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.index import IndexRoot, decode_key, walk
from headwater.persistence.log.log_entry import (
    LogRecord,
    change_of,
    head_before,
    objects_added,
    objects_released,
    parent,
    tail_ids,
)
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import State
from headwater.persistence.rows import Anchor, PointerRow
from headwater.persistence.store import RealmKernel, Store, StoreOptions
from headwater.schemas.change import COMMITTING_KINDS, Kind, Op, Value
from headwater.schemas.entry_ids import EMPTY, recomputed_entry_id
from headwater.schemas.errors import CommitConflict, StoreUnavailable

REALM = "kernel@1"
MAIN = "main"
CONTENT_TYPE = "THING"
TAG = 7

PATIENT = RetryPolicy(attempts_max=100_000, seconds_max=120.0)
"""For contention tests: who fails under it has starved."""
HASTY = RetryPolicy(
    attempts_max=8, seconds_max=5.0, delay_seconds_first=0.0005, delay_seconds_max=0.002, decide_seconds_max=2.0
)


def fresh_id() -> str:
    return uuid.uuid4().hex


def content_id(key: str) -> bytes:
    return uuid.uuid5(uuid.NAMESPACE_URL, key).bytes


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Puts and deletes by key; `expected` is compared with what the head holds, None for nothing."""

    puts: dict[str, Value] = {}
    deletes: tuple[str, ...] = ()
    expected: dict[str, Value | None] = {}
    request_id: str = msgspec.field(default_factory=fresh_id)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""
    kind: Kind = Kind.COMMIT
    keys_to_read: tuple[bytes, ...] = ()
    message: str = ""

    def plan(self, draft: Draft) -> Plan | None:
        conflicts = [key for key, value in self.expected.items() if value_at(draft, key) != value]
        if conflicts:
            raise CommitConflict(f"the head holds other values at {conflicts}.")
        operations = [operation(draft, key, value) for key, value in self.puts.items()]
        operations += [operation(draft, key, None) for key in self.deletes if value_at(draft, key) is not None]
        if not operations:
            return None
        return Plan(kind=self.kind, author="harness", message=self.message, operations=operations)


class Bump(msgspec.Struct, frozen=True, kw_only=True):
    """One more in the writer's own slot of the shared vector."""

    kind: ClassVar[Kind] = Kind.COMMIT
    keys_to_read: ClassVar[tuple[bytes, ...]] = ()

    writer: str
    key: str = "vector"
    request_id: str = msgspec.field(default_factory=fresh_id)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""

    def plan(self, draft: Draft) -> Plan:
        vector = dict(value_at(draft, self.key) or {})
        vector[self.writer] = vector.get(self.writer, 0) + 1
        planned = operation(draft, self.key, vector)
        return Plan(kind=Kind.COMMIT, author=self.writer, message="bump", operations=[planned])


class MoveTo(msgspec.Struct, frozen=True, kw_only=True):
    """Create, assign or delete a pointer."""

    keys_to_read: ClassVar[tuple[bytes, ...]] = ()
    kind: Kind
    base: BaseState | None = None
    request_id: str = msgspec.field(default_factory=fresh_id)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""

    def plan(self, draft: Draft) -> Plan:
        return Plan(kind=self.kind, author="harness", message=self.kind, base=self.base)


def value_at(draft: Draft, key: str) -> Value | None:
    found = draft.find((key,))
    return None if found is None else draft.content(found).value


def operation(draft: Draft, key: str, after: Value | None) -> PlannedOperation:
    found = draft.find((key,))
    return PlannedOperation(
        op=Op.DELETE if after is None else Op.PUT,
        key=(key,),
        content_id=content_id(key),
        type=CONTENT_TYPE,
        tag=TAG,
        before=None if found is None else draft.content(found).value,
        before_id=0 if found is None else found.object_id,
        after=after,
    )


# ── stores ──────────────────────────────────────────────────────────────────────────────────────────────────


def store_on(
    backend: Backend, *, clock: Clock | None = None, retries: RetryPolicy = HASTY, cache_bytes: int = 64 * 1024 * 1024
) -> Store:
    """A store of its own on a backend that it may share: what another process would be."""
    return Store(backend, StoreOptions(retries=retries, cache_bytes=cache_bytes), clock or SystemClock())


def new_store(url: str, **options: object) -> Store:
    backend = open_backend(url)
    backend.create_schema()
    return store_on(backend, **options)  # type: ignore[arg-type]


def move_row(backend: Backend, pointer: str, change: Callable[[PointerRow], PointerRow], *, realm: str = REALM) -> PointerRow:
    """What maintenance does to a pointer row beside the committer: a CAS, again until it wins."""
    while True:
        row = backend.read_pointer(realm, pointer)
        assert row is not None
        wanted = msgspec.structs.replace(change(row), version=row.version + 1)
        if backend.cas_pointer(realm, pointer, row, wanted):
            return wanted


def cut(kernel: RealmKernel, pointer: str, floor: int) -> None:
    """Raise the floor, with the anchor just below it."""
    log = PointerLog(kernel, pointer)
    below = kernel.walk.at(log.head().newest, floor - 1)
    anchor = Anchor(below.entry_id, below.entry.time)
    move_row(
        kernel.store.backend, pointer, lambda row: msgspec.structs.replace(row, floor=floor, anchor=anchor), realm=kernel.realm
    )


# ── the log, read and checked ───────────────────────────────────────────────────────────────────────────────


def whole_log(kernel: RealmKernel, pointer: str = MAIN) -> list[LogRecord]:
    return list(PointerLog(kernel, pointer).forward())


def checked_log(kernel: RealmKernel, pointer: str = MAIN) -> list[LogRecord]:
    """The log from its floor to one head, both ways; dense, later and later, and each id recomputed from the Change."""
    log = PointerLog(kernel, pointer)
    head = log.head()
    entries: list[LogRecord] = []
    while head.row.floor + len(entries) <= head.seq:
        entries += log.page(head.row.floor - 1 + len(entries), 70, head).entries
    assert list(log.backward(head.seq)) == entries[::-1]
    assert [logged.entry.seq for logged in entries] == list(range(head.row.floor, head.seq + 1))
    assert not entries or entries[-1].entry_id == head.row.head
    previous = head.row.anchor.entry_id.hex() if head.row.anchor else ""
    before = head.row.anchor.time_micros if head.row.anchor else 0
    for logged in entries:
        change = change_of(logged, kernel.realm)
        assert change.entry_id == recomputed_entry_id(change, previous), f"entry {change.seq} does not follow {previous}"
        assert logged.entry.time > before
        previous, before = change.entry_id, logged.entry.time
    for earlier, later in itertools.pairwise([None, *entries] if head.row.floor == 1 else entries):
        check_links(earlier, later)
    return entries


def check_links(earlier: LogRecord | None, later: LogRecord | None) -> None:
    """What an entry says of those before it."""
    assert later is not None
    entry, commits = later.entry, later.entry.kind in COMMITTING_KINDS
    assert head_before(entry) == parent(entry) == (EMPTY if earlier is None else earlier.commit)
    named = later.entry_id if commits else entry.base.commit if entry.base else EMPTY
    assert later.commit == named
    segment_seq, merge_seq = (0, 0) if earlier is None else (earlier.entry.segment_seq, earlier.entry.merge_seq)
    assert entry.segment_seq == (segment_seq if commits else entry.seq)
    if earlier is not None and earlier.entry.kind is Kind.MERGE:
        merge_seq = earlier.entry.seq
    assert entry.merge_seq == (merge_seq if commits else 0)
    assert entry.origin is None or entry.time > entry.origin.time


def request_ids(entries: Iterable[LogRecord]) -> list[str]:
    return [logged.entry.request_id for logged in entries]


def state_at(kernel: RealmKernel, logged: LogRecord) -> dict[str, Value]:
    """Keys and values, as a reader of the state at that entry gets them."""
    state = State(kernel, logged)
    items = list(state.index.items())
    contents = state.contents(value for _, value in items)
    return {decode_key(key)[0]: contents[value.object_id].value for key, value in items}


def folded(entries: Iterable[LogRecord], before: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """The state that operations alone make, by value; each must know what it replaces."""
    state = dict(before or {})
    for logged in entries:
        assert logged.entry.kind in COMMITTING_KINDS
        for op in logged.entry.operations:
            (key,) = op.key
            assert state.get(key) == op.before
            state.pop(key, None)
            if op.after is not None:
                state[key] = op.after
    return state


def vector_of(entries: Iterable[LogRecord], key: str = "vector") -> dict[str, int]:
    """The last vector, having checked that each entry raised its own author's slot by one and touched no other."""
    vector: dict[str, int] = {}
    for logged in entries:
        (op,) = logged.entry.operations
        assert op.key == (key,) and (op.before or {}) == vector
        assert op.after == {**vector, logged.entry.author: vector.get(logged.entry.author, 0) + 1}
        vector = op.after
    return vector


# ── what a state reaches ────────────────────────────────────────────────────────────────────────────────────


def reachable_at(kernel: RealmKernel, logged: LogRecord) -> set[int]:
    """By walking: the entry, its spilled operations, tail entries, index objects, contents."""
    entry, state = logged.entry, State(kernel, logged)
    found = {logged.object_id, *tail_ids(entry, logged.object_id)}
    found |= {entry.operations_id} if entry.operations_id else set()
    found |= set(walk(state.index.load, IndexRoot(entry.levels)))
    return found | {value.object_id for _, value in state.index.items()}


class LiveSets:
    """Live(P, s) by DESIGN's segment rule, from the Changes of all pointers alone."""

    def __init__(self, logs: Mapping[str, Sequence[LogRecord]]) -> None:
        self._logs = logs
        self._known: dict[tuple[str, int], frozenset[int]] = {}

    def at(self, pointer: str, seq: int) -> frozenset[int]:
        if (pointer, seq) not in self._known:
            self._known[pointer, seq] = self._live(pointer, seq)
        return self._known[pointer, seq]

    def _live(self, pointer: str, seq: int) -> frozenset[int]:
        entries = self._logs[pointer][:seq]
        start = max((n for n, logged in enumerate(entries) if logged.entry.kind not in COMMITTING_KINDS), default=0)
        base = entries[start].entry.base
        live = set() if base is None else set(self.at(base.pointer, base.seq))
        for logged in entries[start:]:
            live.update(objects_added(logged.entry, logged.object_id))
            live.difference_update(objects_released(logged.entry))
        return frozenset(live)


def everything_about(kernel: RealmKernel, pointers: Iterable[str]) -> Iterator[tuple[str, LogRecord]]:
    return itertools.chain.from_iterable(((name, logged) for logged in whole_log(kernel, name)) for name in pointers)


def head_commit(kernel: RealmKernel, pointer: str = MAIN) -> bytes:
    row = kernel.store.backend.read_pointer(kernel.realm, pointer)
    return EMPTY if row is None or not row.head else PointerLog(kernel, pointer).head().newest.commit


class NeverThere(StoreUnavailable):
    """What tests raise for a database that cannot be reached."""


# ── lanes without threads ───────────────────────────────────────────────────────────────────────────────────


class Lanes:
    """One lane for each pointer, run in the caller's thread: what is given together is committed in one batch."""

    def __init__(self, kernel: RealmKernel) -> None:
        self.kernel = kernel
        self.stats = LaneStats()
        self._lanes: dict[str, Lane] = {}

    def lane(self, pointer: str) -> Lane:
        if pointer not in self._lanes:
            self._lanes[pointer] = Lane(pointer, self.kernel.committer._context, self.stats)
        return self._lanes[pointer]

    def together(self, pointer: str, *requests: CommitRequest) -> list[CommitOutcome | BaseException]:
        lane = self.lane(pointer)
        replies: list[FutureReply[CommitOutcome]] = [FutureReply() for _ in requests]
        for request, reply in zip(requests, replies, strict=True):
            lane.submit(request, reply)
        while lane.run():
            pass
        return [reply.future.exception() or reply.future.result() for reply in replies]

    def commit(self, pointer: str, request: CommitRequest) -> CommitOutcome:
        (answer,) = self.together(pointer, request)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def landed(self, pointer: str, request: CommitRequest) -> LogRecord:
        logged = self.commit(pointer, request).logged
        assert logged is not None
        return logged
