"""Waits until one of several pointers moves, the time is over, or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headwater.consumers.clients.local_feed import stands_at
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.schemas.cursor import Position
from headwater.schemas.errors import RealmNotActive

LOOK_AGAIN_SECONDS = 1.0
"""A watch that lost the store wakes nobody: heads are then asked for again at this interval."""


class Stopping:
    """Set once, when the process begins to stop: whoever waits comes back."""

    def __init__(self) -> None:
        self.is_set = False
        self._wakes: set[asyncio.Event] = set()

    def set(self) -> None:
        self.is_set = True
        for wake in self._wakes:
            wake.set()

    def add(self, wake: asyncio.Event) -> None:
        self._wakes.add(wake)

    def discard(self, wake: asyncio.Event) -> None:
        self._wakes.discard(wake)


class NewsWaiter:
    """Woken by moves of any of the pointers. Made once for a request, so that no move between two waits is missed."""

    def __init__(self, watch: HeadWatch, pointers: Mapping[str, Position], stopping: Stopping) -> None:
        self._watch = watch
        self._pointers = tuple(pointers)
        self._stopping = stopping
        self._woken = asyncio.Event()
        self._interrupted = False
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> NewsWaiter:
        for pointer in self._pointers:
            self._watch.add_waiter(pointer, self._wake)
        self._stopping.add(self._woken)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.discard(self._woken)
        for pointer in self._pointers:
            self._watch.remove_waiter(pointer, self._wake)

    async def wait(self, positions: Mapping[str, Position], timeout_seconds: float) -> bool:
        """Whether there is news; False when the time is over, the wait was interrupted or the server stops."""
        deadline = self._loop.time() + timeout_seconds
        while not (self._stopping.is_set or self._interrupted):
            self._woken.clear()
            if await self._has_news(positions):
                return True
            left = deadline - self._loop.time()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._woken.wait(), min(left, LOOK_AGAIN_SECONDS))
            except TimeoutError:
                continue
        return False

    async def _has_news(self, positions: Mapping[str, Position]) -> bool:
        if self._watch.is_closed:
            raise RealmNotActive("the realm is no longer served here.", field="realm", remedy="Look at its status.")
        for pointer in self._pointers:
            head = self._watch.known(pointer) or self._watch.known_end(pointer)
            if head is None:
                head = await asyncio.to_thread(self._watch.head_or_end, pointer)
            if not stands_at(positions[pointer], head):
                return True
        return False

    def interrupt(self) -> None:
        """From the event loop: end this wait and any later one, for nobody waits any more."""
        self._interrupted = True
        self._woken.set()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)
