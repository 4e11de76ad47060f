"""How long to wait after a lost attempt, and when to give up."""

from __future__ import annotations

import random
from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.commit.contention import ContentionControl
from headwater.schemas.errors import CommitRetriesExhausted, HeadwaterError, StoreUnavailable


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential with jitter, bounded in number and in time."""

    attempts_max: Annotated[int, Meta(ge=1)] = 200
    seconds_max: Annotated[float, Meta(gt=0)] = 15.0
    delay_seconds_first: float = 0.002
    delay_seconds_max: float = 0.25
    decide_seconds_max: float = 30.0
    """How long to try to resolve an unknown outcome before it is reported as unknown."""

    def exhausted(self, attempts: int, waited_seconds: float) -> bool:
        return attempts >= self.attempts_max or waited_seconds >= self.seconds_max

    def delay_seconds(self, attempts: int, waited_seconds: float, chance: random.Random, ceiling_seconds: float) -> float:
        """Older requests go first: one that has waited a second sleeps half as long between attempts as a new one."""
        waited_seconds = max(0.0, waited_seconds)  # the clock may have been set back
        ceiling = min(self.delay_seconds_max, ceiling_seconds, self.delay_seconds_first * float(1 << min(attempts, 16)))
        return ceiling * chance.uniform(0.5, 1.0) / (1.0 + waited_seconds)


class RetryBudget:
    """How often and how long one batch has tried, against the policy."""

    def __init__(self, policy: RetryPolicy, clock: Clock, chance: random.Random, since: int) -> None:
        self.lost = 0
        self._policy = policy
        self._clock = clock
        self._chance = chance
        self._since = since
        self._began = clock.now_micros()

    def wait_or_give_up(
        self, pointer: str, fault: StoreUnavailable | None, contention: ContentionControl
    ) -> HeadwaterError | None:
        """Sleep before the next attempt, or say why there is none."""
        self.lost += 1
        now = self._clock.now_micros()
        waited_seconds, tried_seconds = max(0, now - self._since) / MICROS, max(0, now - self._began) / MICROS
        if not self._policy.exhausted(self.lost, tried_seconds):  # what was spent in the queue is not an attempt
            ceiling_seconds = (
                self._policy.delay_seconds_max if fault else max(self._policy.delay_seconds_first, contention.retry_seconds)
            )
            self._clock.sleep(self._policy.delay_seconds(self.lost, waited_seconds, self._chance, ceiling_seconds))
            return None
        return fault or CommitRetriesExhausted(
            f"{pointer}: {self.lost} attempts in {waited_seconds:.1f} s were all overtaken by others; nothing was changed.",
            remedy="Try again, or raise commit_retry_seconds.",
            attempts=self.lost,
            waited_seconds=waited_seconds,
        )
