"""Loads the state of a pointer's head entry: levels, tail, and what the next entry links to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headwater.persistence.index import IndexObject, IndexValue, encode_key
from headwater.persistence.log.jump_links import NO_LINK, JumpLink, JumpPath
from headwater.persistence.log.log_entry import ENTRY, Entry, StoredOperation, tail_ids
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.persistence.rows import PointerRow
from headwater.schemas.change import Op
from headwater.schemas.entry_ids import EMPTY, object_id_of
from headwater.schemas.errors import ChainBroken

Tail = dict[bytes, IndexValue | None]
"""Newest operations by key, over the levels; None is a deletion."""


class Head(msgspec.Struct, frozen=True):
    """The newest state of a pointer that this process knows. `row` is None while there is no such pointer."""

    row: PointerRow | None
    entry: Entry | None
    entry_id: bytes
    object_id: int
    """Of the entry."""
    tail: Tail
    jump_path: JumpPath

    @property
    def seq(self) -> int:
        return 0 if self.entry is None else self.entry.seq

    @property
    def commit(self) -> bytes:
        return EMPTY if self.entry is None else self.entry.commit or self.entry_id

    @property
    def time(self) -> int:
        return 0 if self.entry is None else self.entry.time

    @property
    def levels(self) -> tuple[int, ...]:
        return () if self.entry is None else self.entry.levels

    @property
    def tail_ids(self) -> tuple[int, ...]:
        return () if self.entry is None else tail_ids(self.entry, self.object_id)

    @property
    def tail_entries(self) -> int:
        """How many `tail_ids` there are."""
        if self.entry is None:
            return 0
        return len(self.entry.base_tail) if self.entry.embeds else self.entry.tail_length + 1

    @property
    def link(self) -> JumpLink:
        return NO_LINK if self.entry is None else JumpLink(self.entry.seq, self.object_id)


NO_HEAD = Head(None, None, b"", 0, {}, JumpPath())


def load_head(objects: RealmObjects, row: PointerRow | None) -> Head:
    """Two reads at most: the head entry, then its tail in bulk."""
    if row is None or not row.head:
        return msgspec.structs.replace(NO_HEAD, row=row)
    object_id = object_id_of(row.head)
    entry = objects.fetch(ENTRY, object_id)
    if entry.seq != row.seq:
        raise ChainBroken(f"{entry.pointer}: the head entry has seq {entry.seq}, its pointer says {row.seq}.")
    return Head(row, entry, row.head, object_id, load_tail(objects, entry, object_id), JumpPath())


def as_index_objects(objects: Mapping[int, msgspec.Struct]) -> dict[int, IndexObject]:
    """Those of the objects that belong to an index, as the objects that an entry's levels name always do."""
    return {id: found for id, found in objects.items() if isinstance(found, IndexObject)}


def load_tail(objects: RealmObjects, entry: Entry, object_id: int) -> Tail:
    return tail_of(objects.fetch_many(ENTRY, tail_ids(entry, object_id)).values())


def tail_of(entries: Iterable[Entry]) -> Tail:
    """What these entries, oldest first, do to the index together."""
    tail: Tail = {}
    for entry in entries:
        apply_operations(tail, entry.operations)
    return tail


def apply_operations(tail: Tail, operations: Sequence[StoredOperation]) -> None:
    """What one entry does to the index. All its operations see the state before it: keys are emptied first, then filled, so
    that two tables may change names with each other."""
    for op in operations:
        if op.op is Op.DELETE or op.from_key is not None:
            tail[encode_key(op.key if op.from_key is None else op.from_key)] = None
    for op in operations:
        if op.op is not Op.DELETE:
            tail[encode_key(op.key)] = IndexValue(op.after_id, op.tag)
