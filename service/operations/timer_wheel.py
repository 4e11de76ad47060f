"""Many coarse timers for the price of one timer of the event loop.

Heartbeats, stalls and the ends of long polls need not be exact: they are grouped into slots of `SLOT_SECONDS`, and the event
loop is asked for one wake-up at a time, that of the earliest slot. For one event loop only.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

SLOT_SECONDS = 0.05


class Timer:
    __slots__ = ("_callback", "_slot")

    def __init__(self, slot: set[Timer], callback: Callable[[], None]) -> None:
        self._slot = slot
        self._callback = callback

    def cancel(self) -> None:
        """Also after it has fired, when it does nothing."""
        self._slot.discard(self)

    def fire(self) -> None:
        self._callback()


class TimerWheel:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, set[Timer]] = {}
        self._order: list[int] = []
        self._handle: asyncio.TimerHandle | None = None

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls back when so much time has passed, never earlier, at most a slot later."""
        number = int((self._loop.time() + seconds) / SLOT_SECONDS) + 1
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = set()
            heapq.heappush(self._order, number)
            if self._order[0] == number:
                self._arm()
        timer = Timer(slot, callback)
        slot.add(timer)
        return timer

    async def wait(self, future: asyncio.Future[None], seconds: float) -> bool:
        """Whether the future is done within that time. It is left alone if not."""
        if future.done():
            return True
        woken: asyncio.Future[None] = self._loop.create_future()

        def wake(_: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.after(seconds, wake)
        future.add_done_callback(wake)
        try:
            await woken
        finally:
            timer.cancel()
            future.remove_done_callback(wake)
        return future.done()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._order[0] * SLOT_SECONDS, self._fire) if self._order else None

    def _fire(self) -> None:
        now = self._loop.time()
        while self._order and self._order[0] * SLOT_SECONDS <= now:
            slot = self._slots.pop(heapq.heappop(self._order))
            while slot:
                slot.pop().fire()
        self._handle = None
        self._arm()
