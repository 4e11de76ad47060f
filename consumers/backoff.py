"""Computes how long to wait after a failure, and raises the error when another try cannot help."""

from __future__ import annotations

import random
from collections.abc import Callable

from headwater.schemas.errors import CursorAhead, HeadwaterError

FIRST_SECONDS = 0.2
SECONDS_MAX = 30.0
BEHIND_TRIES_MAX = 20
"""If a server's log ends before the cursor, it has lost history, e.g. by a restore from a backup: waiting does not help."""


class Backoff:
    """Exponential, with full jitter; one success resets it."""

    def __init__(
        self,
        *,
        first_seconds: float = FIRST_SECONDS,
        seconds_max: float = SECONDS_MAX,
        tries_max: int | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Tries in a row before giving up; None continues forever."""
        self._first_seconds = first_seconds
        self._seconds_max = seconds_max
        self._tries_max = tries_max
        self._chance = chance
        self.failures = 0

    def succeeded(self) -> None:
        self.failures = 0

    def after(self, error: HeadwaterError) -> float:
        """Seconds to wait. Raises the error if trying again cannot help, or has failed too often."""
        self.failures += 1
        tries_max = BEHIND_TRIES_MAX if isinstance(error, CursorAhead) and self._tries_max is None else self._tries_max
        if not error.retriable or (tries_max is not None and self.failures >= tries_max):
            raise error
        ceiling = min(self._seconds_max, self._first_seconds * 2 ** min(self.failures - 1, 30))
        retry_after = error.facts.get("retry_after_seconds")
        least: float = min(float(retry_after), self._seconds_max) if isinstance(retry_after, int | float) else 0.0
        pause: float = ceiling * (0.1 + 0.9 * self._chance())
        return max(least, pause)
