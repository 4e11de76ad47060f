"""Finds the stripe of a level that holds a key, or those that meet a range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from headwater.persistence.index.objects import Directory, IndexObject, IndexRoot, Load, Stripe, StripeRef
from headwater.schemas.errors import HeadwaterError, ObjectNotFound, WrongObjectType


class Level:
    """An immutable view of one level, decoded no further than asked: a flush that stops above needs its weight alone."""

    __slots__ = ("_firsts", "_refs", "_source", "deleted", "length", "stripe", "top", "weight")

    def __init__(self, top: int, source: IndexObject | Sequence[StripeRef]) -> None:
        self.top = top
        """Object id; 0 for an empty level and for one that is not written yet."""
        self._source = source
        self._refs: list[StripeRef] | None = None
        self._firsts: list[bytes] | None = None
        self.stripe = source if isinstance(source, Stripe) else None
        """Where the level is a single stripe, and so came with its top object."""
        if isinstance(source, Stripe):
            self.length, self.deleted, self.weight = source.count, source.deleted, source.weight
        elif isinstance(source, Directory):
            self.length, self.deleted, self.weight = sum(source.counts), sum(source.deleted), sum(source.weights)
        else:
            self.length = sum([ref.length for ref in source])
            self.deleted = sum([ref.deleted for ref in source])
            self.weight = sum([ref.weight for ref in source])

    @property
    def refs(self) -> list[StripeRef]:
        if self._refs is None:
            if isinstance(self._source, Stripe):
                self._refs = [StripeRef(self._source.keys[0], self.top, self.length, self.deleted, self.weight)]
            elif isinstance(self._source, Directory):
                self._refs = self._source.refs
            else:
                self._refs = list(self._source)
        return self._refs

    @property
    def firsts(self) -> list[bytes]:
        if self._firsts is None:
            self._firsts = self._source.firsts if isinstance(self._source, Directory) else [ref.first for ref in self.refs]
        return self._firsts

    def position(self, key: bytes) -> int:
        """Of the stripe that may hold the key; -1 when it sorts below all of them."""
        return bisect_right(self.firsts, key) - 1

    def within(self, lower: bytes, upper: bytes) -> slice:
        """Positions of the stripes that may hold keys of [lower, upper)."""
        start = max(bisect_right(self.firsts, lower) - 1, 0)
        return slice(start, max(bisect_left(self.firsts, upper), start))


EMPTY = Level(0, [])


def open_levels(load: Load, root: IndexRoot) -> list[Level]:
    """All levels, with one bulk load of their top objects."""
    wanted = [top for top in root.levels if top]
    found = load(wanted) if wanted else {}
    levels: list[Level] = []
    for top in root.levels:
        source = found.get(top)
        if top and not isinstance(source, (Stripe, Directory)):
            raise _unusable(top, source)
        levels.append(EMPTY if source is None else Level(top, source))
    return levels


def load_stripes(load: Load, ids: Iterable[int]) -> dict[int, Stripe]:
    """Exactly the stripes asked for, with one bulk load."""
    wanted = sorted(set(ids))
    found = load(wanted) if wanted else {}
    stripes: dict[int, Stripe] = {}
    for stripe_id in wanted:
        stripe = found.get(stripe_id)
        if not isinstance(stripe, Stripe):
            raise _unusable(stripe_id, stripe)
        stripes[stripe_id] = stripe
    return stripes


def _unusable(object_id: int, found: object) -> HeadwaterError:
    """A state that misses an object is gone, never partial; one that names something else is broken."""
    if found is None:
        return ObjectNotFound(f"object {object_id} of the index is gone.", object_id=object_id)
    return WrongObjectType(
        f"object {object_id} of the index is a {type(found).__name__}.", object_id=object_id, type=type(found).__name__
    )


def find(stripe: Stripe, key: bytes) -> bytes | None:
    """The packed value, possibly `DELETED`; None if the stripe does not hold the key."""
    keys = stripe.keys
    at = bisect_left(keys, key)
    return stripe.values[at] if at < len(keys) and keys[at] == key else None
