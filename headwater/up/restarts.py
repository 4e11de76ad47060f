"""Decides how long to wait before a process that has ended is started again. Does no I/O."""

from __future__ import annotations

FIRST_SECONDS = 0.5
MAX_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A process that ran this long is considered healthy: the next wait is short again."""


class BackOff:
    def __init__(self, *, first_seconds: float = FIRST_SECONDS, max_seconds: float = MAX_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._max_seconds = max_seconds
        self._next_seconds = first_seconds

    def next(self, ran_seconds: float) -> float:
        """After a run of that length: twice the previous wait, up to a limit."""
        if ran_seconds >= STEADY_SECONDS:
            self._next_seconds = self._first_seconds
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._max_seconds)
        return seconds
