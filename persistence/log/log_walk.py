"""Walks a pointer's log backwards: by number in O(log n) reads, by time, or a whole range in bulk.

An entry is verified before it is returned with its id: its hash is computed first, once for as
long as the entry is cached. Entries on the way are known by their numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headwater.persistence.log.log_entry import ENTRY, SPILLED_OPERATIONS, Entry, LogRecord, id_of
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.persistence.rows import PointerRow
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import ChainBroken, ObjectNotFound


def has_entry(walk: LogWalk, row: PointerRow, seq: int, entry_id: bytes) -> bool:
    """Whether that entry is in the log of the row's head. Below the floor only the anchor is known; below that, nothing is."""
    if seq > row.seq:
        return False
    if seq >= row.floor:
        return walk.at(walk.header(row.head), seq).entry_id == entry_id
    return seq != row.floor - 1 or row.anchor is None or row.anchor.entry_id == entry_id


class _Step(NamedTuple):
    """An entry passed on the way: neither its hash nor operations that are stored apart have been read."""

    object_id: int
    entry: Entry


class LogWalk:
    def __init__(self, objects: RealmObjects, drafted: Mapping[int, msgspec.Struct] | None = None) -> None:
        """`drafted` entries, by object id, are walked over as if they were stored: a plan sees its own batch."""
        self._objects = objects
        self._drafted = {} if drafted is None else drafted

    def load(self, entry_id: bytes) -> LogRecord:
        """The entry of that id; `ObjectNotFound` where it never was or was swept. The id is verified: one that only begins
        like an entry's names nothing."""
        return self.whole(self.verified_header(entry_id))

    def verified_header(self, entry_id: bytes) -> LogRecord:
        """The same without operations that are stored apart, unless they had to be read for verifying the id."""
        found = self._record(object_id_of(entry_id), self._fetch(object_id_of(entry_id)))
        if found.entry_id != entry_id:
            raise _no_entry(entry_id)
        return found

    def header(self, entry_id: bytes) -> LogRecord:
        """The entry of an id that comes from the store itself, from a row or another entry, without operations that are stored
        apart: a large commit at the head costs no more to look at than a small one. ⚠ Its operations may be missing."""
        object_id = object_id_of(entry_id)
        entry = self._fetch(object_id)
        known = self._objects.entry_id_known(object_id) if _is_header(entry) else self._id_of(object_id, entry)
        if known not in (b"", entry_id):
            raise _no_entry(entry_id)
        return LogRecord(entry_id, entry)

    def whole(self, logged: LogRecord) -> LogRecord:
        """The same entry with its operations, verified."""
        if not _is_header(logged.entry):
            return logged
        found = self._verified(logged.object_id, logged.entry)
        if found.entry_id != logged.entry_id:
            raise _no_entry(logged.entry_id)
        return found

    def linked(self, object_id: int, seq: int) -> Entry:
        """The entry that a link names, without its id and without operations that are stored apart."""
        entry = self._fetch(object_id)
        if entry.seq != seq:
            raise ChainBroken(f"{entry.pointer}: entry {object_id} has seq {entry.seq}, its link says {seq}.")
        return entry

    def at(self, newest: LogRecord, seq: int) -> LogRecord:
        """The entry `seq` of the log that ends in `newest`: never steps below `seq`, so a cut history does not matter. A number
        from elsewhere may lie beyond `newest` in a store that was restored: `ObjectNotFound`.
        ⚠ Operations that are stored apart may be missing; `whole` adds them."""
        if not 1 <= seq <= newest.entry.seq:
            raise ObjectNotFound(f"{newest.entry.pointer}: there is no entry {seq}, its log ends at {newest.entry.seq}.")
        if seq == newest.entry.seq:
            return newest
        here = _Step(newest.object_id, newest.entry)
        while here.entry.seq > seq:
            distance = here.entry.seq - seq
            if distance <= len(here.entry.back):
                here = self._back(here.entry, distance)
            else:
                # Not as far back as the links go: that would pass over the entries with long jumps, and cost O(n) reads.
                here = self._jump(here.entry) if here.entry.jump_seq >= seq else self._back(here.entry, 1)
        return self._record(here.object_id, here.entry)

    def first_after(self, newest: LogRecord, time_micros: int, floor: int) -> int:
        """Seq of the oldest entry, from `floor` on, that is later than the time; one past the newest if there is none."""
        if newest.entry.time <= time_micros:
            return newest.entry.seq + 1
        later = newest.entry
        while later.seq > floor:
            step = self._jump(later).entry if later.jump_seq >= floor else None
            if step is None or step.time <= time_micros:
                step = self._back(later, 1).entry
            if step.time <= time_micros:
                break
            later = step
        return later.seq

    def between(self, newest: LogRecord, first_seq: int, last_seq: int) -> list[LogRecord]:
        """Entries first_seq to last_seq, oldest first."""
        if first_seq > last_seq:
            return []
        found = list(self.backward(self.at(newest, last_seq), last_seq - first_seq + 1))
        found.reverse()
        return found

    def backward(self, newest: LogRecord, count: int) -> Iterator[LogRecord]:
        """`newest` and its predecessors, `count` in all, newest first; one bulk read for each run of back links."""
        if count <= 0:
            return
        here, remaining = self.whole(newest), count - 1
        yield here
        while remaining > 0 and here.entry.back:
            run = self._fetch_many(here.entry.back[-remaining:])
            for object_id, entry in reversed(run.items()):
                if object_id != object_id_of(here.entry.previous) or entry.seq != here.entry.seq - 1:
                    raise ChainBroken(f"{entry.pointer}: entry {entry.seq} is not the one before entry {here.entry.seq}.")
                here = LogRecord(here.entry.previous, self._with_operations(entry))
                yield here
            remaining -= len(run)

    def _back(self, here: Entry, distance: int) -> _Step:
        return _Step(here.back[-distance], self.linked(here.back[-distance], here.seq - distance))

    def _jump(self, here: Entry) -> _Step:
        return _Step(here.jump_id, self.linked(here.jump_id, here.jump_seq))

    def _record(self, object_id: int, entry: Entry) -> LogRecord:
        known = self._objects.entry_id_known(object_id) if _is_header(entry) else b""
        return LogRecord(known, entry) if known else self._verified(object_id, entry)

    def _verified(self, object_id: int, entry: Entry) -> LogRecord:
        entry = self._with_operations(entry)
        return LogRecord(self._id_of(object_id, entry), entry)

    def _id_of(self, object_id: int, entry: Entry) -> bytes:
        """⚠ Of an entry with its operations. Drafted entries are not cached, so theirs is computed each time."""
        known = self._objects.entry_id_known(object_id)
        if not known:
            known = id_of(entry, object_id)
            self._objects.know_entry_id(object_id, known)
        return known

    def _fetch(self, object_id: int) -> Entry:
        drafted = self._drafted.get(object_id)
        return drafted if isinstance(drafted, Entry) else self._objects.fetch(ENTRY, object_id)

    def _fetch_many(self, object_ids: Sequence[int]) -> dict[int, Entry]:
        drafted = {id: entry for id in object_ids if isinstance(entry := self._drafted.get(id), Entry)}
        stored = self._objects.fetch_many(ENTRY, [id for id in object_ids if id not in drafted])
        return {id: drafted.get(id) or stored[id] for id in object_ids}

    def _with_operations(self, entry: Entry) -> Entry:
        if not _is_header(entry):
            return entry
        spilled = self._objects.fetch(SPILLED_OPERATIONS, entry.operations_id)
        return msgspec.structs.replace(entry, operations=spilled.operations)


def _is_header(entry: Entry) -> bool:
    return bool(entry.operations_id) and not entry.operations


def _no_entry(entry_id: bytes) -> ObjectNotFound:
    return ObjectNotFound(f"there is no entry {entry_id.hex()}.", field="id", object_ids=[object_id_of(entry_id)])
