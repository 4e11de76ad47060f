"""Starts requests in turns of the event loop when many are open, so that a burst of them does not keep a health check waiting.

Ten thousand requests that arrive at once would otherwise all be started before the one that comes after them. A turn starts
a few; the others wait in order, and reserved routes do not wait at all.
"""

from __future__ import annotations

import asyncio
from collections import deque

CROWD = 256
"""Requests that are open before turns are taken: fewer are started at once, in some 20 ms."""
STARTS_IN_TURN = 8
"""Half a millisecond of work. ⚠ Between turns the event loop lets the server below hand over what arrives; it cannot while
Python code runs, so longer turns would keep a health check waiting there."""


class Starts:
    """One per event loop."""

    def __init__(self) -> None:
        self._started = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turn_planned = False

    def may_start(self) -> bool:
        """Takes a place in this turn; False if the request must `wait`."""
        if self._waiting or self._started >= STARTS_IN_TURN:
            return False
        self._started += 1
        self._plan_turn()
        return True

    async def wait(self) -> None:
        """Wait for its turn, after the requests that came before."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._plan_turn()
        await place

    def _plan_turn(self) -> None:
        if not self._is_turn_planned:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_planned = False
        self._started = 0
        while self._waiting and self._started < STARTS_IN_TURN:
            place = self._waiting.popleft()
            if not place.done():  # else its client went away
                place.set_result(None)
                self._started += 1
        if self._started:
            self._plan_turn()
