"""Flushes a full tail into an index: the next root, the objects that it adds and those that it releases.

Levels small enough are merged as a whole: the tail takes along each level that it fills up, and settles in the first that has
room. Larger levels move stripe by stripe: when one is over its capacity, the stripes that meet the least of the next level move
down, so that no flush rewrites much however large the index is. The outcome depends on root and tail alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate

import msgspec

from headwater.persistence.index.geometry import GEOMETRY, Geometry
from headwater.persistence.index.keys import END, check_encoded
from headwater.persistence.index.level import EMPTY, Level, open_levels
from headwater.persistence.index.merging import Elements, Workbench, elements_of, merge, weight_of
from headwater.persistence.index.objects import (
    IndexObject,
    IndexRoot,
    IndexValue,
    Load,
    StripeRef,
    make_directory,
    pack_value,
)


class Flushed(msgspec.Struct, frozen=True):
    root: IndexRoot
    added: list[tuple[int, IndexObject]]
    """Objects reachable from the new root and not from the old one, to be written before anything names the root."""
    released: list[int]
    """Ids reachable from the old root and not from the new one."""


def flush(
    load: Load,
    root: IndexRoot,
    tail: Mapping[bytes, IndexValue | None],
    new_id: Callable[[], int],
    geometry: Geometry = GEOMETRY,
) -> Flushed:
    """None in the tail deletes the key."""
    for key in tail:
        check_encoded(key)
    run = {key: pack_value(value) for key, value in tail.items()}
    before = open_levels(load, root)
    levels = before[:] or [EMPTY]
    bench = Workbench(load, geometry, before)
    # Pushing comes first: what the tail is about to touch is then written once.
    _push_down(bench, levels, max(1, geometry.push_work_per_tail * weight_of(run)))
    _settle(bench, levels, run)
    _fit_level_count(geometry, levels)
    return _write(bench, before, levels, new_id)


def _settle(bench: Workbench, levels: list[Level], run: Elements) -> None:
    """Merge the run into the first level with room, taking along the levels that are full."""
    geometry = bench.geometry
    last = len(levels) - 1
    for at, level in enumerate(levels):
        room = _capacity(geometry, levels, at)
        if room <= geometry.whole_weight_max:
            room -= level.weight
        if at == last or weight_of(run) <= room:
            levels[at] = merge(bench, level, run, into_last=at == last)
            return
        run = elements_of(bench.stripes(level.refs)) | run
        levels[at] = EMPTY


def _push_down(bench: Workbench, levels: list[Level], weight_enough: int) -> None:
    """At least one push where a level is over its capacity, the fullest first; more only for a big tail."""
    while bench.weight_made < weight_enough:
        over = [(levels[at].weight / max(_capacity(bench.geometry, levels, at), 1), at) for at in range(len(levels) - 1)]
        fullness, at = max(over, default=(0.0, 0), key=lambda full: (full[0], -full[1]))
        if fullness <= 1:
            return
        level, below = levels[at], levels[at + 1]
        begin, end = _cheapest_window(level, below, bench.geometry.push_weight_max)
        run = elements_of(bench.stripes(level.refs[begin:end]))
        levels[at] = Level(0, level.refs[:begin] + level.refs[end:])
        levels[at + 1] = merge(bench, below, run, into_last=at + 1 == len(levels) - 1)


def _cheapest_window(level: Level, below: Level, weight_max: int) -> tuple[int, int]:
    """The neighbouring stripes, about `weight_max` in all, that meet the least of the level below for their own weight.

    Where elements arrive evenly that is the range that has waited longest, and filled up most, since it was last emptied.
    """
    weights = [0, *accumulate([ref.weight for ref in level.refs])]
    below_weights = [0, *accumulate([ref.weight for ref in below.refs])]
    best, best_cost, end = (0, 1), float("inf"), 0
    for begin in range(len(level.refs)):
        end = max(end, begin + 1)
        while end < len(level.refs) and weights[end + 1] - weights[begin] <= weight_max:
            end += 1
        met = below.within(level.firsts[begin], level.firsts[end] if end < len(level.refs) else END)
        cost = (below_weights[met.stop] - below_weights[met.start]) / (weights[end] - weights[begin])
        if cost < best_cost:
            best, best_cost = (begin, end), cost
        if end == len(level.refs):
            break
    return best


def _capacity(geometry: Geometry, levels: list[Level], at: int) -> int:
    """The capacity of a level; 0 for one that the data no longer need, which then empties into the last level."""
    return 0 if at == len(levels) - 2 and _has_needless_level(geometry, levels) else geometry.capacity(at)


def _has_needless_level(geometry: Geometry, levels: list[Level]) -> bool:
    """Judged by what will be left of the last level when the tombstones above have reached it."""
    last = levels[-1]
    to_delete = min(last.length, sum([level.deleted for level in levels[:-1]]))
    weight_left = last.weight * (last.length - to_delete) // last.length if last.length else 0
    return geometry.has_needless_level(len(levels) - 1, weight_left)


def _fit_level_count(geometry: Geometry, levels: list[Level]) -> None:
    """Levels are added and removed just above the last one; no element moves for it."""
    while geometry.wants_new_level(len(levels) - 1, levels[-1].weight):
        levels.insert(-1, EMPTY)
    while len(levels) > 1 and not levels[-2].weight and _has_needless_level(geometry, levels):
        del levels[-2]


def _write(bench: Workbench, before: list[Level], levels: list[Level], new_id: Callable[[], int]) -> Flushed:
    added: list[tuple[int, IndexObject]] = []
    tops: list[int] = []
    reached: set[int] = set()
    kept = {level.top for level in levels}
    for level in levels:
        if level.top or not level.weight:
            tops.append(level.top)
            continue
        refs: list[StripeRef] = []
        for ref in level.refs:
            if ref.id < 0:
                stripe = bench.fresh[ref.id]
                ref = ref._replace(id=new_id())
                added.append((ref.id, stripe))
            refs.append(ref)
        if len(refs) == 1:
            tops.append(refs[0].id)
        else:
            tops.append(new_id())
            added.append((tops[-1], make_directory(refs)))
        reached.update(ref.id for ref in refs)
    replaced = [level for level in before if level.top not in kept]
    left = {level.top for level in replaced} | {ref.id for level in replaced for ref in level.refs}
    root = IndexRoot(tuple(tops) if any(tops) else ())
    return Flushed(root, added, sorted(left - reached))
