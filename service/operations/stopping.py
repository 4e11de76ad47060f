"""Whether the process is stopping, and what to notify then."""

from __future__ import annotations

from collections.abc import Callable


class Stopping:
    """Set once, when the process begins to stop: all waits return."""

    def __init__(self) -> None:
        self.is_set = False
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        """From the event loop."""
        self.is_set = True
        for call in self._calls:
            call()

    def call(self, call: Callable[[], None]) -> None:
        """When it is set. For what lives as long as the process."""
        self._calls.append(call)
