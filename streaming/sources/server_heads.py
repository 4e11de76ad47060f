"""Computes where a read of a server's log begins and where it may end, and reads what lies between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from headwater.consumers.clients.chain import Chain
from headwater.persistence.clock import MICROS
from headwater.schemas.change import Change
from headwater.schemas.cursor import After, Cursor, Edge, Position, check_many, decode_cursor, encode_cursor, parse_after
from headwater.schemas.errors import CursorExpired, CursorReset, PointerNotFound
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import FeedPage, PointerInfo
from headwater.streaming.sources.change_rows import changes_batch
from headwater.streaming.sources.log_filters import NEVER, LogFilter
from headwater.streaming.sources.log_offsets import LogOffset, LogRange, OffsetPosition, bounded_offset, given_offset
from headwater.streaming.sources.log_options import LogOptions
from headwater.streaming.sources.server_log import ServerLog

PAGE_CHANGES = 500


class ServerHeads:
    """Answers the same questions as `LogHeads`, by asking a server."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self._log = ServerLog(options)
        self.realm = self._log.instance()
        self._infos: dict[str, PointerInfo] = {}
        self._asked_at: float | None = None

    def start(self) -> LogOffset:
        given = given_offset(self.options.after, self.realm)
        if given is not None:
            return given
        after = parse_after(self.options.after)
        infos = self._listed()
        check_many(after, len(infos))
        return LogOffset(self.realm, {name: self._position(info, after) for name, info in infos.items()})

    def heads(self) -> LogOffset:
        given = given_offset(self.options.until, self.realm)
        return given if given is not None else self._offset(self._listed())

    def moved_heads(self) -> LogOffset:
        """Spark asks a hundred times a second."""
        if self._asked_at is not None:
            time.sleep(max(0.0, self._asked_at + self.options.poll_seconds - time.monotonic()))
        self._asked_at = time.monotonic()
        return self._offset(self._listed())

    def check_seen(self, start: LogOffset, heads: LogOffset) -> None:
        """⚠ The server decides: the heads that one of its workers lists may be older than what another one has sent."""
        for name, at in start.beyond(heads):
            self._log.page(name, _cursor(self.realm, LogRange(name, at, at)), 1)

    def bounded(self, start: LogOffset, heads: LogOffset, limit: int) -> LogOffset:
        return bounded_offset(self.realm, start, heads, limit, self._at)

    def check_not_expired(self, pointer: str, after_seq: int) -> None:
        info = (self._infos or self._listed()).get(pointer)
        if info is not None and after_seq < info.oldest_seq - 1:
            raise CursorExpired(
                f"{pointer}: the history after entry {after_seq} has expired.",
                field="after",
                remedy="Take a snapshot and follow from its entry.",
                oldest=info.oldest_seq,
                head=info.seq,
            )

    def narrowed(self, one: LogRange, wanted: LogFilter) -> LogRange:
        """The server turns times into seqs."""
        low, high = max(one.after.seq, wanted.seq_min - 1), min(one.last.seq, wanted.seq_max)
        if wanted.time_min > 0:
            low = max(low, self._seq_at(one.pointer, wanted.time_min - 1))
        if wanted.time_max < NEVER:
            high = min(high, self._seq_at(one.pointer, wanted.time_max))
        after = one.after if low == one.after.seq else OffsetPosition(low)
        last = one.last if high == one.last.seq else OffsetPosition(high)
        return msgspec.structs.replace(one, after=after, last=last)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────

    def _listed(self) -> dict[str, PointerInfo]:
        found: dict[str, PointerInfo] = {}
        for instance, info in self._log.pointers():
            if instance != self.realm:
                raise _made_again(self.realm, instance)
            if self.options.selects(info.name):
                found[info.name] = info
        missing = [name for name in self.options.patterns if not name.endswith("*") and name not in found]
        if missing:
            raise PointerNotFound(f"there is no pointer {missing[0]!r}.", field="pointers", remedy="List the pointers.")
        self._infos = found
        return found

    def _offset(self, infos: dict[str, PointerInfo]) -> LogOffset:
        return LogOffset(self.realm, {name: OffsetPosition(info.seq, info.entry_id) for name, info in infos.items()})

    def _position(self, info: PointerInfo, after: After) -> OffsetPosition:
        if after == Edge.EARLIEST:
            return OffsetPosition(info.oldest_seq - 1)
        if after == Edge.LATEST:
            return OffsetPosition(info.seq, info.entry_id)
        return OffsetPosition(_start_of(self._log.page(info.name, self.options.after, 1)))

    def _seq_at(self, pointer: str, micros: int) -> int:
        seconds, rest = divmod(micros, MICROS)
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return _start_of(self._log.page(pointer, f"{text}.{rest:06d}Z", 1))

    def _at(self, pointer: str, seq: int, head: OffsetPosition) -> OffsetPosition:
        """With its id, unless what follows is withheld: then the number alone identifies the position."""
        if seq == head.seq:
            return head
        page = self._log.page(pointer, str(seq - 1), 1)
        if page.range is None or page.range.to != seq:
            return OffsetPosition(seq)
        return OffsetPosition(seq, decode_cursor(page.cursor).positions[pointer].entry_id.hex())


def _start_of(page: FeedPage) -> int:
    return 0 if page.range is None else page.range.from_


def _made_again(known: str, now: str) -> CursorReset:
    return CursorReset(
        f"realm {known} was deleted and re-created as {now}.", field="realm", remedy="Start again without a cursor."
    )


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_server_range(
    options: LogOptions, instance: str, one: LogRange, wanted: LogFilter, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Oldest first, each link checked as far as it is shown; history that was cut or replaced meanwhile fails the task."""
    log = ServerLog(options)
    chain = Chain(one.pointer, one.after.seq, one.after.entry_id)
    after = _cursor(instance, one)
    while chain.seq < one.last.seq:
        known_id = chain.id_of(chain.seq)
        page = log.page(one.pointer, after, min(PAGE_CHANGES, one.last.seq - chain.seq))
        changes = chain.accept(_frame(page, one, instance))
        shown = [change for change in changes if wanted.shows_kind(change.kind)]
        if shown:
            yield changes_batch(shown, _previous_ids(changes, known_id), instance, columns)
        after = page.cursor
    end = chain.id_of(one.last.seq)
    if end and one.last.entry_id and end != one.last.entry_id:
        raise CursorReset(
            f"{one.pointer}: the entries that were planned are not in this history; it was replaced under the reader.",
            field="after",
            remedy="Start again with a new checkpoint.",
        )


def _cursor(instance: str, one: LogRange) -> str:
    """⚠ With the id of the entry, if it is known: a server whose log was replaced refuses it."""
    if not one.after.entry_id:
        return str(one.after.seq)
    return encode_cursor(Cursor(instance, {one.pointer: Position(one.after.seq, bytes.fromhex(one.after.entry_id))}))


def _frame(page: FeedPage, one: LogRange, instance: str) -> Frame:
    """Only what was planned: a page may extend beyond it."""
    if page.range is None or decode_cursor(page.cursor).realm != instance:
        raise _made_again(instance, decode_cursor(page.cursor).realm)
    if page.range.to <= page.range.from_:
        raise CursorReset(f"{one.pointer}: the log ends before entry {one.last.seq}.", field="after")
    return Frame(
        pointer=one.pointer,
        from_seq=page.range.from_,
        to_seq=min(page.range.to, one.last.seq),
        changes=tuple(change for change in page.changes if change.seq <= one.last.seq),
        filtered=page.withheld,
    )


def _previous_ids(changes: Sequence[Change], known_id: str) -> dict[str, str]:
    """Id of the entry before each, where that entry is shown too."""
    found: dict[str, str] = {}
    before: Change | None = None
    for change in changes:
        follows = before is not None and before.seq == change.seq - 1
        found[change.entry_id] = before.entry_id if follows and before is not None else ""
        before = change
    if changes:
        found[changes[0].entry_id] = known_id
    return found
