"""A clock that tests move, freeze and turn back; sleeping moves it, so that nothing is really waited for."""

from __future__ import annotations

import threading


class ManualClock:
    """Starts in 2026; `frozen` makes sleep leave it where it is."""

    def __init__(self, micros: int = 1_767_225_600_000_000) -> None:
        self.micros = micros
        self.frozen = False
        self.slept_seconds = 0.0

    def now_micros(self) -> int:
        return self.micros

    def sleep(self, seconds: float) -> None:
        self.slept_seconds += seconds
        if not self.frozen:
            self.micros += round(seconds * 1_000_000)

    def move(self, seconds: float) -> None:
        self.micros += round(seconds * 1_000_000)


class SharedClock(ManualClock):
    """Moved by several threads: without the lock a lost move would turn it back. Sleep is short: a lane that waits as long as a
    round trip took, while others move the clock by hours, would drive it to the end of time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def move(self, seconds: float) -> None:
        with self._lock:
            super().move(seconds)

    def sleep(self, seconds: float) -> None:
        with self._lock:
            super().sleep(min(seconds, 0.01))
