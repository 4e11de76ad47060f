"""A level's top object enters; which stripe holds a key or meets a range leaves."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from headwater.persistence.index.objects import Directory, IndexObject, IndexRoot, Load, Stripe, StripeRef
from headwater.schemas.errors import ObjectNotFound, WrongObjectType


class Level:
    """An immutable view of one level. `stripe` is set where the level is a single stripe and so came with its top object."""

    __slots__ = ("firsts", "refs", "stripe", "top", "weight")

    def __init__(
        self, top: int, refs: list[StripeRef], firsts: list[bytes] | None = None, stripe: Stripe | None = None
    ) -> None:
        self.top = top
        """Object id; 0 for an empty level and for one that is not written yet."""
        self.refs = refs
        self.firsts = [ref.first for ref in refs] if firsts is None else firsts
        self.weight = sum([ref.weight for ref in refs])
        self.stripe = stripe

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
    tops = load_objects(load, [top for top in root.levels if top])
    return [_open_level(top, tops[top]) if top else EMPTY for top in root.levels]


def load_objects(load: Load, ids: Sequence[int]) -> dict[int, IndexObject]:
    """Exactly the objects asked for, or `ObjectNotFound`: a state that misses one is gone, never partial."""
    if not ids:
        return {}
    found = load(ids)
    try:
        return {object_id: found[object_id] for object_id in ids}
    except KeyError:
        missing = sorted(object_id for object_id in ids if object_id not in found)
        raise ObjectNotFound(
            f"{len(missing)} objects of the index are gone, the first is {missing[0]}.", object_id=missing[0]
        ) from None


def load_stripes(load: Load, ids: Iterable[int]) -> dict[int, Stripe]:
    loaded = load_objects(load, sorted(set(ids)))
    stripes = {stripe_id: stripe for stripe_id, stripe in loaded.items() if isinstance(stripe, Stripe)}
    if len(stripes) < len(loaded):
        wrong = next(object_id for object_id in loaded if object_id not in stripes)
        raise WrongObjectType(f"object {wrong} is no stripe of an index.", object_id=wrong)
    return stripes


def find(stripe: Stripe, key: bytes) -> bytes | None:
    """The packed value, `DELETED` included; None when the stripe does not say anything of the key."""
    keys = stripe.keys
    at = bisect_left(keys, key)
    return stripe.values[at] if at < len(keys) and keys[at] == key else None


def _open_level(top: int, found: IndexObject) -> Level:
    if isinstance(found, Directory):
        return Level(top, found.refs, found.firsts)
    if isinstance(found, Stripe):
        return Level(top, [StripeRef(found.keys[0], top, found.count, found.weight)], stripe=found)
    raise WrongObjectType(f"object {top} is no level of an index.", object_id=top)
