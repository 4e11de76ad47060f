"""Reads checked Changes over any transport: reconnects, repairs gaps, and resumes from a cursor.

Retriable failures are waited out with growing pauses; a dead cursor (`CursorExpired`, `CursorReset`) and a broken chain are
raised, for no retry mends them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from headwater.consumers.backoff import Backoff
from headwater.consumers.clients.chain import Gap
from headwater.consumers.clients.positions import Positions
from headwater.consumers.clients.transport import AsyncLog, AsyncTransport, Log, Received, Transport
from headwater.schemas.change import Change
from headwater.schemas.cursor import is_cursor
from headwater.schemas.errors import ChainBroken, HeadwaterError

TRIES_MAX = 6
"""In a row, of a reader that does not follow."""


class Reader:
    """One pass over a feed. `cursor` always goes on right behind the Change that was given out last: keep it with what you made
    of that Change, and a restart neither skips nor doubles."""

    def __init__(
        self,
        transport: Transport,
        after: str = "earliest",
        *,
        log: Log | None = None,
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = transport
        self._positions = Positions(after)
        self._log = log
        self._backoff = backoff
        self._sleep = sleep

    @property
    def cursor(self) -> str:
        return self._positions.cursor

    def begin(self, *, follow: bool = True) -> str:
        """The cursor as a token, learnt from the server: `latest` is from now on the entry that is the latest now. ⚠ Keep it
        before you act on the first Change; a restart would else begin at a later `latest`. With `follow`, a server that is away
        is waited for."""
        backoff = self._make_backoff(follow)
        while not is_cursor(self.cursor):
            try:
                self._positions.begin(next(self._transport.receive(self.cursor, follow=False)))
            except HeadwaterError as error:
                self._sleep(backoff.after(error))
        return self.cursor

    def changes(self, *, follow: bool = True) -> Iterator[Change]:
        """With `follow`, for ever, whatever the server does; else to the heads, or until the server has failed too often."""
        backoff = self._make_backoff(follow)
        while True:
            try:
                for received in self._transport.receive(self.cursor, follow=follow):
                    backoff.succeeded()
                    yield from self._repaired(received)
                    yield from self._positions.take(received)
                    if not follow and self._positions.has_reached(received.heads):
                        return
                if not follow:
                    return
            except HeadwaterError as error:
                self._sleep(backoff.after(error))

    def _make_backoff(self, follow: bool) -> Backoff:
        return self._backoff or Backoff(tries_max=None if follow else TRIES_MAX)

    def _repaired(self, received: Received) -> Iterator[Change]:
        for gap in self._positions.missing(received):
            if self._log is None:
                raise _beyond_repair(gap) from gap
            for frame in self._log.frames(gap.pointer, gap.from_seq, gap.to_seq):
                yield from self._positions.take(Received(frames=(frame,)))


class AsyncReader:
    """The same for an event loop."""

    def __init__(
        self,
        transport: AsyncTransport,
        after: str = "earliest",
        *,
        log: AsyncLog | None = None,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._positions = Positions(after)
        self._log = log
        self._backoff = backoff
        self._sleep = sleep

    @property
    def cursor(self) -> str:
        return self._positions.cursor

    async def begin(self, *, follow: bool = True) -> str:
        backoff = self._make_backoff(follow)
        while not is_cursor(self.cursor):
            try:
                self._positions.begin(await anext(self._transport.receive(self.cursor, follow=False)))
            except HeadwaterError as error:
                await self._sleep(backoff.after(error))
        return self.cursor

    async def changes(self, *, follow: bool = True) -> AsyncIterator[Change]:
        backoff = self._make_backoff(follow)
        while True:
            try:
                async for received in self._transport.receive(self.cursor, follow=follow):
                    backoff.succeeded()
                    async for change in self._repaired(received):
                        yield change
                    for change in self._positions.take(received):
                        yield change
                    if not follow and self._positions.has_reached(received.heads):
                        return
                if not follow:
                    return
            except HeadwaterError as error:
                await self._sleep(backoff.after(error))

    def _make_backoff(self, follow: bool) -> Backoff:
        return self._backoff or Backoff(tries_max=None if follow else TRIES_MAX)

    async def _repaired(self, received: Received) -> AsyncIterator[Change]:
        for gap in self._positions.missing(received):
            if self._log is None:
                raise _beyond_repair(gap) from gap
            async for frame in self._log.frames(gap.pointer, gap.from_seq, gap.to_seq):
                for change in self._positions.take(Received(frames=(frame,))):
                    yield change


def _beyond_repair(gap: Gap) -> ChainBroken:
    return ChainBroken(
        f"{gap}, and there is no log to read them from.", remedy="Give the reader a server or a store.", seq=gap.from_seq + 1
    )
