"""Splits tables into key ranges by sampled keys, and turns a split into ranges to scan.

One range per split would do for the whole table, but then a realm that is a tenth of it would lie in one or two splits, and
work on that realm would not be parallel. So every realm that the sample shows to be large is cut into `count` ranges, one for
each split; what lies between such realms goes, range by range, to the split that has least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from headwater.persistence.backends.sql.keys import Key
from headwater.persistence.rows import Split, Table
from headwater.schemas.errors import InvalidInput

Range = tuple[Key | None, Key | None]
"""First key (inclusive) and end (exclusive); None is open."""

LARGE_REALM_SAMPLES_EACH = 4
"""A realm is cut when it would give each split at least so many of the sampled keys."""

_LOWEST: dict[Table, Key] = {
    Table.OBJECTS: ("", -(2**63), 0),
    Table.POINTERS: ("", ""),
    Table.MUTABLE: ("", "", ""),
    Table.NAMES: ("", ""),
}

_ObjectKey = tuple[str, int, int]
_NameKey = tuple[str, str]
_MutableKey = tuple[str, str, str]

_DECODERS: dict[Table, msgspec.json.Decoder[Any]] = {
    Table.OBJECTS: msgspec.json.Decoder(list[tuple[_ObjectKey | None, _ObjectKey | None]]),
    Table.POINTERS: msgspec.json.Decoder(list[tuple[_NameKey | None, _NameKey | None]]),
    Table.MUTABLE: msgspec.json.Decoder(list[tuple[_MutableKey | None, _MutableKey | None]]),
    Table.NAMES: msgspec.json.Decoder(list[tuple[_NameKey | None, _NameKey | None]]),
}


def lowest_key(table: Table, realm: str = "") -> Key:
    """Not above any key of the realm."""
    return (realm, *_LOWEST[table][1:])


def behind_realm(table: Table, realm: str) -> Key:
    """Above every key of the realm, and not above any of the next: no text contains U+0000, so none lies between a realm
    and that realm followed by U+0001."""
    return lowest_key(table, realm + "\x01")


def splits_between(table: Table, samples: Sequence[Key], count: int) -> list[Split]:
    """At most `count` splits of about equal weight that cover every possible key."""
    shares: list[list[Range]] = [[] for _ in range(max(1, count))]
    weights = [0] * len(shares)
    for number, range_, weight in _cut(table, sorted(set(samples)), len(shares)):
        taker = weights.index(min(weights)) if number is None else number
        shares[taker].append(range_)
        weights[taker] += weight
    return [Split(table, msgspec.json.encode(share).decode(), "") for share in shares if share]


def ranges(split: Split, realm: str | None) -> list[tuple[Key, Key | None]]:
    """The ranges of a split in order, cut to one realm."""
    cut = []
    for lower, upper in _decoded(split):
        start = lowest_key(split.table) if lower is None else lower
        end = upper
        if realm is not None:
            start = max(start, lowest_key(split.table, realm))
            end = behind_realm(split.table, realm) if end is None else min(end, behind_realm(split.table, realm))
        if end is None or start < end:
            cut.append((start, end))
    return cut


def _cut(table: Table, keys: Sequence[Key], count: int) -> Iterator[tuple[int | None, Range, int]]:
    """Ranges that join seamlessly from the lowest key to the highest: number of the split if that is fixed, range, weight."""
    edge: Key | None = None
    weight = 0
    for realm, of_realm in groupby(keys, key=lambda key: key[0]):
        group = list(of_realm)
        large = count > 1 and len(group) >= count * LARGE_REALM_SAMPLES_EACH
        if large or weight > len(keys) / count / 4:
            start = lowest_key(table, realm)
            yield None, (edge, start), weight
            edge, weight = start, 0
        if large:
            inner = [group[len(group) * n // count] for n in range(1, count)]
            borders = [lowest_key(table, realm), *inner, behind_realm(table, realm)]
            for number in range(count):
                yield number, (borders[number], borders[number + 1]), len(group) // count
            edge = borders[-1]
        else:
            weight += len(group)
    yield None, (edge, None), weight


def _decoded(split: Split) -> list[Range]:
    try:
        decoded: list[Range] = _DECODERS[split.table].decode(split.lower)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"this is not a split of table {split.table.value}: {error}.", field="split") from error
    return decoded
