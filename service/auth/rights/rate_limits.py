"""Limits requests per principal, and says when to come back. Each worker counts its own."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from headwater.schemas.errors import TooManyRequests
from headwater.service.auth.caller import Caller

BUCKETS_MAX = 10_000


class TokenBuckets:
    """So many at once, so many a second. The least lately used is forgotten, which only ever gives a little more."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, count: float = 1.0) -> float:
        """0 if it is within the rate, else the seconds after which it would be; then nothing is taken."""
        left, now = self.left(key), self._clock()
        if left < count:
            return (count - left) / self._per_second
        self._keep(key, left - count, now)
        return 0.0

    def give_back(self, key: Hashable, count: float = 1.0) -> None:
        """What was taken for something that did not count after all."""
        self._keep(key, min(self._burst, self.left(key) + count), self._clock())

    def left(self, key: Hashable) -> float:
        kept = self._buckets.get(key)
        if kept is None:
            return self._burst
        left, at = kept
        return min(self._burst, left + (self._clock() - at) * self._per_second)

    def _keep(self, key: Hashable, left: float, now: float) -> None:
        self._buckets[key] = (left, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)


class OneBucket:
    """One rate for all callers together."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(per_second, burst, clock)

    def check(self, message: str) -> None:
        wait_seconds = self._buckets.take(None)
        if wait_seconds:
            raise too_many(message, wait_seconds)


class RateLimits:
    """Rate limits per principal; 0 per second means no limit."""

    def __init__(self, per_second: float = 0.0, burst: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(per_second, max(1.0, burst), clock) if per_second else None
        self.refused = 0

    def take(self, caller: Caller) -> None:
        if self._buckets is None:
            return
        wait_seconds = self._buckets.take(caller.identity)
        if wait_seconds:
            self.refused += 1
            raise too_many("this principal sends more requests than it may.", wait_seconds)


def too_many(message: str, wait_seconds: float) -> TooManyRequests:
    seconds = max(1, int(wait_seconds + 0.999))
    return TooManyRequests(message, remedy=f"Try again in {seconds} s.", retry_after_seconds=seconds)
