"""The logs of an open store's pointers: those of a realm, or those of `::system::`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.consumers.clients.local_feed import LocalFeed
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import PointerInfo
from headwater.service.operations.pointers import list_pointers

if TYPE_CHECKING:
    from headwater.consumers.clients.reader import Reader

FOLLOW_SECONDS = 1.0
"""Seconds until a follower checks whether it should still wait."""
PAGE_POINTERS = 1_000


class LocalLogs:
    def __init__(self, kernel: RealmKernel, watch: HeadWatch) -> None:
        self.kernel = kernel
        self.feed = LocalFeed(kernel, watch)

    def pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        token: str | None = ""
        while token is not None:
            page = list_pointers(self.kernel, prefix=prefix, after=token, limit=PAGE_POINTERS)
            yield from page.pointers
            token = page.next_token

    def changes(
        self, pointer: str, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER
    ) -> Iterator[Change]:
        """⚠ The cursor is resolved now, not when the first Change is requested: what is committed in between comes after
        `latest`."""
        return self._changes(pointer, self.feed.start(pointer, after), follow, filter)

    def changes_async(
        self, pointer: str, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]:
        return self._changes_async(pointer, self.feed.start(pointer, after), follow, filter)

    def reader(
        self, pointers: Sequence[str], after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False
    ) -> Reader:
        """Changes of several pointers, merged by time, with a cursor to keep. The store is read the same way with `stream`."""
        from headwater.consumers.clients.local_transport import LocalTransport
        from headwater.consumers.clients.reader import Reader

        transport = LocalTransport(self.feed, pointers, filter=filter)
        return Reader(transport, str(after), log=transport)

    def _changes(self, pointer: str, position: Position, follow: bool, filter: Filter) -> Iterator[Change]:
        wait_seconds = FOLLOW_SECONDS if follow else 0.0
        while True:
            page = self.feed.page(pointer, position, filter=filter, wait_seconds=wait_seconds)
            yield from page.frame.changes
            if not follow and page.last.seq >= page.head.seq:
                return
            position = page.last

    async def _changes_async(self, pointer: str, position: Position, follow: bool, filter: Filter) -> AsyncIterator[Change]:
        wait_seconds = FOLLOW_SECONDS if follow else 0.0
        while True:
            page = await self.feed.page_async(pointer, position, filter=filter, wait_seconds=wait_seconds)
            for change in page.frame.changes:
                yield change
            if not follow and page.last.seq >= page.head.seq:
                return
            position = page.last
