"""The named points of a shard's protocol, where a test may kill, stop or watch the publisher. No effect in production."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    """In the order in which a shard passes them."""

    LEASED = "leased"
    FENCED = "fenced"
    RECOVERED = "recovered"
    BEFORE_SEND = "before-send"
    """A transaction is open; nothing was produced in it."""
    AFTER_SEND = "after-send"
    """Records and progress were produced; the transaction is open."""
    BEFORE_COMMIT = "before-commit"
    """All has its delivery report and the lease was checked; the commit was not sent."""
    AFTER_COMMIT = "after-commit"
    """Kafka has committed; this process has not noted it yet."""
    NOTED = "noted"
    """The new positions count as published here."""


At = Callable[[FaultPoint], None]


def no_fault(point: FaultPoint) -> None:
    """For production: does nothing."""
