"""A seed enters; how often a call on the store or the broker goes wrong leaves, and in which way each one does."""

from __future__ import annotations

import random
from collections import Counter

import msgspec

KINDS = ("unavailable", "lost", "unsent", "late", "twice", "slow")
RATES = (0.0, 0.0, 0.0, 0.003, 0.01, 0.04)


class Rates(msgspec.Struct, frozen=True):
    """Share of the calls that each fault meets."""

    unavailable: float = 0.0
    """Not sent, and the caller is told so."""
    lost: float = 0.0
    """Applied; the answer never comes."""
    unsent: float = 0.0
    """Not applied; the answer never comes."""
    late: float = 0.0
    """Applied some time after the caller was told that nobody knows."""
    twice: float = 0.0
    """Sent again by the driver: the caller hears the second answer alone."""
    slow: float = 0.0
    """Waits for seconds, e.g. for a lock, before it is applied."""


def drawn_rates(chance: random.Random) -> Rates:
    return Rates(*(chance.choice(RATES) for _ in KINDS))


class Faults:
    """Which fault meets the next call. Counts those that fired."""

    def __init__(self, rates: Rates, seed: int, what: str) -> None:
        self.rates = rates
        self.fired: Counter[str] = Counter()
        self.off = False
        self._chance = random.Random(f"faults {what} {seed}")

    def draw(self, *, is_write: bool) -> str:
        value = self._chance.random()
        if self.off:
            return ""
        for kind in KINDS if is_write else ("unavailable", "slow"):
            rate = getattr(self.rates, kind)
            if value < rate:
                self.fired[kind] += 1
                return kind
            value -= rate
        return ""

    def seconds(self) -> float:
        return self._chance.choice((0.05, 0.5, 2.0, 8.0))
