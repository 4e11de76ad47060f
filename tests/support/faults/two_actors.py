"""Actors on threads of their own, whose calls of the store the test lets through one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

STEP_SECONDS = 120
HELD = (
    *("insert_mutable", "update_mutable", "delete_mutable", "read_mutable", "list_mutable"),
    *("read_pointer", "read_pointers", "cas_pointer"),
)


class SteppedActor:
    """Waits before every call of its backend until `step` lets it through."""

    def __init__(self, backend: Any, act: Callable[[], object]) -> None:
        self._backend = backend
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_over = False
        self.steps = 0
        self.result: object = None
        """What it returned or raised."""
        for name in HELD:
            setattr(backend, name, self._held(getattr(backend, name)))

    def start(self) -> None:
        """Until its first call."""
        self._thread.start()
        self._settle()

    def step(self) -> None:
        if not self.is_over:
            self.steps += 1
            self._go.release()
            self._settle()

    def finish(self) -> None:
        while not self.is_over:
            self.step()

    def _run(self) -> None:
        try:
            self.result = self._act()
        except Exception as error:
            self.result = error
        self.is_over = True
        self._waits.release()

    def _settle(self) -> None:
        assert self._waits.acquire(timeout=STEP_SECONDS), "the actor neither called the store nor ended"

    def _held(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def held(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is self._thread:
                self._waits.release()
                assert self._go.acquire(timeout=STEP_SECONDS)
            return call(*arguments, **named)

        return held


def interleave(first: SteppedActor, second: SteppedActor, first_steps: int, second_steps: int) -> None:
    """So many steps of the first, so many of the second, then the rest of the first, then that of the second."""
    first.start()
    second.start()
    for _ in range(first_steps):
        first.step()
    for _ in range(second_steps):
        second.step()
    first.finish()
    second.finish()
