"""How many plans each realm and each principal has: what is counted in the rows, and what this worker began and ended since."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from headwater.persistence.clock import MICROS
from headwater.producer.plans.plan_rows import PlanOptions
from headwater.schemas.errors import TooManyPlans

COUNT_SECONDS = 5.0
"""How long a count of a realm's plans is relied on; this process's own plans are added to it."""
REFUSING_COUNT_SECONDS = 1.0
"""⚠ How long one is that has no place: a count reads the rows of all plans, and a refused caller may try again at once."""


class PlanCounts:
    """One per worker. Thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, _Counted] = {}
        self._lock = threading.Lock()

    def add(self, realm: str, owner: str, now: int, count: Callable[[], Counter[str]], options: PlanOptions) -> None:
        """One more; `TooManyPlans` if the realm or the owner has as many as may be."""
        with self._lock:
            known = self._counts.get(realm)
            if known is not None and known.is_relied_on(owner, now, options):
                known.add(owner, options)
                return
        fresh = _Counted(now, count())
        with self._lock:
            self._counts[realm] = fresh
            fresh.add(owner, options)

    def remove(self, realm: str, owner: str) -> None:
        """One that this worker ended: its place is free at once."""
        with self._lock:
            if (known := self._counts.get(realm)) is not None:
                known.remove(owner)


class _Counted:
    def __init__(self, at: int, by_owner: Counter[str]) -> None:
        self._at, self._by_owner, self._all = at, by_owner, by_owner.total()

    def is_relied_on(self, owner: str, now: int, options: PlanOptions) -> bool:
        seconds = COUNT_SECONDS if self._refusal(owner, options) is None else REFUSING_COUNT_SECONDS
        return now - self._at < seconds * MICROS

    def add(self, owner: str, options: PlanOptions) -> None:
        if (refusal := self._refusal(owner, options)) is not None:
            raise refusal
        self._by_owner[owner] += 1
        self._all += 1

    def remove(self, owner: str) -> None:
        if self._by_owner[owner] > 0:
            self._by_owner[owner] -= 1
            self._all -= 1

    def _refusal(self, owner: str, options: PlanOptions) -> TooManyPlans | None:
        own, remedy = self._by_owner[owner], "End plans that are done, or wait for some to expire."
        if own >= options.plans_per_principal_max:
            return TooManyPlans(f"this principal has {own} plans in the realm.", field="plan", remedy=remedy)
        if self._all >= options.plans_max:
            return TooManyPlans(f"the realm has {self._all} plans.", field="plan", remedy=remedy)
        return None
