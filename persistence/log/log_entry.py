"""The log entry and the contents it puts, as stored, and the `Change` that readers see of it.

Fields that a neighbour already implies are left empty: `head_before` when it is the predecessor's own id, `parent` when it is
`head_before`, `commit` when the entry is itself the commit. `Entry` is array-like: append new fields, never move one.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.schemas.change import COMMITTING_KINDS, Base, Change, KeyPath, Kind, Op, Operation, Source, Value
from headwater.schemas.entry_ids import EMPTY, chain_hash, content_id_text, entry_id, object_id_of, time_text


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The value of one key from one put on; its content id survives renames."""

    content_id: bytes
    type: str
    value: Value


class StoredOperation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One operation by value, with the ids of the content objects that it releases and adds."""

    op: Op
    key: KeyPath
    content_id: bytes
    type: str
    tag: int
    """The content type in the index."""
    before: Value | None
    after: Value | None
    before_id: int = 0
    after_id: int = 0
    from_key: KeyPath | None = None


class StoredBase(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pointer: str
    seq: int
    commit: bytes


class StoredSource(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pointer: str
    commit: bytes


class CommitPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a commit stands: its line of states, which is a pointer and the seq that opened the segment, and the seq there."""

    pointer: str
    segment_seq: int
    seq: int
    time: int
    commit: bytes
    since_time: int = 0
    """For a merged segment: nothing before this time is new to the target."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of a pointer's log: what happened, how to go back from here, and the state after it."""

    pointer: str
    seq: int
    kind: Kind
    previous: bytes
    """Entry id of the predecessor; empty for seq 1."""
    commit: bytes
    parent: bytes
    head_before: bytes
    time: int
    """Microseconds; always later than the predecessor's."""
    author: str
    message: str
    headers: dict[str, str]
    request_id: str
    operations: tuple[StoredOperation, ...]
    index_added: tuple[int, ...]
    index_released: tuple[int, ...]
    levels: tuple[int, ...]
    """The index below the tail, newest level first."""
    embeds: bool
    """Whether `levels` holds the whole state (with `base_tail`), so that the tail starts over behind this entry."""
    back: tuple[int, ...]
    """Object ids of the predecessors down to the last embedding one, oldest first: one bulk read takes them all."""
    tail_length: int
    """How many of `back`, counted from the newest, belong to the tail."""
    jump_id: int
    jump_seq: int
    """The skew-binary jump link: with it any entry is O(log n) reads away."""
    operations_id: int = 0
    """Where the operations are when they exceed a row."""
    base: StoredBase | None = None
    base_tail: tuple[int, ...] = ()
    """The base's tail, which a created or assigned pointer takes over."""
    source: StoredSource | None = None
    entries_released: tuple[int, ...] = ()
    """Entries (and their spilled operations) that are no longer reachable as state after this one."""
    segment_seq: int = 0
    """Seq of the newest create, assign or delete up to here: where this line of states began; 0 if there is none."""
    segment_id: int = 0
    segment_time: int = 0
    """Object id and time of the entry `segment_seq`."""
    merge_seq: int = 0
    merge_id: int = 0
    merge_time: int = 0
    """The newest merge before this entry in its segment: ancestors are found by one read for each merge, not each commit."""
    origin: CommitPlace | None = None
    """The commit that was merged, or that a create or assign started from."""
    brought: tuple[CommitPlace, ...] | None = None
    """⚠ All other segments in which a merge made commits ancestors of its target: what the source descends from is known
    from here when the source's own history has been swept. None if they were too many: then that history is read."""


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """An entry with its id; its operations are in it, also when they are stored apart, unless only its header was read."""

    entry_id: bytes
    entry: Entry

    @property
    def object_id(self) -> int:
        return object_id_of(self.entry_id)

    @property
    def commit(self) -> bytes:
        """The commit that the pointer's head is after this entry."""
        return self.entry.commit or self.entry_id


class SpilledOperations(msgspec.Struct, frozen=True, array_like=True):
    """The operations of an entry that would not fit its row."""

    operations: tuple[StoredOperation, ...]


ENTRY = OBJECT_TYPES.register(ObjectType("entry", Entry, Life.LOGGED))
CONTENT = OBJECT_TYPES.register(ObjectType("content", Content, Life.LOGGED))
SPILLED_OPERATIONS = OBJECT_TYPES.register(ObjectType("entry-ops", SpilledOperations, Life.LOGGED))


def head_before(entry: Entry) -> bytes:
    """The commit that the pointer's head was before this entry."""
    return entry.head_before or entry.previous or EMPTY


def parent(entry: Entry) -> bytes:
    return entry.parent or head_before(entry)


def place_of(logged: LogRecord) -> CommitPlace | None:
    """Of the commit that the pointer's head is after this entry; None for the empty state."""
    entry = logged.entry
    if entry.kind not in COMMITTING_KINDS:
        return entry.origin
    return CommitPlace(entry.pointer, entry.segment_seq, entry.seq, entry.time, logged.entry_id)


def tail_ids(entry: Entry, object_id: int) -> tuple[int, ...]:
    """The entries whose operations, over the levels, make the state after this one; oldest first."""
    if entry.embeds:
        return entry.base_tail
    return (*entry.back[len(entry.back) - entry.tail_length :], object_id)


def reachable_only_as_head(entry: Entry, object_id: int) -> tuple[int, ...]:
    """What the next entry releases of this one beside state: itself, unless its operations are part of the tail."""
    if not entry.embeds:
        return ()
    return (object_id, entry.operations_id) if entry.operations_id else (object_id,)


def objects_added(entry: Entry, object_id: int) -> tuple[int, ...]:
    """What is reachable after this entry and was not before."""
    spilled = (entry.operations_id,) if entry.operations_id else ()
    return (object_id, *spilled, *[op.after_id for op in entry.operations if op.after_id], *entry.index_added)


def objects_released(entry: Entry) -> tuple[int, ...]:
    """What was reachable before this entry and is no longer."""
    return (*[op.before_id for op in entry.operations if op.before_id], *entry.index_released, *entry.entries_released)


def id_of(entry: Entry, object_id: int) -> bytes:
    """The entry id that content and predecessor determine. `entry` has its operations in it, spilled or not."""
    hash_part = chain_hash(
        entry.previous,
        object_id=object_id,
        pointer=entry.pointer,
        seq=entry.seq,
        kind=entry.kind,
        commit=entry.commit,
        parent=parent(entry),
        head_before=head_before(entry),
        time_micros=entry.time,
        author=entry.author,
        message=entry.message,
        headers=entry.headers,
        request_id=entry.request_id,
        operations=[(op.op, op.key, op.from_key, op.content_id, op.type, op.before, op.after) for op in entry.operations],
        objects_added=objects_added(entry, object_id),
        objects_released=objects_released(entry),
        base=None if entry.base is None else (entry.base.pointer, entry.base.seq, entry.base.commit),
        source=None if entry.source is None else (entry.source.pointer, entry.source.commit),
    )
    return entry_id(object_id, hash_part)


def change_of(logged: LogRecord, realm: str) -> Change:
    """The entry as the outside sees it."""
    entry = logged.entry
    return Change(
        realm=realm,
        pointer=entry.pointer,
        seq=entry.seq,
        entry_id=logged.entry_id.hex(),
        kind=entry.kind,
        commit_id=logged.commit.hex(),
        parent_id=parent(entry).hex(),
        head_before=head_before(entry).hex(),
        time=time_text(entry.time),
        author=entry.author,
        message=entry.message,
        headers=entry.headers,
        request_id=entry.request_id,
        operations=tuple(_operation(op) for op in entry.operations),
        objects_added=tuple(f"{added:016x}" for added in objects_added(entry, logged.object_id)),
        objects_released=tuple(f"{released:016x}" for released in objects_released(entry)),
        base=None
        if entry.base is None
        else Base(pointer=entry.base.pointer, seq=entry.base.seq, commit_id=entry.base.commit.hex()),
        source=None if entry.source is None else Source(pointer=entry.source.pointer, commit_id=entry.source.commit.hex()),
    )


def _operation(op: StoredOperation) -> Operation:
    return Operation(
        op=op.op,
        key=op.key,
        content_id=content_id_text(op.content_id),
        type=op.type,
        before=op.before,
        after=op.after,
        from_key=op.from_key,
    )
