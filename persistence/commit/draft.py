"""The entries and objects that would commit plans over a head, one after the other. Nothing is written here.

`Draft` is also what a plan sees of the state: a request that waits behind another one in the same batch is applied to what
that other one would leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from headwater.persistence.clock import Clock
from headwater.persistence.index import DIRECTORY, STRIPE, Index, IndexObject, IndexRoot, IndexValue, Stripe, encode_key, flush
from headwater.persistence.log.committed_requests import CommittedRequest
from headwater.persistence.log.head import Head, Tail, apply_operations, as_index_objects, tail_of
from headwater.persistence.log.jump_links import NO_LINK, JumpLink
from headwater.persistence.log.log_entry import (
    CONTENT,
    ENTRY,
    SPILLED_OPERATIONS,
    CommitPlace,
    Content,
    Entry,
    LogRecord,
    SpilledOperations,
    StoredBase,
    StoredOperation,
    StoredSource,
    id_of,
    reachable_only_as_head,
)
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.objects.object_types import ObjectType
from headwater.persistence.objects.realm_objects import NewObject, RealmObjects
from headwater.schemas.change import COMMITTING_KINDS, KeyPath, Kind, Op, Value
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import InvalidInput

TAIL_ENTRIES_MAX = 24
"""Entries of the tail before it is merged into the index: more make reads of state slower, fewer make writes more expensive."""
TAIL_OPERATIONS_MAX = 256
TAG_MAX = 255
OPERATIONS_BYTES_MAX = 200_000
"""Operations larger than this go into an object of their own, because an entry must fit one row."""

TEXT_BYTES_UNCHECKED = 50_000
"""Author, message and headers up to this fit a row together with the operations that are not put apart."""

_encoded = msgspec.msgpack.Encoder().encode


class IdAllocator(Protocol):
    def take(self, count: int) -> Sequence[int]: ...


class PlannedOperation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operation that the head allows. `before` and `before_id` are what the head holds at the key now."""

    op: Op
    key: KeyPath
    content_id: bytes
    type: str
    tag: int
    after: Value | None = None
    before: Value | None = None
    before_id: int = 0
    from_key: KeyPath | None = None


class BaseState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state that a created or assigned pointer starts from."""

    base: StoredBase
    origin: CommitPlace | None
    """Where the base's commit stands; None for the empty state."""
    levels: tuple[int, ...]
    tail_ids: tuple[int, ...]
    only_as_head: tuple[int, ...]
    """Objects reachable at the base that are not part of its state: the new pointer does not take them over."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a request wants to append to the head that it was planned on."""

    kind: Kind
    author: str
    message: str
    headers: dict[str, str] = {}
    operations: Sequence[PlannedOperation] = ()
    base: BaseState | None = None
    source: StoredSource | None = None
    origin: CommitPlace | None = None
    brought: tuple[CommitPlace, ...] | None = None
    """Of a merge; see `Entry`."""


class Savepoint(msgspec.Struct, frozen=True):
    """A point that a draft can be rolled back to."""

    head: Head
    entries: int
    new_objects: int
    spilled: int


class _State(msgspec.Struct, frozen=True, gc=False):
    """The index after an entry, and what changed in it."""

    tail: Tail
    levels: tuple[int, ...]
    embeds: bool
    added: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


class Draft:
    def __init__(self, pointer: str, head: Head, objects: RealmObjects, ids: IdAllocator, clock: Clock) -> None:
        self.pointer = pointer
        self.head = head
        self.entries: list[LogRecord] = []
        self.requests: list[CommittedRequest] = []
        """Requests that callers may send again."""
        self.new_objects: list[NewObject[Any]] = []
        """Objects that fit one row each and are written in the step that commits."""
        self.spilled: list[NewObject[Any]] = []
        """Objects that may need several rows and are written before that step."""
        self._objects = objects
        self._ids = ids
        self._clock = clock
        self._fresh: dict[int, msgspec.Struct] = {}
        self._index = Index(self.load_index, IndexRoot(head.levels), head.tail)

    # ── what a plan sees ────────────────────────────────────────────────────────────────────────────────────

    @property
    def index(self) -> Index:
        """The state so far; levels that were opened for an earlier request are not opened again."""
        if self._index.root.levels != self.head.levels:
            self._index = Index(self.load_index, IndexRoot(self.head.levels), self.head.tail)
        elif self._index.tail is not self.head.tail:
            self._index = self._index.with_tail(self.head.tail)
        return self._index

    @property
    def walk(self) -> LogWalk:
        """Over the log that would be there if the draft had landed."""
        return LogWalk(self._objects, self._fresh)

    def find(self, key: KeyPath) -> IndexValue | None:
        encoded = encode_key(key)
        if encoded in self.head.tail:
            return self.head.tail[encoded]
        return self.index.get(encoded) if self.head.levels else None

    def content(self, value: IndexValue) -> Content:
        fresh = self._fresh.get(value.object_id)
        return fresh if isinstance(fresh, Content) else self._objects.fetch(CONTENT, value.object_id)

    def contents(self, values: Iterable[IndexValue]) -> dict[int, Content]:
        """By object id, in one bulk read."""
        ids = [value.object_id for value in values]
        fresh = {id: found for id in ids if isinstance(found := self._fresh.get(id), Content)}
        return fresh | self._objects.fetch_many(CONTENT, (id for id in ids if id not in fresh))

    def look_up(self, keys: Iterable[bytes]) -> None:
        """Load what the keys hold into the cache, by one bulk read of stripes and one of contents."""
        found = self.index.get_many(keys)
        stored = [value.object_id for value in found.values() if value.object_id not in self._fresh]
        self._objects.fetch_many(CONTENT, stored, missing_ok=True)

    def load_index(self, ids: Sequence[int]) -> dict[int, IndexObject]:
        """Index objects of this draft or of the store."""
        fresh = {id: self._fresh[id] for id in ids if id in self._fresh}
        return as_index_objects(fresh | self._objects.fetch_any(id for id in ids if id not in fresh))

    # ── what a plan becomes ─────────────────────────────────────────────────────────────────────────────────

    def add(self, plan: Plan, request_id: str) -> LogRecord:
        """Append the entry that the plan becomes; the draft's head moves on to it."""
        _check(plan)
        first_object = len(self.new_objects)
        object_id, *content_ids = self._ids.take(1 + sum([op.after is not None for op in plan.operations]))
        operations = self._with_contents(plan.operations, content_ids)
        spills = _stored_bytes("operations", operations) > OPERATIONS_BYTES_MAX
        state = self._next_state(plan, operations, spills)
        back, tail_length = self._back_links()
        jump, spine = self.head.jump_path.next(self.head.link, self._jump_of)
        origin = plan.base.origin if plan.base else plan.origin
        time = self._time(origin)
        segment_seq, segment_id, segment_time = self._segment(plan, object_id, time)
        merge_seq, merge_id, merge_time = self._newest_merge(plan)
        entry = Entry(
            pointer=self.pointer,
            seq=self.head.seq + 1,
            kind=plan.kind,
            previous=self.head.entry_id,
            commit=_commit_named_by(plan),
            parent=b"",
            head_before=self._head_before_unless_implied(),
            time=time,
            author=plan.author,
            message=plan.message,
            headers=plan.headers,
            request_id=request_id,
            operations=operations,
            index_added=state.added,
            index_released=state.released,
            levels=state.levels,
            embeds=state.embeds,
            back=back,
            tail_length=tail_length,
            jump_id=jump.object_id,
            jump_seq=jump.seq,
            operations_id=self._ids.take(1)[0] if spills else 0,
            base=plan.base.base if plan.base else None,
            base_tail=plan.base.tail_ids if plan.base else (),
            source=plan.source,
            entries_released=self._entries_released(plan, state.embeds),
            segment_seq=segment_seq,
            segment_id=segment_id,
            segment_time=segment_time,
            merge_seq=merge_seq,
            merge_id=merge_id,
            merge_time=merge_time,
            origin=origin,
            brought=plan.brought,
        )
        made = LogRecord(id_of(entry, object_id), entry)
        self._store(made, object_id)
        if spills or _stored_bytes("message", (plan.author, plan.message, plan.headers, request_id)) > TEXT_BYTES_UNCHECKED:
            # What exceeds a row is refused here, where it fails alone, and not when the whole batch is written.
            self._objects.strong_rows(self.new_objects[first_object:], 0)
        self.entries.append(made)
        jump_path = spine.starting_at(JumpLink(entry.seq, object_id))
        self.head = Head(self.head.row, entry, made.entry_id, object_id, state.tail, jump_path)
        return made

    def savepoint(self) -> Savepoint:
        return Savepoint(self.head, len(self.entries), len(self.new_objects), len(self.spilled))

    def rollback_to(self, mark: Savepoint) -> None:
        """Forget what was added since: a request that is refused in its middle leaves nothing behind."""
        self.head = mark.head
        del self.entries[mark.entries :], self.new_objects[mark.new_objects :], self.spilled[mark.spilled :]

    def _with_contents(self, planned: Sequence[PlannedOperation], content_ids: Sequence[int]) -> tuple[StoredOperation, ...]:
        """⚠ Every put and rename writes a content object of its own: a commit references only what its head reaches or what
        it wrote itself, and each object stands at one key of one state."""
        unused_ids = iter(content_ids)
        stored = []
        for op in planned:
            after_id = 0
            if op.after is not None:
                after_id = next(unused_ids)
                self._add(CONTENT, after_id, Content(op.content_id, op.type, op.after))
            stored.append(
                StoredOperation(
                    op.op, op.key, op.content_id, op.type, op.tag, op.before, op.after, op.before_id, after_id, op.from_key
                )
            )
        return tuple(stored)

    def _next_state(self, plan: Plan, operations: tuple[StoredOperation, ...], spills: bool) -> _State:
        if plan.kind not in COMMITTING_KINDS:
            return _State(self._base_tail(plan.base), plan.base.levels if plan.base else (), embeds=True)
        tail = dict(self.head.tail)
        apply_operations(tail, operations)
        follows_base = self.head.entry is not None and bool(self.head.entry.base_tail)
        tail_is_full = self.head.tail_entries + 1 >= TAIL_ENTRIES_MAX or len(tail) >= TAIL_OPERATIONS_MAX
        if not (spills or follows_base or tail_is_full):
            return _State(tail, self.head.levels, embeds=False)
        flushed = flush(self.load_index, IndexRoot(self.head.levels), tail, lambda: self._ids.take(1)[0])
        for id, value in flushed.added:
            self._add(STRIPE if isinstance(value, Stripe) else DIRECTORY, id, value)
        return _State({}, flushed.root.levels, True, tuple(id for id, _ in flushed.added), tuple(flushed.released))

    def _base_tail(self, base: BaseState | None) -> Tail:
        """The base may be an entry of this draft."""
        ids = base.tail_ids if base else ()
        found = self._fresh | self._objects.fetch_many(ENTRY, [id for id in ids if id not in self._fresh])
        return tail_of(entry for id in ids if isinstance(entry := found[id], Entry))

    def _entries_released(self, plan: Plan, embeds: bool) -> tuple[int, ...]:
        if plan.kind not in COMMITTING_KINDS:
            return plan.base.only_as_head if plan.base else ()
        if self.head.entry is None:
            return ()
        no_longer_tail = self.head.tail_ids if embeds else ()
        return (*no_longer_tail, *reachable_only_as_head(self.head.entry, self.head.object_id))

    def _back_links(self) -> tuple[tuple[int, ...], int]:
        """Predecessors down to the last embedding entry, and how many of them are still tail."""
        last = self.head.entry
        if last is None:
            return (), 0
        if last.embeds:
            return (self.head.object_id,), 0
        return (*last.back, self.head.object_id), last.tail_length + 1

    def _time(self, origin: CommitPlace | None) -> int:
        """⚠ Later than all that the entry descends from, whatever the clocks say: ancestors are searched newest first."""
        return max(self._clock.now_micros(), self.head.time + 1, 0 if origin is None else origin.time + 1)

    def _segment(self, plan: Plan, object_id: int, time: int) -> tuple[int, int, int]:
        if plan.kind not in COMMITTING_KINDS:
            return self.head.seq + 1, object_id, time
        last = self.head.entry
        return (0, 0, 0) if last is None else (last.segment_seq, last.segment_id, last.segment_time)

    def _newest_merge(self, plan: Plan) -> tuple[int, int, int]:
        last = self.head.entry
        if last is None or plan.kind not in COMMITTING_KINDS:
            return 0, 0, 0
        if last.kind is Kind.MERGE:
            return last.seq, self.head.object_id, last.time
        return last.merge_seq, last.merge_id, last.merge_time

    def _head_before_unless_implied(self) -> bytes:
        """Empty if the predecessor is itself the commit: readers derive it from the predecessor's id."""
        return b"" if self.head.commit == (self.head.entry_id or EMPTY) else self.head.commit

    def _jump_of(self, link: JumpLink) -> JumpLink:
        """The jump link of an older entry; none where history was cut."""
        if link == self.head.link and self.head.entry is not None:
            return JumpLink(self.head.entry.jump_seq, self.head.entry.jump_id)
        older = self._fresh.get(link.object_id)
        if older is None:
            older = self._objects.fetch_many(ENTRY, [link.object_id], missing_ok=True).get(link.object_id)
        return JumpLink(older.jump_seq, older.jump_id) if isinstance(older, Entry) else NO_LINK

    def _store(self, made: LogRecord, object_id: int) -> None:
        entry = made.entry
        self._fresh[object_id] = entry
        if entry.operations_id:
            self.spilled.append(NewObject(SPILLED_OPERATIONS, entry.operations_id, SpilledOperations(entry.operations)))
            entry = msgspec.structs.replace(entry, operations=())
        self.new_objects.append(NewObject(ENTRY, object_id, entry, made.entry_id))

    def _add(self, object_type: ObjectType[Any], id: int, value: msgspec.Struct) -> None:
        self._fresh[id] = value
        self.new_objects.append(NewObject(object_type, id, value))


def _check(plan: Plan) -> None:
    """Refuse errors that would otherwise only show when the tail is merged into the index, long after the commit."""
    if plan.operations and plan.kind not in COMMITTING_KINDS:
        raise InvalidInput(f"a {plan.kind} has operations.", field="operations", remedy="Commit them afterwards.")
    if plan.base is not None and plan.kind not in (Kind.CREATE, Kind.ASSIGN):
        raise InvalidInput(f"a {plan.kind} has a base.", field="base", remedy="Only create and assign start from one.")
    for op in plan.operations:
        if (op.op is Op.DELETE) != (op.after is None) or (op.op is Op.RENAME) != (op.from_key is not None):
            raise InvalidInput(f"the {op.op} of {op.key} is incomplete.", field="operations", remedy="Give it its value.")
        if not 0 <= op.tag <= TAG_MAX:
            raise InvalidInput(f"{op.key} has the type tag {op.tag}.", field="tag", remedy=f"Tags are 0 to {TAG_MAX}.")
    if len(plan.operations) < 2:
        return
    filled = [op.key for op in plan.operations if op.op is not Op.DELETE]
    emptied = [op.from_key or op.key for op in plan.operations if op.op is not Op.PUT]
    for keys in (filled, emptied):
        if len(set(keys)) != len(keys):
            raise InvalidInput("a key occurs twice in one commit.", field="operations", remedy="Keep the last of them.")


def _stored_bytes(field: str, value: object) -> int:
    try:
        return len(_encoded(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        remedy = "Use JSON values, and integers of 64 bits."
        raise InvalidInput(f"a value cannot be stored: {error}", field=field, remedy=remedy) from error


def _commit_named_by(plan: Plan) -> bytes:
    if plan.kind in COMMITTING_KINDS:
        return b""
    return plan.base.base.commit if plan.base else EMPTY
