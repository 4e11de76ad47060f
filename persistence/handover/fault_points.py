"""The named points of handing over, where a test may kill or stop a worker. No effect in production."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    OFFERED = "offered"
    """The sender's request is on its way."""
    TAKEN = "taken"
    """The holder has a request in hand, and no lane has it yet."""
    LANDED = "landed"
    """A batch of the holder is committed, and no other process knows."""
    ANSWERED = "answered"
    """The sender has the outcome, and its caller does not."""


At = Callable[[FaultPoint], None]


def no_fault(point: FaultPoint) -> None:
    pass
