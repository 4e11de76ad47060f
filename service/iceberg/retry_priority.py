"""Runs writers of one table in turn on the event loop; one that was refused retries next.

A writer whose table has changed must load it again. Meanwhile the faster writer, which knows the newest state from its answer,
would win again and again. So a refused writer has the next turn for a short while: each succeeds after one refusal, and no
table is loaded in vain. An unused turn makes the next ones shorter, so that others do not wait for a writer that retries later.

This is fairness, not correctness: connections through a proxy share a turn, and other processes are not included.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from headwater.schemas.errors import LaneFull, RequirementFailed

TURN_SECONDS = 0.05
TURN_SECONDS_MIN = 0.001
REMEMBERED_SECONDS = 10.0
WAITING_MAX = 1_000


class _TableQueue:
    def __init__(self) -> None:
        self.busy = False
        self.holder: Hashable = None
        self.until = 0.0
        self.turn_seconds = TURN_SECONDS
        self.waiting: deque[tuple[Hashable, asyncio.Future[None]]] = deque()
        self.timer: asyncio.TimerHandle | None = None
        self.forgetting: asyncio.TimerHandle | None = None

    @property
    def is_empty(self) -> bool:
        return not self.busy and not self.waiting and self.holder is None


class WriterQueue:
    """One per event loop."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _TableQueue] = {}

    @asynccontextmanager
    async def of(self, table: Hashable, writer: Hashable) -> AsyncIterator[None]:
        line = self._lines.setdefault(table, _TableQueue())
        await self._enter(table, line, writer)
        refused = False
        try:
            yield
        except RequirementFailed:
            refused = True
            raise
        finally:
            self._leave(table, line, writer, refused)

    async def _enter(self, table: Hashable, line: _TableQueue, writer: Hashable) -> None:
        if line.is_empty:
            line.busy = True
            return
        if len(line.waiting) >= WAITING_MAX:
            raise LaneFull(f"{WAITING_MAX} writers wait for this table already.", remedy="Try again later.")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append((writer, place))
        self._next(table, line)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was let in at the moment in which it hung up
                line.busy = False
            self._next(table, line)
            raise

    def _leave(self, table: Hashable, line: _TableQueue, writer: Hashable, refused: bool) -> None:
        line.busy = False
        if refused:
            line.holder, line.until = writer, asyncio.get_running_loop().time() + line.turn_seconds
        self._next(table, line)

    def _next(self, table: Hashable, line: _TableQueue) -> None:
        """Admits the writer whose turn it is, if none is running."""
        if line.busy:
            return
        while line.waiting and line.waiting[0][1].done():
            line.waiting.popleft()
        if line.holder is not None and not self._holder_goes(table, line):
            return
        if line.waiting and not line.busy:
            line.busy = True
            line.waiting.popleft()[1].set_result(None)
        if line.is_empty:
            self._leave_alone(table, line)

    def _holder_goes(self, table: Hashable, line: _TableQueue) -> bool:
        """Whether the turn is over: taken up now, or not taken up in time."""
        loop = asyncio.get_running_loop()
        mine = next((one for one in line.waiting if one[0] == line.holder and not one[1].done()), None)
        if mine is not None:
            line.waiting.remove(mine)
            line.turn_seconds = min(TURN_SECONDS, 2 * line.turn_seconds)
            line.busy = True
            mine[1].set_result(None)
        elif loop.time() < line.until:
            if line.timer is None:
                line.timer = loop.call_at(line.until, self._time_is_over, table, line)
            return False
        else:
            line.turn_seconds = max(TURN_SECONDS_MIN, line.turn_seconds / 2)
        line.holder = None
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        return True

    def _leave_alone(self, table: Hashable, line: _TableQueue) -> None:
        """That turns were not taken up is remembered for a while; a line that knows nothing is forgotten at once."""
        if line.turn_seconds == TURN_SECONDS:
            self._lines.pop(table, None)
        elif line.forgetting is None:
            line.forgetting = asyncio.get_running_loop().call_later(REMEMBERED_SECONDS, self._forget, table, line)

    def _forget(self, table: Hashable, line: _TableQueue) -> None:
        line.forgetting, line.turn_seconds = None, TURN_SECONDS
        if line.is_empty:
            self._lines.pop(table, None)

    def _time_is_over(self, table: Hashable, line: _TableQueue) -> None:
        line.timer = None
        self._next(table, line)
