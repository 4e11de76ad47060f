"""Collects the records that come next in a shard, pointer by pointer, and the positions after them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.log.purged_pointers import PurgedPointer, purged_pointer
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.schemas.errors import CursorExpired, LogDiverged, PublisherStopped, StoreBehindKafka
from headwater.schemas.kafka_records import Progress

PAGE_ENTRIES = 500


class Batch:
    """What one transaction holds. Records leave while it is read, so that they are sent meanwhile."""

    def __init__(
        self,
        kernel: RealmKernel,
        records: Records,
        published: dict[str, Progress],
        *,
        changes_max: int,
        bytes_max: int,
        seconds_max: float = 5.0,
    ) -> None:
        self._kernel = kernel
        self._realm_name = kernel.realm_name
        self._records = records
        self._published = published
        self._changes_max = changes_max
        self._bytes_max = bytes_max
        self._deadline = time.monotonic() + seconds_max
        self.positions: dict[str, Progress] = {}
        """Where the pointers are once this batch is committed."""
        self.ended: list[str] = []
        self.changes = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """By number, by size, or by time: a slow store must not keep a transaction open until the broker ends it."""
        return self.changes >= self._changes_max or self.bytes >= self._bytes_max or time.monotonic() > self._deadline

    def position(self, pointer: str) -> Progress | None:
        return self.positions.get(pointer) or self._published.get(pointer)

    def read(self, pointer: str, row: PointerRow) -> Iterator[KafkaRecord]:
        """Up to the head of that row, or until the batch is full."""
        head = LogHead(row, self._kernel.walk.header(row.head))
        position = self.position(pointer)
        if position is None:
            position = yield from self._first_contact(pointer, row)
        while position.seq < head.seq and not self.is_full:
            page = yield from self._page(pointer, position, head)
            position = self.positions.get(pointer, position)
            if page is not None:
                head = page

    def end(self, pointer: str, purged: PurgedPointer) -> Iterator[KafkaRecord]:
        """Of a pointer that was purged: nothing follows, and its position goes."""
        position = self.positions.pop(pointer, None) or self._published[pointer]
        self.ended.append(pointer)
        yield self._records.purged(pointer, position.seq, purged.seq, purged.entry_id.hex())
        yield self._records.gone(pointer)

    def final(self) -> Iterator[KafkaRecord]:
        """The progress of every pointer that moved."""
        for position in self.positions.values():
            yield self._records.progress(position)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _first_contact(self, pointer: str, row: PointerRow) -> Generator[KafkaRecord, None, Progress]:
        """⚠ A baseline always; and entries that are gone are reported, never skipped. The row is read again after the fence:
        the head that a baseline names is at least what any earlier generation has published of this history."""
        row = self._kernel.store.backend.read_pointer(self._kernel.realm, pointer, decide=True) or row
        anchor = "" if row.anchor is None else row.anchor.entry_id.hex()
        yield self._records.baseline(pointer, row.floor - 1, anchor, row.seq, row.head.hex())
        if row.floor > 1:
            yield self._records.truncated(pointer, 0, row.floor - 1, anchor)
        position = self._records.position(pointer, row.floor - 1, anchor)
        self.positions[pointer] = position
        return position

    def _page(self, pointer: str, position: Progress, head: LogHead) -> Generator[KafkaRecord, None, LogHead | None]:
        """None, or the newer head that was read because history was cut under this one."""
        log = PointerLog(self._kernel, pointer)
        limit = min(PAGE_ENTRIES, self._changes_max - self.changes)
        try:
            entries = log.page(position.seq, limit, head).entries
        except CursorExpired:
            newest = log.head()
            yield from self._truncated(pointer, position, newest.row)
            return newest
        self._check_follows(pointer, position, entries)
        last: LogRecord | None = None
        try:
            for last in entries:
                record = self._records.entry(last)
                self.changes += 1
                self.bytes += len(record[3] or b"")
                yield record
                if self.bytes >= self._bytes_max:
                    break
        finally:
            if last is not None:
                self.positions[pointer] = self._records.position_of(change_of(last, self._realm_name))
        return None

    def _truncated(self, pointer: str, position: Progress, row: PointerRow) -> Iterator[KafkaRecord]:
        anchor = "" if row.anchor is None else row.anchor.entry_id.hex()
        yield self._records.truncated(pointer, position.seq, row.floor - 1, anchor)
        self.positions[pointer] = self._records.position(pointer, row.floor - 1, anchor)

    def _check_follows(self, pointer: str, position: Progress, entries: list[LogRecord]) -> None:
        """⚠ What was published must be what stands before: else the log was replaced under the topic."""
        if entries and position.entry_id and entries[0].entry.previous.hex() != position.entry_id:
            raise diverged(pointer, position.seq, position.entry_id, entries[0].entry.previous.hex())


def check_against_log(kernel: RealmKernel, position: Progress) -> PurgedPointer | None:
    """⚠ A store that is behind Kafka, or holds another entry at that seq, must not be published over it. Where the pointer was
    purged with its catalog, its end leaves: only that explains a missing row, a delete entry in Kafka does not."""
    row = kernel.store.backend.read_pointer(kernel.realm, position.pointer)
    try:
        if row is None or row.seq < position.seq:
            raise _behind(position, 0 if row is None else row.seq)
        _check_entry(kernel, position, row)
    except PublisherStopped:
        purged = purged_pointer(kernel.store.backend, kernel.realm, position.pointer)
        if purged is None or not _ends_behind(purged, position):
            raise
        return purged  # and perhaps re-created since, by a writer that slept through the purge
    return None


def _ends_behind(purged: PurgedPointer, position: Progress) -> bool:
    return purged.seq > position.seq or (purged.seq == position.seq and purged.entry_id.hex() == position.entry_id)


def _check_entry(kernel: RealmKernel, position: Progress, row: PointerRow) -> None:
    if not position.entry_id or position.seq < row.floor - 1:
        return  # nothing was published yet, or what was is cut: `truncated` follows
    if position.seq == row.floor - 1:
        found = "" if row.anchor is None else row.anchor.entry_id.hex()
    elif position.seq == row.seq:
        found = row.head.hex()
    else:
        found = kernel.walk.at(kernel.walk.header(row.head), position.seq).entry_id.hex()
    if found != position.entry_id:
        raise diverged(position.pointer, position.seq, position.entry_id, found)


def _behind(position: Progress, head: int) -> StoreBehindKafka:
    return StoreBehindKafka(
        f"{position.pointer}: Kafka has entry {position.seq}, the store ends at {head}.",
        remedy="The store was restored from a backup: begin a new generation once you know which of both is right.",
        pointer=position.pointer,
        published=position.seq,
        head=head,
    )


def diverged(pointer: str, seq: int, published: str, found: str) -> LogDiverged:
    return LogDiverged(
        f"{pointer}: entry {seq} was published as {published} and is {found} in the log.",
        remedy="The store was restored or replaced: begin a new generation once you know which of both is right.",
        pointer=pointer,
        seq=seq,
        published=published,
        found=found,
    )
