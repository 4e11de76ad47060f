"""Serves the readers of all hubs of one event loop in turn, in slices between which requests and commits get theirs.

⚠ Without that a commit would be answered when the last reader has its frame, and one that comes meanwhile would wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from headwater.service.operations.timer_wheel import TimerWheel

SLICE_SECONDS = 0.002
"""How long readers are served before requests get their turn …"""
PAUSE_SECONDS = 0.0005
"""… and how long the event loop then waits, at least: without a wait, threads that commit would not get the interpreter."""
COMMITS_FIRST_SECONDS = 0.005
"""How long a slice waits for commits that are under way."""


class Served(Protocol):
    is_scheduled: bool

    @property
    def is_committing(self) -> bool: ...

    def serve_slice(self, seconds: float) -> bool:
        """Serves readers for so long; whether there are more."""
        ...


class FanOut:
    def __init__(self) -> None:
        self._busy: deque[Served] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._wheel: TimerWheel | None = None
        self.wakes = self.built = self.handed_out = 0
        """How often a hub was woken, built a page, and handed one to a reader."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def wheel(self) -> TimerWheel:
        if self._wheel is None:
            self._wheel = TimerWheel(self.loop)
        return self._wheel

    def schedule(self, hub: Served) -> None:
        if not hub.is_scheduled:
            hub.is_scheduled = True
            self._busy.append(hub)
        if self._serving is None:
            self._serving = self.run(self._serve())

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self) -> None:
        """One slice at a time; what else the event loop has to do comes before each."""
        try:
            while self._busy:
                await asyncio.sleep(PAUSE_SECONDS)
                hub = self._busy.popleft()
                await self._let_commits_pass(hub)
                hub.is_scheduled = False
                if hub.serve_slice(SLICE_SECONDS):
                    self.schedule(hub)
        finally:
            self._serving = None

    async def _let_commits_pass(self, hub: Served) -> None:
        """⚠ For a while only: under a steady load of commits readers must get theirs too."""
        until = self.loop.time() + COMMITS_FIRST_SECONDS
        while hub.is_committing and self.loop.time() < until:
            await asyncio.sleep(PAUSE_SECONDS)
