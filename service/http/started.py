"""Runs an awaitable up to its first wait, without a task of its own.

Sending a frame rarely waits: the server takes it into its buffers and is done. A task for each frame would cost more than the
frame itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any


def started(awaitable: Awaitable[None]) -> Awaitable[None] | None:
    """None if it is done, else the rest of it, to be awaited by a task."""
    steps = awaitable.__await__()
    try:
        waits_for = next(steps)
    except StopIteration:
        return None
    return _Rest(waits_for, steps)


class _Rest:
    def __init__(self, waits_for: Any, steps: Generator[Any, Any, None]) -> None:
        self._waits_for = waits_for
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, None]:
        yield self._waits_for  # still marked as awaited: the task that runs this takes it over
        yield from self._steps
