"""A commit on a thread of its own that continues step by step: head, removal intents, compare-and-swap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from headwater.persistence.coordination.removal_intents import INTENT_TYPE
from headwater.producer.pointer_names import parse_reference_pointer

STEP_SECONDS = 60


class Steps:
    """Holds the calls of one thread until the test lets the next one through."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived = 0
        self._allowed: float = 0
        self._thread: int | None = None
        self._is_over = False
        self.names: list[str] = []

    def hook(self, backend: Any) -> None:
        for name in ("read_pointer", "read_mutable", "commit"):
            setattr(backend, name, self._held(name, getattr(backend, name)))

    def _held(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def held(*arguments: Any, **named: Any) -> Any:
            if _is_step(name, arguments):
                self._wait(name)
            return call(*arguments, **named)

        return held

    def _wait(self, name: str) -> None:
        with self._changed:
            if self._thread is None:
                return
            self._arrived += 1
            self.names.append(name)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._arrived <= self._allowed, STEP_SECONDS)

    def start(self, submit: Callable[[], Future[Any]]) -> Future[Any]:
        """Until it arrives at its first step."""
        self._thread = 1
        future = submit()
        future.add_done_callback(self._done)
        self._settle()
        return future

    def step(self) -> None:
        """Let one call through, and wait until the next one arrives or the commit has ended."""
        with self._changed:
            if self._is_over:
                return
            self._allowed += 1
            self._changed.notify_all()
        self._settle()

    def go_on(self) -> None:
        with self._changed:
            self._allowed = float("inf")
            self._changed.notify_all()

    def _settle(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._is_over or self._arrived > self._allowed, STEP_SECONDS)

    def _done(self, _: Future[Any]) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def _is_step(name: str, arguments: tuple[Any, ...]) -> bool:
    """Not the reading of records, such as those of connectors."""
    if name == "read_pointer":
        return parse_reference_pointer(arguments[1]) is not None
    return name != "read_mutable" or arguments[1] == INTENT_TYPE
