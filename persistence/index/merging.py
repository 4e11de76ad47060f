"""Merges a sorted run of newer elements into a level, and leaves other stripes untouched.

New stripes carry negative ids until the flush is over: nothing gets an id that is not kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

from headwater.persistence.index.columns import VALUE_BYTES
from headwater.persistence.index.geometry import Geometry
from headwater.persistence.index.level import Level, load_stripes
from headwater.persistence.index.objects import DELETED, Load, Stripe, StripeRef, make_stripe

Elements = dict[bytes, bytes]
"""Key to packed value, in any order."""


class Workbench:
    """The stripes that one flush reads and makes."""

    def __init__(self, load: Load, geometry: Geometry, levels: Iterable[Level]) -> None:
        self._load = load
        self.geometry = geometry
        self.fresh: dict[int, Stripe] = {}
        self.weight_made = 0
        self._loaded = {level.top: level.stripe for level in levels if level.stripe is not None}

    def stripes(self, refs: Sequence[StripeRef]) -> list[Stripe]:
        """In the order of the references; what is not at hand comes with one bulk load."""
        wanted = [ref.id for ref in refs if ref.id > 0 and ref.id not in self._loaded]
        self._loaded.update(load_stripes(self._load, wanted))
        return [self.fresh[ref.id] if ref.id < 0 else self._loaded[ref.id] for ref in refs]

    def cut(self, elements: Elements) -> list[StripeRef]:
        """New stripes of about equal weight over the elements."""
        keys = sorted(elements)
        values = list(map(elements.__getitem__, keys))
        pieces = _even_cuts(keys, self.geometry.stripe_weight_max)
        return [self._add(keys[begin:end], values[begin:end]) for begin, end in pieces]

    def _add(self, keys: list[bytes], values: list[bytes]) -> StripeRef:
        stripe = make_stripe(keys, values)
        fresh_id = -1 - len(self.fresh)
        self.fresh[fresh_id] = stripe
        self.weight_made += stripe.weight
        return StripeRef(keys[0], fresh_id, stripe.count, stripe.deleted, stripe.weight)


def elements_of(stripes: Iterable[Stripe]) -> Elements:
    elements: Elements = {}
    for stripe in stripes:
        elements.update(zip(stripe.keys, stripe.values, strict=True))
    return elements


def weight_of(keys: Collection[bytes]) -> int:
    return sum(map(len, keys)) + (VALUE_BYTES + 2) * len(keys)


def merge(bench: Workbench, level: Level, run: Elements, *, into_last: bool) -> Level:
    """Rewrites only the stripes that the run meets. In the last level tombstones have nothing left to hide."""
    if not run:
        return level
    if not level.refs:
        return Level(0, bench.cut(_without_deleted(run) if into_last else run))
    run_keys = sorted(run)
    groups = list(_meeting(level, run_keys))
    bench.stripes([ref for begin, end, _ in groups for ref in level.refs[begin:end]])
    refs: list[StripeRef] = []
    done = 0
    for begin, end, share in groups:
        elements = elements_of(bench.stripes(level.refs[begin:end]))
        elements.update(zip(share, map(run.__getitem__, share), strict=True))
        refs += level.refs[done:begin]
        refs += bench.cut(_without_deleted(elements) if into_last else elements)
        done = end
    return Level(0, _combine(bench, refs + level.refs[done:]))


def _meeting(level: Level, run_keys: list[bytes]) -> Iterator[tuple[int, int, list[bytes]]]:
    """(begin, end) of neighbouring stripes that the run meets, with its share of the keys."""
    firsts = level.firsts
    at = 0
    while at < len(run_keys):
        begin = end = max(level.position(run_keys[at]), 0)
        until = at
        while until < len(run_keys) and max(level.position(run_keys[until]), 0) == end:
            end += 1
            until = bisect_left(run_keys, firsts[end], until) if end < len(firsts) else len(run_keys)
        yield begin, end, run_keys[at:until]
        at = until


def _combine(bench: Workbench, refs: list[StripeRef]) -> list[StripeRef]:
    """A new stripe that is too light is joined with its lighter neighbour."""
    at = 0
    while at < len(refs) and len(refs) > 1:
        if refs[at].id > 0 or refs[at].weight >= bench.geometry.stripe_weight_min:
            at += 1
            continue
        if at == len(refs) - 1 or (at > 0 and refs[at - 1].weight < refs[at + 1].weight):
            at -= 1
        joined = bench.cut(elements_of(bench.stripes(refs[at : at + 2])))
        refs[at : at + 2] = joined
        if len(joined) > 1:
            at += len(joined)
    return refs


def _without_deleted(elements: Elements) -> Elements:
    if DELETED not in elements.values():
        return elements
    return {key: value for key, value in elements.items() if value != DELETED}


def _even_cuts(keys: list[bytes], weight_max: int) -> list[tuple[int, int]]:
    """(begin, end) of pieces of about equal weight, none empty, each at most a key heavier than `weight_max`."""
    pieces = -(-weight_of(keys) // weight_max)
    if pieces <= 1:
        return [(0, len(keys))] if keys else []
    weights = list(accumulate([len(key) + VALUE_BYTES + 2 for key in keys]))
    cuts = sorted({bisect_left(weights, weights[-1] * piece // pieces) for piece in range(1, pieces)} - {0})
    return list(zip([0, *cuts], [*cuts, len(keys)], strict=True))
