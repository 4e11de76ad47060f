"""Reads checked Changes over any transport: reconnects, repairs gaps, and resumes from a cursor.

Retriable failures are retried with growing pauses; a dead cursor (`CursorExpired`, `CursorReset`) and a broken chain are
raised, because no retry repairs them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

from headwater.consumers.backoff import Backoff
from headwater.consumers.clients.chain import Gap
from headwater.consumers.clients.positions import Positions
from headwater.consumers.clients.transport import AsyncLog, AsyncTransport, Log, Received, Transport
from headwater.schemas.change import Change
from headwater.schemas.cursor import is_cursor
from headwater.schemas.errors import ChainBroken, HeadwaterError
from headwater.schemas.frame import Frame

TRIES_MAX = 6
"""Failures in a row, for a reader that does not follow."""


class ReaderCore:
    """Positions, gaps and pauses of a reader, without I/O: the sync and the async reader only wait for the transport."""

    def __init__(self, after: str, has_log: bool, backoff: Backoff | None) -> None:
        self.positions = Positions(after)
        self._has_log = has_log
        self._backoff = backoff

    @property
    def has_begun(self) -> bool:
        return is_cursor(self.positions.cursor)

    def backoff(self, follow: bool) -> Backoff:
        return self._backoff or Backoff(tries_max=None if follow else TRIES_MAX)

    def gaps(self, received: Received) -> Iterator[Gap]:
        """What must be read from the log and taken before `received` is."""
        for gap in self.positions.missing(received):
            if not self._has_log:
                raise _beyond_repair(gap) from gap
            yield gap

    def take_frame(self, frame: Frame) -> Iterable[Change]:
        return self.positions.take(Received(frames=(frame,)))

    def is_done(self, received: Received, follow: bool) -> bool:
        return not follow and self.positions.has_reached(received.heads)


class Reader:
    """One pass over a feed. `cursor` always continues right after the Change that was returned last: store it with what
    you made of that Change, and a restart neither skips nor repeats one."""

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
        self._core = ReaderCore(after, log is not None, backoff)
        self._log = log
        self._sleep = sleep

    @property
    def cursor(self) -> str:
        return self._core.positions.cursor

    def begin(self, *, follow: bool = True) -> str:
        """The cursor as a token of the server: from now on `latest` is fixed to the current newest entry. ⚠ Store it before you
        act on the first Change; otherwise a restart begins at a later `latest`. With `follow`, waits for a server that is
        unavailable."""
        backoff = self._core.backoff(follow)
        while not self._core.has_begun:
            try:
                self._core.positions.begin(next(self._transport.receive(self.cursor, follow=False)))
            except HeadwaterError as error:
                self._sleep(backoff.after(error))
        return self.cursor

    def changes(self, *, follow: bool = True) -> Iterator[Change]:
        """With `follow`, runs without end, whatever the server does; otherwise up to the heads, or until the server has failed
        too often."""
        core, backoff = self._core, self._core.backoff(follow)
        while True:
            try:
                for received in self._transport.receive(self.cursor, follow=follow):
                    backoff.succeeded()
                    for frame in self._missing(received):
                        yield from core.take_frame(frame)
                    yield from core.positions.take(received)
                    if core.is_done(received, follow):
                        return
                if not follow:
                    return
            except HeadwaterError as error:
                self._sleep(backoff.after(error))

    def _missing(self, received: Received) -> Iterator[Frame]:
        for gap in self._core.gaps(received):
            if self._log is not None:
                yield from self._log.frames(gap.pointer, gap.from_seq, gap.to_seq)


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
        self._core = ReaderCore(after, log is not None, backoff)
        self._log = log
        self._sleep = sleep

    @property
    def cursor(self) -> str:
        return self._core.positions.cursor

    async def begin(self, *, follow: bool = True) -> str:
        backoff = self._core.backoff(follow)
        while not self._core.has_begun:
            try:
                self._core.positions.begin(await anext(self._transport.receive(self.cursor, follow=False)))
            except HeadwaterError as error:
                await self._sleep(backoff.after(error))
        return self.cursor

    async def changes(self, *, follow: bool = True) -> AsyncIterator[Change]:
        core, backoff = self._core, self._core.backoff(follow)
        while True:
            try:
                async for received in self._transport.receive(self.cursor, follow=follow):
                    backoff.succeeded()
                    async for frame in self._missing(received):
                        for change in core.take_frame(frame):
                            yield change
                    for change in core.positions.take(received):
                        yield change
                    if core.is_done(received, follow):
                        return
                if not follow:
                    return
            except HeadwaterError as error:
                await self._sleep(backoff.after(error))

    async def _missing(self, received: Received) -> AsyncIterator[Frame]:
        for gap in self._core.gaps(received):
            if self._log is not None:
                async for frame in self._log.frames(gap.pointer, gap.from_seq, gap.to_seq):
                    yield frame


def _beyond_repair(gap: Gap) -> ChainBroken:
    return ChainBroken(
        f"{gap}, and there is no log to read them from.", remedy="Give the reader a server or a store.", seq=gap.from_seq + 1
    )
