"""Reads the entries after a cursor, oldest first, complete and in order, or a typed reason why not.

Expired: the history after the cursor was truncated. Reset: the cursor is not of this pointer's history. Behind: the cursor is
beyond the newest entry known here. There is no fourth answer, and never a silent skip.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.log.log_entry import ENTRY, Entry, LogRecord
from headwater.persistence.log.purged_pointers import purged_pointer
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind
from headwater.schemas.cursor import After, AfterEntry, AfterSeq, AfterTime, Cursor, Edge, Position, parse_after
from headwater.schemas.entry_ids import EMPTY, object_id_of
from headwater.schemas.errors import (
    CursorAhead,
    CursorExpired,
    CursorReset,
    InvalidInput,
    ObjectNotFound,
    PointerNotFound,
    PointerPurged,
    WrongObjectType,
)

PAGE_ENTRIES_MAX = 1_000
OBJECT_ID_MAX = 2**63 - 1
"""The highest bit of an id is reserved: one that has it set names nothing."""


class LogHead(msgspec.Struct, frozen=True):
    """A pointer's row and newest entry, read together."""

    row: PointerRow
    newest: LogRecord

    @property
    def seq(self) -> int:
        return self.newest.entry.seq


def ended_head(pointer: str, purged: PointerPurged) -> LogHead:
    """Of a pointer that was purged: its last entry, a delete, lies below the floor, and nothing follows it."""
    seq, entry_id = int(str(purged.facts["seq"])), bytes.fromhex(str(purged.facts["entry_id"]))
    entry = Entry(
        pointer=pointer, seq=seq, kind=Kind.DELETE, previous=b"", commit=EMPTY, parent=b"", head_before=b"", time=0, author="",
        message="", headers={}, request_id="", operations=(), index_added=(), index_released=(), levels=(), embeds=True,
        back=(), tail_length=0, jump_id=0, jump_seq=0,
    )  # fmt: skip
    return LogHead(PointerRow(head=entry_id, seq=seq, floor=seq + 1, version=0, created_at=0), LogRecord(entry_id, entry))


def known_end(after: Position, head: LogHead) -> Position:
    """A reader who stands at the head by number alone learns its id: from then on a replaced log is noticed."""
    return Position(head.seq, head.newest.entry_id) if after.seq == head.seq else after


def stands_at(position: Position, head: LogHead) -> bool:
    """Whether a reader stands at the newest entry itself, and so waits. That its entry was lost in a restore is news."""
    same_entry = not position.entry_id or position.entry_id == head.newest.entry_id
    return position.seq == head.seq and same_entry and head.row.floor - 1 <= position.seq


class LogPage(msgspec.Struct, frozen=True):
    """Entries (from_seq, to_seq], without a gap, and the head that they were read under."""

    entries: list[LogRecord]
    from_seq: int
    to_seq: int
    head: LogHead


class PointerLog:
    """The log of one pointer, from the floor to the head."""

    def __init__(self, kernel: RealmKernel, pointer: str) -> None:
        self.pointer = pointer
        self._kernel = kernel

    def head(self) -> LogHead:
        """Read strongly; `PointerNotFound` where nothing was ever committed, `PointerPurged` after its end."""
        row = self._kernel.read_pointer(self.pointer)
        if row is None or not row.head:
            raise self._not_found()
        return LogHead(row, self._kernel.walk.header(row.head))

    # ── cursors ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, after: str | int | After, head: LogHead) -> Position:
        """The last entry that a cursor has seen, with its id where that is known; or why the cursor means nothing here."""
        match parse_after(after):
            case Edge.EARLIEST:
                return Position(head.row.floor - 1, b"")
            case Edge.LATEST:
                seq = head.seq
            case AfterSeq(seq):
                self.require(seq, head)
            case AfterEntry(id):
                seq = self.require(self._seq_of(id, head), head)
            case AfterTime(micros):
                seq = self._at_time(micros, head)
            case Cursor() as token:
                return self._of_token(token, head)
        return known_end(Position(seq, b""), head)

    def position(self, after: str | int | After, head: LogHead) -> int:
        """The seq alone."""
        return self.start(after, head).seq

    def _of_token(self, token: Cursor, head: LogHead) -> Position:
        if token.realm != self._kernel.realm:
            raise self.reset("the realm was deleted and re-created, or is another one.", head)
        position = token.positions.get(self.pointer)
        if position is None:
            raise InvalidInput(
                f"the cursor is not of {self.pointer!r}.", field="after", remedy="Use the cursor of that pointer."
            )
        self.require(position.seq, head, position.entry_id)
        return position

    def require(self, seq: int, head: LogHead, entry_id: bytes = b"") -> int:
        """The seq, if everything after it can be read. ⚠ An entry that a reader has seen, by its id, and that lies beyond the
        newest one was lost in a restore: waiting for that number would lead the reader into another history."""
        if seq > head.seq:
            newest = self.head()
            if seq > newest.seq and entry_id:
                raise self._not_in_history(entry_id, newest)
            if seq > newest.seq:
                raise CursorAhead(
                    f"{self.pointer}: {seq} is beyond the newest entry {newest.seq}.",
                    field="after",
                    oldest=newest.row.floor,
                    head=newest.seq,
                )
        if seq < head.row.floor - 1:
            raise self.expired(seq, head)
        return seq

    def _at_time(self, micros: int, head: LogHead) -> int:
        if head.row.anchor is not None and micros < head.row.anchor.time_micros:
            raise self.expired(None, head)
        return self._kernel.walk.first_after(head.newest, micros, head.row.floor) - 1

    def _seq_of(self, id: bytes, head: LogHead) -> int:
        """The newest entry with that id, or with that commit as its head."""
        named = None if id == EMPTY else self._entry_of(id, head)
        found = self._segment_start_at(id, head, down_to=named or 0)
        if found is not None:
            return found
        if named is not None:
            return named
        if id == EMPTY:
            return 0
        raise self._not_in_history(id, head)

    def _entry_of(self, id: bytes, head: LogHead) -> int | None:
        """The seq of this pointer's own entry of that id; None if it belongs to another pointer."""
        if object_id_of(id) > OBJECT_ID_MAX:
            raise self._not_in_history(id, head)
        try:
            entry = self._kernel.objects.fetch(ENTRY, object_id_of(id))
        except WrongObjectType:  # a made-up id, which begins like that of a content or a stripe
            raise self._not_in_history(id, head) from None
        except ObjectNotFound:
            anchor = head.row.anchor
            if anchor is not None and object_id_of(id) <= object_id_of(anchor.entry_id):
                raise self.expired(None, head) from None
            raise self._not_in_history(id, head) from None
        if entry.pointer != self.pointer:
            return None
        if entry.seq > head.seq:
            head = self.head()
        if entry.seq < head.row.floor:
            return self._seq_below_floor(id, entry.seq, head)
        if entry.seq > head.seq or self._kernel.walk.at(head.newest, entry.seq).entry_id != id:
            raise self._not_in_history(id, head)
        return entry.seq

    def _seq_below_floor(self, id: bytes, seq: int, head: LogHead) -> int:
        """Just below the floor nothing is missing yet, but there only the anchor says which entry it was."""
        anchor = head.row.anchor
        if seq == head.row.floor - 1 and (anchor is None or anchor.entry_id != id):
            raise self._not_in_history(id, head)
        return seq

    def _segment_start_at(self, commit: bytes, head: LogHead, down_to: int) -> int | None:
        """The newest create, assign or delete whose head is that commit: references may come back to a commit."""
        seq = head.newest.entry.segment_seq
        while seq > max(down_to, head.row.floor - 1, 0):
            start = self._kernel.walk.at(head.newest, seq)
            if start.commit == commit:
                return seq
            if seq == 1:
                return None
            seq = self._kernel.walk.at(head.newest, seq - 1).entry.segment_seq if seq > head.row.floor else 0
        return None

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def page(self, after: int | Position, limit: int, head: LogHead | None = None) -> LogPage:
        """Up to `limit` entries after a seq, or after an entry that a reader has seen; the floor is looked at again when an
        entry has gone meanwhile."""
        head = head or self.head()
        seen = Position(after, b"") if isinstance(after, int) else after
        if seen.seq > head.seq:  # ⚠ a head that is known too late cannot tell whether what was seen is still in the log
            head = self.head()
        after_seq = self.require(seen.seq, head, seen.entry_id)
        last = min(head.seq, after_seq + limit)
        try:
            with self._kernel.reading("page") as found:
                entries = self._kernel.walk.between(head.newest, after_seq + 1, last)
                found(len(entries))
        except ObjectNotFound:
            now = self.head()
            if now.row.floor > after_seq + 1:
                raise self.expired(after_seq, now) from None
            raise
        self._require_same_history(seen, entries, head)
        return LogPage(entries, after_seq, max(last, after_seq), head)

    def _require_same_history(self, seen: Position, entries: list[LogRecord], head: LogHead) -> None:
        """⚠ The entry that a reader has seen must be the head, or the one before what it gets: else the log was replaced."""
        if not seen.entry_id:
            return
        at_head = head.newest.entry_id if seen.seq == head.seq else seen.entry_id
        if seen.entry_id != (entries[0].entry.previous if entries else at_head):
            raise self.reset("the entry it has seen is not in this history.", head)

    def forward(self, after: str | int = "earliest", *, page_entries: int = 100) -> Iterator[LogRecord]:
        """Everything after the cursor up to the current head."""
        head = self.head()
        seq = self.position(after, head)
        while seq < head.seq:
            page = self.page(seq, page_entries, head)
            yield from page.entries
            seq = page.to_seq

    def backward(self, from_seq: int | None = None) -> Iterator[LogRecord]:
        """From the head, or an older entry, down to the floor."""
        head = self.head()
        seq = head.seq if from_seq is None else self.require(from_seq, head)
        if seq > head.seq:  # the pointer has moved since its head was read
            head = self.head()
        if seq >= head.row.floor:
            yield from self._kernel.walk.backward(self._kernel.walk.at(head.newest, seq), seq - head.row.floor + 1)

    # ── refusals ────────────────────────────────────────────────────────────────────────────────────────────

    def _not_found(self) -> PointerNotFound:
        purged = purged_pointer(self._kernel.store.backend, self._kernel.realm, self.pointer)
        if purged is None:
            return PointerNotFound(
                f"there is no pointer {self.pointer!r}.",
                field="pointer",
                remedy="List the pointers, or name a catalog and a branch.",
            )
        return PointerPurged(
            f"{self.pointer} was purged with its catalog; its log ended with entry {purged.seq}.",
            field="pointer",
            remedy="Read on without it: nothing will follow.",
            seq=purged.seq,
            entry_id=purged.entry_id.hex(),
        )

    def expired(self, seq: int | None, head: LogHead) -> CursorExpired:
        return CursorExpired(
            f"{self.pointer}: the history after the cursor has expired; the oldest entry is {head.row.floor}.",
            field="after",
            remedy="Take a snapshot and follow from its entry.",
            oldest=head.row.floor,
            head=head.seq,
            after=seq,
        )

    def _not_in_history(self, id: bytes, head: LogHead) -> CursorReset:
        return self.reset(f"{id.hex()} is not in its history.", head)

    def reset(self, why: str, head: LogHead) -> CursorReset:
        return CursorReset(
            f"{self.pointer}: {why}",
            field="after",
            remedy="Take a snapshot and follow from its entry.",
            oldest=head.row.floor,
            head=head.seq,
            pointer=self.pointer,
        )
