"""Reads frames of a pointer's Changes straight from the log of an open store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from headwater.consumers.clients.realm_watch import RealmWatch
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.reading.pointer_log import LogHead, PointerLog, known_end, stands_at
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.cursor import After, Cursor, Position, parse_after
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.frame import Frame

PAGE_CHANGES_MAX = 1_000
SCANNED_ENTRIES_MAX = 1_000
"""How far one filtered page looks: it then returns an empty range, so that an idle reader advances."""
IDLE_SECONDS = 5.0
"""How long a follower waits before it looks again, even if nothing wakes it."""


class FeedPage(msgspec.Struct, frozen=True):
    frame: Frame
    head: LogHead
    last: Position
    """Where the next page begins."""


class LocalFeed:
    """The feed of one realm. Polling at the head reads one row every five seconds: whether the realm still exists."""

    def __init__(self, kernel: RealmKernel, watch: HeadWatch) -> None:
        self._kernel = kernel
        self._watch = watch
        self._realm = RealmWatch(kernel)

    def start(self, pointer: str, after: str | int | After) -> Position:
        """What a cursor means for this pointer: the last entry seen. Only a token has seen the end of a purged pointer."""
        parsed = parse_after(after)
        head = self._watch.head_or_end(pointer) if isinstance(parsed, Cursor) else self._watch.head(pointer)
        return PointerLog(self._kernel, pointer).start(parsed, head)

    def page(
        self, pointer: str, after: Position, *, limit: int = 100, filter: Filter = NO_FILTER, wait_seconds: float = 0.0
    ) -> FeedPage:
        """At least one Change if there is one, never a partial one. With `wait_seconds`, waits that long for the first."""
        _check_limit(limit)
        head = self._watch.head_or_end(pointer)
        if wait_seconds > 0 and stands_at(after, head):
            head = self._watch.wait(pointer, after.seq, wait_seconds)
        if head.seq <= after.seq and self._realm.is_due:
            self._realm.look()
        return self._read(pointer, after, head, limit, filter)

    async def page_async(
        self, pointer: str, after: Position, *, limit: int = 100, filter: Filter = NO_FILTER, wait_seconds: float = 0.0
    ) -> FeedPage:
        """The same for asyncio: waiting takes no thread, and reading does not block the loop."""
        _check_limit(limit)
        head = await self._watch.wait_async(pointer, after.seq, 0.0)
        if wait_seconds > 0 and stands_at(after, head):
            head = await self._watch.wait_async(pointer, after.seq, wait_seconds)
        if head.seq <= after.seq and self._realm.is_due:
            await asyncio.to_thread(self._realm.look)
        if head.seq <= after.seq:
            return self._read(pointer, after, head, limit, filter)
        return await asyncio.to_thread(self._read, pointer, after, head, limit, filter)

    def follow(
        self, pointer: str, after: Position, *, filter: Filter = NO_FILTER, page_changes: int = 100
    ) -> Iterator[FeedPage]:
        """Pages without end, including empty ones: each is a bookmark."""
        while True:
            page = self.page(pointer, after, limit=page_changes, filter=filter, wait_seconds=IDLE_SECONDS)
            after = page.last
            yield page

    def token(self, positions: dict[str, Position], filter: Filter = NO_FILTER) -> Cursor:
        return Cursor(self._kernel.realm, positions, filter)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, pointer: str, after: Position, head: LogHead, limit: int, filter: Filter) -> FeedPage:
        log = PointerLog(self._kernel, pointer)
        count = limit if filter.asks_for_all else SCANNED_ENTRIES_MAX
        entries = log.page(after, count, head).entries
        changes, last = self._shown(entries, limit, filter)
        end = known_end(after, head) if last is None else Position(last.entry.seq, last.entry_id)
        frame = Frame(
            pointer=pointer, from_seq=after.seq, to_seq=end.seq, changes=tuple(changes), filtered=not filter.asks_for_all
        )
        return FeedPage(frame, head, end)

    def _shown(self, entries: list[LogRecord], limit: int, filter: Filter) -> tuple[list[Change], LogRecord | None]:
        """The Changes that the filter shows, and the last entry that was looked at for them."""
        changes: list[Change] = []
        last: LogRecord | None = None
        for last in entries:
            change = change_of(last, self._kernel.realm_name)
            if filter.shows(change):
                changes.append(change)
            if len(changes) == limit:
                break
        return changes, last


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_CHANGES_MAX:
        raise InvalidInput(f"{limit} is not a page size.", field="limit", remedy=f"Ask for 1 to {PAGE_CHANGES_MAX}.")
