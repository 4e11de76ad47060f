"""An entry of a pointer's log enters; older entries leave: by number in O(log n) reads, by time, or a whole range in bulk.

The walk trusts nothing: an entry that is not the one its neighbour names is `ChainBroken`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headwater.persistence.log.log_entry import ENTRY, SPILLED_OPERATIONS, Entry, LogRecord, id_of
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.persistence.rows import PointerRow
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import ChainBroken, ObjectNotFound


def has_entry(walk: LogWalk, row: PointerRow, seq: int, entry_id: bytes) -> bool:
    """Whether that entry is in the log of the row's head. Below the floor only the anchor tells; below that, nothing does."""
    if seq > row.seq:
        return False
    if seq >= row.floor:
        return walk.at(walk.load(row.head), seq).entry_id == entry_id
    return seq != row.floor - 1 or row.anchor is None or row.anchor.entry_id == entry_id


class LogWalk:
    def __init__(self, objects: RealmObjects, drafted: Mapping[int, msgspec.Struct] | None = None) -> None:
        """`drafted` entries, by object id, are walked over as if they were stored: a plan sees its own batch."""
        self._objects = objects
        self._drafted = {} if drafted is None else drafted

    def load(self, entry_id: bytes) -> LogRecord:
        """The entry of that id; `ObjectNotFound` where it never was or was swept. The id is recomputed: one that only begins
        like an entry's names nothing."""
        entry = self._whole(self._fetch(object_id_of(entry_id)))
        if id_of(entry, object_id_of(entry_id)) != entry_id:
            raise ObjectNotFound(f"there is no entry {entry_id.hex()}.", field="id", object_ids=[object_id_of(entry_id)])
        return LogRecord(entry_id, entry)

    def at(self, newest: LogRecord, seq: int) -> LogRecord:
        """The entry `seq` of the log that ends in `newest`: never steps below `seq`, so a cut history is no obstacle."""
        if not 1 <= seq <= newest.entry.seq:
            raise ValueError(f"seq {seq} is not within 1 to {newest.entry.seq}")
        here = newest
        while here.entry.seq > seq:
            if here.entry.seq - seq <= len(here.entry.back):
                return self._back(here, here.entry.seq - seq)
            # Not as far back as the links go: that would pass over the entries with long jumps, and cost O(n) reads.
            here = self._jump(here) if here.entry.jump_seq >= seq else self._back(here, 1)
        return here

    def first_after(self, newest: LogRecord, time_micros: int, floor: int) -> int:
        """Seq of the oldest entry, from `floor` on, that is later than the time; one past the newest if there is none."""
        if newest.entry.time <= time_micros:
            return newest.entry.seq + 1
        later = newest
        while later.entry.seq > floor:
            step = self._jump(later) if later.entry.jump_seq >= floor else None
            if step is None or step.entry.time <= time_micros:
                step = self._back(later, 1)
            if step.entry.time <= time_micros:
                break
            later = step
        return later.entry.seq

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
        here, remaining = newest, count - 1
        yield here
        while remaining > 0 and here.entry.back:
            run = self._fetch_many(here.entry.back[-remaining:])
            for object_id, entry in reversed(run.items()):
                if object_id != object_id_of(here.entry.previous) or entry.seq != here.entry.seq - 1:
                    raise ChainBroken(f"{entry.pointer}: entry {entry.seq} is not the one before entry {here.entry.seq}.")
                here = LogRecord(here.entry.previous, self._whole(entry))
                yield here
            remaining -= len(run)

    def _back(self, here: LogRecord, distance: int) -> LogRecord:
        """By one read; the id is recomputed, for only neighbours name it."""
        return self._by_object_id(here.entry.back[-distance], here.entry.seq - distance)

    def _jump(self, here: LogRecord) -> LogRecord:
        return self._by_object_id(here.entry.jump_id, here.entry.jump_seq)

    def _by_object_id(self, object_id: int, seq: int) -> LogRecord:
        entry = self._whole(self._fetch(object_id))
        if entry.seq != seq:
            raise ChainBroken(f"{entry.pointer}: entry {object_id} has seq {entry.seq}, its link says {seq}.")
        return LogRecord(id_of(entry, object_id), entry)

    def _fetch(self, object_id: int) -> Entry:
        drafted = self._drafted.get(object_id)
        return drafted if isinstance(drafted, Entry) else self._objects.fetch(ENTRY, object_id)

    def _fetch_many(self, object_ids: Sequence[int]) -> dict[int, Entry]:
        drafted = {id: entry for id in object_ids if isinstance(entry := self._drafted.get(id), Entry)}
        stored = self._objects.fetch_many(ENTRY, [id for id in object_ids if id not in drafted])
        return {id: drafted.get(id) or stored[id] for id in object_ids}

    def _whole(self, entry: Entry) -> Entry:
        if not entry.operations_id or entry.operations:
            return entry
        spilled = self._objects.fetch(SPILLED_OPERATIONS, entry.operations_id)
        return msgspec.structs.replace(entry, operations=spilled.operations)
