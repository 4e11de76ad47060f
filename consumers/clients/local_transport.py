"""Reads several pointers of an open store as a transport, with the cursors that a server would give."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from headwater.consumers.clients.local_feed import FeedPage, LocalFeed
from headwater.consumers.clients.transport import Log, Received
from headwater.schemas.cursor import Position, encode_cursor
from headwater.schemas.errors import ChainBroken
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.frame import Frame

PAGE_CHANGES = 100
WAIT_SECONDS = 1.0
"""How long one wait for new entries of all pointers lasts."""


class LocalTransport:
    def __init__(self, feed: LocalFeed, pointers: Sequence[str], *, filter: Filter = NO_FILTER) -> None:
        self._feed = feed
        self._pointers = tuple(pointers)
        self._filter = filter

    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        positions = {pointer: self._feed.start(pointer, after) for pointer in self._pointers}
        wait_seconds = WAIT_SECONDS / len(positions) if follow else 0.0
        while True:
            pages = {pointer: self._page(pointer, at, wait_seconds) for pointer, at in positions.items()}
            positions = {pointer: page.last for pointer, page in pages.items()}
            yield Received(
                frames=tuple(page.frame for page in pages.values()),
                cursor=encode_cursor(self._feed.token(positions, self._filter)),
                heads={pointer: page.head.seq for pointer, page in pages.items()},
            )
            if not follow and all(page.last.seq >= page.head.seq for page in pages.values()):
                return

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        """The log's side: fills gaps."""
        position = self._feed.start(pointer, from_seq)
        while position.seq < to_seq:
            page = self._page(pointer, position, 0.0)
            if page.last.seq == position.seq:
                raise ChainBroken(f"{pointer}: the log has nothing after entry {position.seq}.", seq=position.seq + 1)
            position = page.last
            yield page.frame

    def _page(self, pointer: str, after: Position, wait_seconds: float) -> FeedPage:
        return self._feed.page(pointer, after, limit=PAGE_CHANGES, filter=self._filter, wait_seconds=wait_seconds)


class AsyncOf:
    """A log for readers on an event loop. It reads on the loop, because gaps are rare and reads short."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def frames(self, pointer: str, from_seq: int, to_seq: int) -> AsyncIterator[Frame]:
        for frame in self._log.frames(pointer, from_seq, to_seq):
            yield frame
