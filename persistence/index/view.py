"""Reads values by key, ranges both ways and subtrees. Reads only the stripes that are needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwater.persistence.index.keys import END, START, children_bounds, just_after
from headwater.persistence.index.level import EMPTY, Level, find, load_stripes, open_levels
from headwater.persistence.index.objects import (
    DELETED,
    IndexRoot,
    IndexValue,
    Load,
    Stripe,
    pack_value,
    unpack_value,
)

Tail = Mapping[bytes, IndexValue | None]
"""The operations since the last flush, the newest per key; None deletes."""

_READ_AHEAD_MAX = 16
"""Stripes of the longest level that a long iteration loads at once; it begins with one and doubles."""


class Index:
    """The state at one log entry. Immutable; safe to share between threads."""

    def __init__(self, load: Load, root: IndexRoot, tail: Tail) -> None:
        self.load = load
        self.root = root
        self.tail = tail
        self._levels: list[Level] | None = None

    def with_tail(self, tail: Tail) -> Index:
        """The same levels, not read again, under another tail: the next entries until a flush."""
        other = Index(self.load, self.root, tail)
        other._levels = self._levels
        return other

    @property
    def levels(self) -> list[Level]:
        """Newest first; the first use loads their top objects at once."""
        if self._levels is None:
            self._levels = open_levels(self.load, self.root)
        return self._levels

    def get(self, key: bytes) -> IndexValue | None:
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, IndexValue]:
        """The values of the keys that exist: at most one bulk load for the levels and one for the stripes."""
        tail = self.tail
        found: dict[bytes, IndexValue] = {}
        open_keys: list[bytes] = []
        for key in keys:
            if key not in tail:
                open_keys.append(key)
            elif (value := tail[key]) is not None:
                found[key] = value
        if not open_keys:
            return found
        levels = self.levels
        at = 0
        while at < len(levels) and open_keys and (levels[at] is EMPTY or levels[at].stripe is not None):
            open_keys = _search(levels[at], open_keys, {}, found)
            at += 1
        stripes = load_stripes(self.load, _stripes_of(levels[at:], open_keys))
        for level in levels[at:]:
            open_keys = _search(level, open_keys, stripes, found)
        return found

    def items(self, lower: bytes = START, upper: bytes = END, *, reverse: bool = False) -> Iterator[tuple[bytes, IndexValue]]:
        """[lower, upper) in key order, or backwards. A page continues at lower=just_after(key), backwards at upper=key."""
        tail_keys = sorted(self.tail)
        for ranges in _read_ahead(self._ranges(lower, upper, reverse)):
            stripes = self._load_within(min(ranges)[0], max(ranges)[1])
            for begin, end in ranges:
                elements = self._elements(stripes, begin, end)
                for key in tail_keys[bisect_left(tail_keys, begin) : bisect_left(tail_keys, end)]:
                    elements[key] = pack_value(self.tail[key])
                for key in sorted(elements, reverse=reverse):
                    if (packed := elements[key]) != DELETED:
                        yield key, unpack_value(packed)

    def under(
        self, path: Sequence[str], *, after: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, IndexValue]]:
        """Everything below a path (below () lies everything), continuing after the key that the previous page ended with."""
        lower, upper = children_bounds(path)
        if after is not None and reverse:
            upper = min(upper, after)
        elif after is not None:
            lower = max(lower, just_after(after))
        return self.items(lower, upper, reverse=reverse)

    def count_estimate(self) -> int:
        """Never less than the number of keys; more by those that an upper level replaces or deletes. Reads no stripe."""
        in_tail = sum(value is not None for value in self.tail.values())
        return in_tail + sum(level.length - level.deleted for level in self.levels)

    def _ranges(self, lower: bytes, upper: bytes, reverse: bool) -> list[tuple[bytes, bytes]]:
        """[lower, upper) cut at the stripes of the longest level."""
        if upper <= lower:
            return []
        longest = max(self.levels, key=lambda level: len(level.refs), default=EMPTY)
        cuts = [first for first in longest.firsts[longest.within(lower, upper)] if first > lower]
        ranges = list(zip([lower, *cuts], [*cuts, upper], strict=True))
        return ranges[::-1] if reverse else ranges

    def _load_within(self, lower: bytes, upper: bytes) -> dict[int, Stripe]:
        striped = [level for level in self.levels if level.stripe is None]
        return load_stripes(self.load, [ref.id for level in striped for ref in level.refs[level.within(lower, upper)]])

    def _elements(self, stripes: dict[int, Stripe], lower: bytes, upper: bytes) -> dict[bytes, bytes]:
        """Of all levels in [lower, upper), newer ones over older ones."""
        elements: dict[bytes, bytes] = {}
        for level in reversed(self.levels):
            for ref in level.refs[level.within(lower, upper)]:
                stripe = level.stripe or stripes[ref.id]
                piece = slice(bisect_left(stripe.keys, lower), bisect_left(stripe.keys, upper))
                elements.update(zip(stripe.keys[piece], stripe.values[piece], strict=True))
        return elements


def _read_ahead(ranges: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Neighbouring ranges in batches of 1, 2, 4 …: a page reads little, a full scan seldom."""
    at, size = 0, 1
    while at < len(ranges):
        yield ranges[at : at + size]
        at, size = at + size, min(size * 2, _READ_AHEAD_MAX)


def _stripes_of(levels: list[Level], keys: list[bytes]) -> set[int]:
    """Ids of the stripes in which the levels may hold the keys, without those at hand."""
    striped = [level for level in levels if level.refs and level.stripe is None]
    return {level.refs[at].id for level in striped for key in keys if (at := level.position(key)) >= 0}


def _search(level: Level, keys: list[bytes], stripes: dict[int, Stripe], found: dict[bytes, IndexValue]) -> list[bytes]:
    """Adds the keys that the level holds to `found`; returns the others."""
    unknown: list[bytes] = []
    for key in keys:
        if level.stripe is not None:
            packed = find(level.stripe, key)
        else:
            at = level.position(key)
            packed = find(stripes[level.refs[at].id], key) if at >= 0 else None
        if packed is None:
            unknown.append(key)
        elif packed != DELETED:
            found[key] = unpack_value(packed)
    return unknown
