"""Reads the state at an entry in pages, and the cursor that follows it without a gap.

The first page pins the entry; its token names it, so that later pages are of the same state whatever is committed meanwhile. A
state of which a part is gone is expired as a whole, never given out in part.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from headwater.persistence.index import children_bounds, decode_key, just_after
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.reading.state import State
from headwater.producer.page_tokens import make_token, read_token
from headwater.schemas.cursor import Cursor, Edge, Position, encode_cursor, parse_after
from headwater.schemas.entry_ids import EMPTY, content_id_text
from headwater.schemas.errors import HeadwaterError, InvalidInput, ObjectNotFound
from headwater.schemas.http.feed_json import Head, SnapshotEntry, StatePage
from headwater.schemas.redaction import MaySee
from headwater.service.operations.feed_pages import FeedPages


class StateToken(msgspec.Struct, frozen=True, array_like=True):
    realm: str
    pointer: str
    seq: int
    entry_id: bytes
    after: bytes
    """The last key that was given out, as the index has it."""


class States:
    def __init__(self, pages: FeedPages) -> None:
        self._pages = pages
        self._kernel = pages.kernel

    def first(self, pointer: str, at: str, limit: int, may_see: MaySee | None = None) -> StatePage:
        """The state at a cursor: an id, a seq, a time, `latest`."""
        log = PointerLog(self._kernel, pointer)
        head = log.head()  # read strongly, so that a writer finds its own commit
        after = parse_after(at, field="at")
        seq = self._pages.local.start(pointer, after).seq if after != Edge.LATEST else head.seq
        if seq > head.seq:
            head = log.head()
        if seq == 0 and head.row.floor == 1:
            return self._empty(pointer)
        return self._page(log, head, seq, b"", limit, None, may_see)

    def pointer_of(self, token: str) -> str:
        return read_token(token, StateToken).pointer

    def next(self, token: str, limit: int, may_see: MaySee | None = None) -> StatePage:
        position = read_token(token, StateToken)
        if position.realm != self._kernel.realm:
            raise InvalidInput("the token is of another realm.", field="token", remedy="Start again without a token.")
        log = PointerLog(self._kernel, position.pointer)
        return self._page(log, log.head(), position.seq, position.after, limit, position.entry_id, may_see)

    def _page(
        self,
        log: PointerLog,
        head: LogHead,
        seq: int,
        after: bytes,
        limit: int,
        entry_id: bytes | None,
        may_see: MaySee | None,
    ) -> StatePage:
        if not head.row.floor <= seq <= head.seq:
            raise _expired(log, seq, head)
        try:
            at = self._kernel.walk.at(head.newest, seq)
            if entry_id is not None and at.entry_id != entry_id:
                raise log.reset("the state that the token is of is not in this history.", head)
            return self._entries(at, after, limit, may_see)
        except ObjectNotFound as missing:
            raise _expired(log, seq, log.head()) from missing

    def _entries(self, at: LogRecord, after: bytes, limit: int, may_see: MaySee | None) -> StatePage:
        """⚠ What may not be seen is passed over before the page is cut: its token names a key that was shown."""
        state = State(self._kernel, at)
        lower, upper = children_bounds(())
        items = state.index.items(max(lower, just_after(after)) if after else lower, upper)
        visible = items if may_see is None else (item for item in items if may_see(decode_key(item[0])))
        found = list(islice(visible, limit + 1))
        more, found = len(found) > limit, found[:limit]
        contents = state.contents(value for _, value in found)
        entries = []
        for key, value in found:
            content = contents[value.object_id]
            content_id = content_id_text(content.content_id)
            entries.append(SnapshotEntry(key=decode_key(key), type=content.type, content_id=content_id, value=content.value))
        pointer, seq = at.entry.pointer, at.entry.seq
        return StatePage(
            pointer=pointer,
            at=Head(seq=seq, entry_id=at.entry_id.hex(), commit_id=at.commit.hex()),
            entries=entries,
            cursor=self._cursor(pointer, Position(seq, at.entry_id)),
            next_token=make_token(StateToken(self._kernel.realm, pointer, seq, at.entry_id, found[-1][0])) if more else None,
        )

    def _empty(self, pointer: str) -> StatePage:
        """Before the first entry."""
        at = Head(seq=0, entry_id="", commit_id=EMPTY.hex())
        return StatePage(pointer=pointer, at=at, entries=[], cursor=self._cursor(pointer, Position(0, b"")))

    def _cursor(self, pointer: str, position: Position) -> str:
        return encode_cursor(Cursor(self._kernel.realm, {pointer: position}))


def _expired(log: PointerLog, seq: int, head: LogHead) -> HeadwaterError:
    expired = log.expired(seq, head)
    expired.message = f"{log.pointer}: the state at {seq} has expired; the oldest is that at {head.row.floor}."
    expired.field = "at"
    expired.remedy = "Read the newest state."
    return expired
