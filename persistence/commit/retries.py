"""How long to wait after a lost attempt, and when to give up."""

from __future__ import annotations

import random
from typing import Annotated

import msgspec
from msgspec import Meta


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential with jitter, bounded in number and in time."""

    attempts_max: Annotated[int, Meta(ge=1)] = 200
    seconds_max: Annotated[float, Meta(gt=0)] = 15.0
    delay_seconds_first: float = 0.002
    delay_seconds_max: float = 0.25
    decide_seconds_max: float = 30.0
    """How long to try to resolve an unknown outcome before the caller is told that it is unknown."""

    def exhausted(self, attempts: int, waited_seconds: float) -> bool:
        return attempts >= self.attempts_max or waited_seconds >= self.seconds_max

    def delay_seconds(self, attempts: int, waited_seconds: float, chance: random.Random, ceiling_seconds: float) -> float:
        """Older requests go first: one that has waited a second sleeps half as long between attempts as a new one."""
        waited_seconds = max(0.0, waited_seconds)  # the clock may have been set back
        ceiling = min(self.delay_seconds_max, ceiling_seconds, self.delay_seconds_first * float(1 << min(attempts, 16)))
        return ceiling * chance.uniform(0.5, 1.0) / (1.0 + waited_seconds)
