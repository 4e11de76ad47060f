"""Reads the entries after a cursor, oldest first, complete and in order, or a typed reason why not.

Expired: the history behind the cursor was cut. Reset: the cursor is not of this pointer's history. Behind: the cursor is
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
from headwater.schemas.entry_ids import EMPTY, micros_of, object_id_of, parse_id
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
        """Read strongly; `PointerNotFound` where nothing was ever committed, `PointerPurged` behind its end."""
        row = self._kernel.store.backend.read_pointer(self._kernel.realm, self.pointer)
        if row is None or not row.head:
            raise self._not_found()
        return LogHead(row, self._kernel.walk.header(row.head))

    # ── cursors ─────────────────────────────────────────────────────────────────────────────────────────────

    def position(self, after: str | int, head: LogHead) -> int:
        """The seq that a cursor means: what it has seen. Takes an entry or commit id, a seq, a time, `earliest`, `latest`."""
        text = str(after)
        if text == "earliest":
            return head.row.floor - 1
        if text == "latest":
            return head.seq
        if text.isascii() and text.isdecimal() and len(text) < 20:
            return self._checked(int(text), head)
        if len(text) == 64:
            return self._checked(self._seq_of(parse_id(text, field="after"), head), head)
        if "T" in text or " " in text:
            return self._at_time(micros_of(text, field="after"), head)
        raise InvalidInput(
            f"{text[:80]!r} is no cursor.", field="after", remedy="Use a commit id, a seq, a time, 'earliest' or 'latest'."
        )

    def _checked(self, seq: int, head: LogHead) -> int:
        if seq > head.seq:
            newest = self.head()
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
        raise self._reset(id, head)

    def _entry_of(self, id: bytes, head: LogHead) -> int | None:
        """The seq of this pointer's own entry of that id; None if it belongs to another pointer."""
        if object_id_of(id) > OBJECT_ID_MAX:
            raise self._reset(id, head)
        try:
            entry = self._kernel.objects.fetch(ENTRY, object_id_of(id))
        except WrongObjectType:  # whoever asks made the id up: it begins like that of a content or a stripe
            raise self._reset(id, head) from None
        except ObjectNotFound:
            anchor = head.row.anchor
            if anchor is not None and object_id_of(id) <= object_id_of(anchor.entry_id):
                raise self.expired(None, head) from None
            raise self._reset(id, head) from None
        if entry.pointer != self.pointer:
            return None
        if entry.seq > head.seq:
            head = self.head()
        if entry.seq < head.row.floor:
            return self._seq_below_floor(id, entry.seq, head)
        if entry.seq > head.seq or self._kernel.walk.at(head.newest, entry.seq).entry_id != id:
            raise self._reset(id, head)
        return entry.seq

    def _seq_below_floor(self, id: bytes, seq: int, head: LogHead) -> int:
        """Just below the floor nothing is missing yet, but there only the anchor says which entry it was."""
        anchor = head.row.anchor
        if seq == head.row.floor - 1 and (anchor is None or anchor.entry_id != id):
            raise self._reset(id, head)
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

    def page(self, after_seq: int, limit: int, head: LogHead | None = None) -> LogPage:
        """Up to `limit` entries behind `after_seq`; the floor is looked at again when an entry has gone meanwhile."""
        head = head or self.head()
        self._checked(after_seq, head)
        last = min(head.seq, after_seq + limit)
        try:
            entries = self._kernel.walk.between(head.newest, after_seq + 1, last)
        except ObjectNotFound:
            now = self.head()
            if now.row.floor > after_seq + 1:
                raise self.expired(after_seq, now) from None
            raise
        return LogPage(entries, after_seq, max(last, after_seq), head)

    def forward(self, after: str | int = "earliest", *, page_entries: int = 100) -> Iterator[LogRecord]:
        """Everything behind the cursor up to the head of now."""
        head = self.head()
        seq = self.position(after, head)
        while seq < head.seq:
            page = self.page(seq, page_entries, head)
            yield from page.entries
            seq = page.to_seq

    def backward(self, from_seq: int | None = None) -> Iterator[LogRecord]:
        """From the head, or an older entry, down to the floor."""
        head = self.head()
        seq = head.seq if from_seq is None else self._checked(from_seq, head)
        if seq > head.seq:  # the pointer has moved since its head was read
            head = self.head()
        if seq >= head.row.floor:
            yield from self._kernel.walk.backward(self._kernel.walk.at(head.newest, seq), seq - head.row.floor + 1)

    # ── refusals ────────────────────────────────────────────────────────────────────────────────────────────

    def _not_found(self) -> PointerNotFound:
        purged = purged_pointer(self._kernel.store.backend, self._kernel.realm, self.pointer)
        if purged is None:
            return PointerNotFound(f"there is no pointer {self.pointer!r}.", field="pointer", remedy="List the pointers.")
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

    def _reset(self, id: bytes, head: LogHead) -> CursorReset:
        return CursorReset(
            f"{self.pointer}: {id.hex()} is not in its history.",
            field="after",
            remedy="Take a snapshot and follow from its entry.",
            oldest=head.row.floor,
            head=head.seq,
        )
