"""Bounds how fast files are listed, read and deleted: one budget for all threads of a process.

A storage that answers "slow down" halves the rate for everybody; it recovers by 5 % a minute.
"""

from __future__ import annotations

import threading

from headwater.persistence.clock import MICROS, Clock

RECOVERY_PER_MINUTE = 1.05
SLOWEST = 1 / 64
"""The lowest fraction of the configured rate: work continues however often a storage complains."""


class Rate:
    """Units per second; 0 means no limit until a storage complains."""

    def __init__(self, per_second: float, clock: Clock, assumed_per_second: float = 100.0) -> None:
        self._full = per_second or assumed_per_second
        self._unlimited = per_second == 0
        self._clock = clock
        self._lock = threading.Lock()
        self._share = 1.0
        self._changed_at = clock.now_micros()
        self._free_at = self._changed_at

    def take(self, units: int = 1) -> None:
        """Waits until that many units may be used. The units of one call are never split, so one large call delays the next."""
        wait_micros = self._book(units)
        if wait_micros > 0:
            self._clock.sleep(wait_micros / MICROS)

    def slow_down(self) -> None:
        with self._lock:
            self._share = max(SLOWEST, self._recovered() / 2)
            self._changed_at = self._clock.now_micros()

    def per_second(self) -> float:
        """What is allowed now; 0 for no limit."""
        with self._lock:
            return self._current()

    def _book(self, units: int) -> int:
        with self._lock:
            rate = self._current()
            if rate == 0:
                return 0
            now = self._clock.now_micros()
            begin = max(now, self._free_at)
            self._free_at = begin + int(units / rate * MICROS)
            return begin - now

    def _current(self) -> float:
        share = self._recovered()
        return 0.0 if self._unlimited and share >= 1.0 else self._full * share

    def _recovered(self) -> float:
        minutes = max(0, self._clock.now_micros() - self._changed_at) / MICROS / 60
        return float(min(1.0, self._share * RECOVERY_PER_MINUTE**minutes))
