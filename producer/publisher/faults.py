"""The named points at which a test may kill, stop or delay the publisher. In production nothing happens there."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    BEFORE_SEND = "before-send"
    """A transaction is open; nothing was produced in it."""
    AFTER_SEND = "after-send"
    """Records and progress were produced; the transaction is open."""
    BEFORE_COMMIT = "before-commit"
    """All was delivered and the lease was checked; the commit was not sent."""
    AFTER_COMMIT = "after-commit"
    """Kafka has committed; this process has not noted it yet."""


At = Callable[[FaultPoint], None]


def no_fault(point: FaultPoint) -> None:
    """What production passes in."""
