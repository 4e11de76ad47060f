"""Finds ancestors of a commit: the n-th, the newest at a time, all in pages, or whether a commit is one of them.

The ancestors of an entry are the commits of its own segment, newest first, then those of the base that the segment was created
or assigned from, and so on down to the empty state. ⚠ What lies below the floor of the pointer that it is found through is
history no more, even while its objects are still there: it is refused as expired, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headwater.persistence.log.log_entry import ENTRY, Entry, LogRecord
from headwater.persistence.reading.pointer_log import OBJECT_ID_MAX
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY, object_id_of
from headwater.schemas.errors import CursorExpired, ObjectNotFound, ReferenceNotFound, WrongObjectType

HOPS_MAX = 10_000
"""How many bases one walk follows: a branch of a branch of a branch …"""
FLOOR_OF_NOTHING = 2**63 - 1


def empty_state(pointer: str) -> LogRecord:
    """Stands for the state before the first entry of anything; nothing like it is stored."""
    entry = Entry(
        pointer=pointer,
        seq=0,
        kind=Kind.CREATE,
        previous=b"",
        commit=EMPTY,
        parent=b"",
        head_before=b"",
        time=0,
        author="",
        message="",
        headers={},
        request_id="",
        operations=(),
        index_added=(),
        index_released=(),
        levels=(),
        embeds=True,
        back=(),
        tail_length=0,
        jump_id=0,
        jump_seq=0,
    )
    return LogRecord(EMPTY, entry)


class AncestorRange(msgspec.Struct, frozen=True):
    """A run of one pointer's log: `newest` and the commits before it, down to the start of its segment."""

    newest: LogRecord
    floor: int

    @property
    def start_seq(self) -> int:
        """Of the create or assign that opened the segment; 0 where the pointer began with a commit."""
        return self.newest.entry.segment_seq

    @property
    def is_cut(self) -> bool:
        """The segment's older end is below the floor."""
        return self.floor > max(self.start_seq, 1)


class Lineage:
    """The ancestors of commits of one realm instance."""

    def __init__(self, kernel: RealmKernel, known_floors: Mapping[str, int] | None = None) -> None:
        self._kernel = kernel
        self._known_floors = known_floors or {}

    # ── questions ───────────────────────────────────────────────────────────────────────────────────────────

    def nth(self, logged: LogRecord, n: int) -> LogRecord:
        """The n-th ancestor. Where a segment begins, that is the create or assign entry: its state is its base's."""
        for section in self.sections(logged):
            newest = section.newest
            seq = newest.entry.seq - n
            if seq >= max(section.start_seq, section.floor, 1):
                return self._kernel.walk.at(newest, seq)
            if section.is_cut:
                raise self.expired(newest, section.floor)
            if seq == section.start_seq:
                return empty_state(newest.entry.pointer)
            n -= newest.entry.seq - section.start_seq
        raise ReferenceNotFound(
            f"{logged.commit.hex()} has fewer ancestors than that: {n} too many.", field="reference", remedy="Ask for fewer."
        )

    def at_time(self, logged: LogRecord, micros: int) -> LogRecord:
        """The newest commit among the ancestors (itself included) that is not later than the time."""
        for section in self.sections(logged):
            newest = section.newest
            if newest.entry.seq > section.start_seq:
                first = max(section.floor, section.start_seq + 1)
                seq = self._kernel.walk.first_after(newest, micros, first) - 1
                if seq >= first:
                    return self._kernel.walk.at(newest, seq)
            if section.is_cut:
                raise self.expired(newest, section.floor)
        raise ReferenceNotFound("there is no commit that old.", field="reference", remedy="Ask for a later time.")

    def find(self, logged: LogRecord, commit: bytes) -> LogRecord | None:
        """The entry at which that commit is the head, if it is `logged` itself or one of its ancestors."""
        wanted = None if commit == EMPTY else self._entry_of(commit)
        for section in self.sections(logged, cut_ok=True):
            newest = section.newest
            if newest.commit == commit:
                return newest
            if wanted is not None and wanted.pointer == newest.entry.pointer and _within(wanted.seq, section):
                found = self._kernel.walk.at(newest, wanted.seq)
                return found if found.entry_id == commit else None
            start = self.start_of(section)
            if start is not None and start.commit == commit:
                return start
            if commit == EMPTY and start is None and not section.is_cut:
                return empty_state(newest.entry.pointer)
        return None

    def backward(self, logged: LogRecord) -> Iterator[LogRecord]:
        """Commits, newest first; `CursorExpired` where history was cut, plain end at the empty state."""
        for section in self.sections(logged):
            newest = section.newest
            oldest_seq = max(section.floor, section.start_seq + 1)
            count = newest.entry.seq - oldest_seq + 1
            if count > 0:
                yield from self._kernel.walk.backward(newest, count)
            if section.is_cut:
                raise self.expired(newest, section.floor)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def sections(self, logged: LogRecord, *, cut_ok: bool = False) -> Iterator[AncestorRange]:
        """From the newest range to the one that began empty. Nothing can be read before a cut: a caller that may not stop there
        checks `is_cut`."""
        newest: LogRecord | None = logged
        for _ in range(HOPS_MAX):
            if newest is None or not newest.entry.seq:
                return
            section = AncestorRange(newest, self.floor_of(newest.entry.pointer))
            if section.floor > newest.entry.seq:
                if cut_ok:
                    return
                raise self.expired(newest, section.floor)
            yield section
            newest = None if section.is_cut else self._base_of(section, cut_ok)
        raise ReferenceNotFound(f"more than {HOPS_MAX} branches stand on one another.", field="reference")

    def start_of(self, section: AncestorRange) -> LogRecord | None:
        """The create or assign that opened the segment; None if there was none, or if it was cut."""
        if not section.start_seq or section.is_cut:
            return None
        return self._kernel.walk.at(section.newest, section.start_seq)

    def floor_of(self, pointer: str) -> int:
        """Read strongly, unless the caller has it. A pointer that is gone has no history left."""
        if pointer in self._known_floors:
            return self._known_floors[pointer]
        row = self._kernel.read_pointer(pointer)
        return FLOOR_OF_NOTHING if row is None else row.floor

    def expired(self, logged: LogRecord, floor: int) -> CursorExpired:
        return CursorExpired(
            f"{logged.entry.pointer}: the history before entry {floor} has expired.",
            field="reference",
            remedy=f"Name a commit of entry {floor} or later.",
            oldest=floor,
        )

    def _base_of(self, section: AncestorRange, cut_ok: bool) -> LogRecord | None:
        start = self.start_of(section)
        if start is None or start.entry.base is None or start.commit == EMPTY:
            return None
        try:
            return self._kernel.walk.header(start.commit)
        except ObjectNotFound:
            if cut_ok:
                return None
            raise CursorExpired(
                f"{start.entry.pointer}: the history of its base {start.commit.hex()} has expired.",
                field="reference",
                remedy="Name a later commit.",
            ) from None

    def _entry_of(self, commit: bytes) -> Entry | None:
        return stored_entry(self._kernel, commit)


def stored_entry(kernel: RealmKernel, commit: bytes) -> Entry | None:
    """What the store has under the id; a made-up id may begin like that of any object, or of none."""
    object_id = object_id_of(commit)
    if object_id > OBJECT_ID_MAX:
        return None
    try:
        return kernel.objects.fetch_many(ENTRY, [object_id], missing_ok=True).get(object_id)
    except WrongObjectType:
        return None


def _within(seq: int, section: AncestorRange) -> bool:
    return max(section.start_seq, section.floor - 1) < seq <= section.newest.entry.seq
