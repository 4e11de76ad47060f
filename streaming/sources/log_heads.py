"""Computes the offsets where a read begins and where it may end. Runs beside the driver."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec

from headwater.persistence.reading.moved_pointers import MovedPointers
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.cursor import After, Edge, Position, check_many, parse_after
from headwater.schemas.errors import CursorReset, ObjectNotFound, PointerNotFound
from headwater.streaming.sources.log_filters import NEVER, LogFilter
from headwater.streaming.sources.log_offsets import LogOffset, LogRange, OffsetPosition, bounded_offset, given_offset
from headwater.streaming.sources.log_options import LogOptions
from headwater.streaming.sources.open_stores import opened_store, realm_instance

REALM_CHECK_SECONDS = 10.0
"""How soon a stream notices that its realm was deleted."""


class LogHeads:
    """The heads of the pointers that the options select: read in full once, then updated with what has moved."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self._store = opened_store(options.store)
        self.realm = realm_instance(self._store, options.realm)
        self._rows: dict[str, PointerRow] | None = None
        self._epoch = 0
        """The history in which they were read: a restored store starts its versions over."""
        self._moved = MovedPointers(self.kernel)
        self._asked_at = 0.0
        self._realm_checked_at = time.monotonic()

    @property
    def kernel(self) -> RealmKernel:
        return self._store.kernel(self.realm)

    # ── where to begin ──────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> LogOffset:
        """What `after` means for every existing pointer. Pointers that are created later begin at their first entry."""
        given = given_offset(self.options.after, self.realm)
        if given is not None:
            return given
        parsed = parse_after(self.options.after)
        rows = self._all()
        check_many(parsed, len(rows))
        return LogOffset(self.realm, {name: self._position(name, row, parsed) for name, row in rows.items()})

    def _position(self, name: str, row: PointerRow, after: After) -> OffsetPosition:
        if after == Edge.EARLIEST:
            return OffsetPosition(row.floor - 1, _anchor_id(row))
        if after == Edge.LATEST:
            return OffsetPosition(row.seq, row.head.hex())
        log = PointerLog(self.kernel, name)
        return OffsetPosition(log.position(after, log.head()))

    # ── where to end ────────────────────────────────────────────────────────────────────────────────────────

    def heads(self) -> LogOffset:
        """Everything that is committed now, or up to `until`."""
        given = given_offset(self.options.until, self.realm)
        if given is not None:
            return given
        return LogOffset(self.realm, {name: OffsetPosition(row.seq, row.head.hex()) for name, row in self._all().items()})

    def moved_heads(self) -> LogOffset:
        """The same for a stream, at a cost proportional to the moves."""
        self._look_for_moves()
        return LogOffset(
            self.realm, {name: OffsetPosition(row.seq, row.head.hex()) for name, row in (self._rows or {}).items()}
        )

    def check_seen(self, start: LogOffset, heads: LogOffset) -> None:
        check_seen(self.kernel, start, heads)

    def bounded(self, start: LogOffset, heads: LogOffset, limit: int) -> LogOffset:
        return bounded_offset(self.realm, start, heads, limit, self._at)

    def check_not_expired(self, pointer: str, after_seq: int) -> None:
        check_not_expired(self.kernel, pointer, after_seq)

    def narrowed(self, one: LogRange, wanted: LogFilter) -> LogRange:
        """Times become seqs by O(log n) reads: entries outside the range are never read."""
        low, high = max(one.after.seq, wanted.seq_min - 1), min(one.last.seq, wanted.seq_max)
        if wanted.has_time:
            head = PointerLog(self.kernel, one.pointer).head()
            walk = self.kernel.walk
            if wanted.time_min > 0:
                low = max(low, walk.first_after(head.newest, wanted.time_min - 1, head.row.floor) - 1)
            if wanted.time_max < NEVER:
                high = min(high, walk.first_after(head.newest, wanted.time_max, head.row.floor) - 1)
        after = one.after if low == one.after.seq else OffsetPosition(low)
        last = one.last if high == one.last.seq else OffsetPosition(high)
        return msgspec.structs.replace(one, after=after, last=last)

    def _at(self, name: str, seq: int, head: OffsetPosition) -> OffsetPosition:
        if seq == head.seq:
            return head
        walk = self.kernel.walk
        try:
            return OffsetPosition(seq, walk.at(walk.load(bytes.fromhex(head.entry_id)), seq).entry_id.hex())
        except ObjectNotFound:
            log = PointerLog(self.kernel, name)
            raise log.expired(seq, log.head()) from None

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    def _look_for_moves(self) -> None:
        self._wait_for_next_look()
        self._check_realm()
        self._store.restores.check_if_due()
        if self._rows is None or self._epoch != self._store.restores.epoch:
            self._epoch = self._store.restores.epoch
            self._moved.start()
            self._rows = self._all()
            return
        moved = self._moved.read_moved(self._is_news)
        self._rows |= {name: row for name, row in moved.items() if row.head}

    def _is_news(self, name: str, version: int | None) -> bool:
        known = (self._rows or {}).get(name)
        return self.options.selects(name) and (known is None or version is None or version != known.version)

    def _wait_for_next_look(self) -> None:
        """Spark asks a hundred times a second."""
        wait_seconds = self._asked_at + self.options.poll_seconds - time.monotonic()
        if self._rows is not None and wait_seconds > 0:
            time.sleep(wait_seconds)
        self._asked_at = time.monotonic()

    def _check_realm(self) -> None:
        if time.monotonic() - self._realm_checked_at < REALM_CHECK_SECONDS:
            return
        now = realm_instance(self._store, self.options.realm)
        if now != self.realm:
            raise CursorReset(
                f"realm {self.realm} was deleted and re-created as {now}.",
                field="realm",
                remedy="Start again without a cursor.",
            )
        self._realm_checked_at = time.monotonic()

    def _all(self) -> dict[str, PointerRow]:
        rows: dict[str, PointerRow] = {}
        for names in self._names():
            rows |= self._read(names)
        exact = [name for name in self.options.patterns if not name.endswith("*")]
        missing = [name for name in exact if name not in rows]
        if missing:
            raise PointerNotFound(f"there is no pointer {missing[0]!r}.", field="pointers", remedy="List the pointers.")
        return rows

    def _names(self) -> Iterator[list[str]]:
        exact = [name for name in self.options.patterns if not name.endswith("*")]
        if exact and len(exact) == len(self.options.patterns):
            yield exact
            return
        for names in self._store.backend.name_pages(self.realm):
            yield [name for name in names if self.options.selects(name)]

    def _read(self, names: Iterable[str]) -> dict[str, PointerRow]:
        """Pointers that are only reserved have no log yet."""
        rows = self._store.backend.read_pointers(self.realm, list(names))
        return {name: row for name, row in rows.items() if row.head}


def check_seen(kernel: RealmKernel, start: LogOffset, heads: LogOffset) -> None:
    """`CursorReset` if an entry that was seen is not in the log any more. Reads the log only for pointers where that seems
    possible."""
    for name, at in start.beyond(heads):
        log = PointerLog(kernel, name)
        log.page(Position(at.seq, bytes.fromhex(at.entry_id)), 1, log.head())


def check_not_expired(kernel: RealmKernel, pointer: str, after_seq: int) -> None:
    """Raised before any task begins, where it costs one read."""
    log = PointerLog(kernel, pointer)
    head = log.head()
    if after_seq < head.row.floor - 1:
        raise log.expired(after_seq, head)


def _anchor_id(row: PointerRow) -> str:
    return row.anchor.entry_id.hex() if row.anchor is not None else ""
