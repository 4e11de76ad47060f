"""Capacities of levels, sizes of stripes, and how much one flush may move.

All sizes are weights: bytes before compression. Reading does not depend on any of these numbers, so they may change between
versions; writers of one store should agree, so that the same state gives the same bytes.
"""

from __future__ import annotations

import msgspec


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    first_level_weight: int = 4_096
    """Capacity of the first level: about four full tails."""
    growth: int = 4
    """How much more each level holds than the one above."""
    whole_weight_max: int = 65_536
    """Levels up to this capacity are merged as a whole, skipping full ones; larger ones move stripe by stripe."""
    stripe_weight_max: int = 65_536
    """Stripes split above this …"""
    stripe_weight_min: int = 8_192
    """… and a stripe that a merge leaves below this is combined with a neighbour."""
    push_weight_max: int = 131_072
    """About how much one push takes out of a level; it rewrites a few times as much in the next."""
    push_work_per_tail: int = 16
    """A flush continues pushing while it has rewritten less than this many times its tail: big tails pay for themselves."""

    def capacity(self, level: int) -> int:
        """Of a level by its position, 0 the newest. The last level has none: it takes what there is."""
        return self.first_level_weight * int(self.growth**level)

    def wants_new_level(self, last: int, weight: int) -> bool:
        """The last level is so large that another level above it saves work: its ratio goes from 2 × growth to 2."""
        return weight > 2 * self.capacity(last)

    def has_needless_level(self, last: int, weight: int) -> bool:
        """What lasts of the last level is less than the capacity above it, half of what `wants_new_level` asked for."""
        return last > 0 and weight < self.capacity(last - 1)


GEOMETRY = Geometry()
