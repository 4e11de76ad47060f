"""Lists the keys at which two states differ, in order, with both values. What both share is not read.

A key can only differ if a tail or a stripe that one state has alone says something of it: states that share a stripe also agree
on which of the shared stripes is newer. So these are the candidates, and only they are looked up on both sides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from headwater.persistence.index.keys import END, START
from headwater.persistence.index.level import Level, load_stripes
from headwater.persistence.index.objects import IndexValue
from headwater.persistence.index.view import Index

Difference = tuple[bytes, IndexValue | None, IndexValue | None]

_STRIPES_AT_ONCE_MAX = 8
_KEYS_AT_ONCE = 1_000


def diff(
    before: Index, after: Index, lower: bytes = START, upper: bytes = END, *, keys_at_once: int = _KEYS_AT_ONCE
) -> Iterator[Difference]:
    """(key, value before, value after) in [lower, upper). Resume with lower=just_after(key). A caller that wants a page says
    how many keys it has: no more than that are looked up before the first of them is yielded."""
    if upper <= lower:
        return
    own_before, own_after = _own_levels(before, after), _own_levels(after, before)
    firsts = sorted({first for level in own_before + own_after for first in level.firsts if lower < first < upper})
    same = {key for key in before.tail.keys() & after.tail.keys() if before.tail[key] == after.tail[key]}
    cuts = _cuts(firsts)
    for begin, end in zip([lower, *cuts], [*cuts, upper], strict=True):
        keys = _candidates(before, own_before, begin, end) | _candidates(after, own_after, begin, end)
        in_order = sorted(keys - same)
        for at in range(0, len(in_order), keys_at_once):
            yield from _differing(before, after, in_order[at : at + keys_at_once])


def _cuts(firsts: list[bytes]) -> list[bytes]:
    """Stripes in runs of 1, 2, 4 …: a page reads few, a whole diff seldom."""
    cuts, at, size = [], 1, 1
    while at < len(firsts):
        cuts.append(firsts[at])
        size = min(2 * size, _STRIPES_AT_ONCE_MAX)
        at += size
    return cuts


def _differing(before: Index, after: Index, keys: list[bytes]) -> Iterator[Difference]:
    values_before, values_after = before.get_many(keys), after.get_many(keys)
    for key in keys:
        value_before, value_after = values_before.get(key), values_after.get(key)
        if value_before != value_after:
            yield key, value_before, value_after


def _own_levels(index: Index, other: Index) -> list[Level]:
    """The levels of `index`, each with only the stripes that `other` does not have."""
    if index.root == other.root:
        return []
    shared = {level.top for level in other.levels} | {ref.id for level in other.levels for ref in level.refs}
    own = [level for level in index.levels if level.top not in shared]
    return [Level(0, [ref for ref in level.refs if ref.id not in shared]) for level in own]


def _candidates(index: Index, own: list[Level], lower: bytes, upper: bytes) -> set[bytes]:
    keys = {key for key in index.tail if lower <= key < upper}
    met = [ref.id for level in own for ref in level.refs[level.within(lower, upper)]]
    for stripe in load_stripes(index.load, met).values():
        keys.update(stripe.keys[bisect_left(stripe.keys, lower) : bisect_left(stripe.keys, upper)])
    return keys
