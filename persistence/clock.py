"""Wall-clock time in microseconds, injectable so that tests can move, freeze and turn it back."""

from __future__ import annotations

import time
from time import time_ns
from typing import Protocol

MICROS = 1_000_000
"""Microseconds in a second."""


def now_millis() -> int:
    """For metadata, whose times are in milliseconds."""
    return time_ns() // 1_000_000


class Clock(Protocol):
    def now_micros(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now_micros(self) -> int:
        return time_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
