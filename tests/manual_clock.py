"""A clock that tests move, freeze and turn back; sleeping moves it, so that nothing is really waited for."""

from __future__ import annotations


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
