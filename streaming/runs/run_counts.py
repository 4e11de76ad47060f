"""Counts the rows of a maintenance run by realm and type."""

from __future__ import annotations

import msgspec

OTHERS = "(others)"
TYPES_MAX = 200
"""Types of one realm that are counted separately."""


class Counts(msgspec.Struct, kw_only=True):
    """Rows. Nothing that was not deleted is counted as purged."""

    scanned: int = 0
    retained: int = 0
    newer: int = 0
    purged: int = 0
    failed: int = 0
    would_purge: int = 0
    """In a dry run, in the place of purged."""

    def add(self, other: Counts) -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


CountsByRealm = dict[str, dict[str, Counts]]


def folded(counts: CountsByRealm, realms_max: int) -> CountsByRealm:
    """The first realms each for itself, all others added up under one name: the sums stay what they are."""
    fitting: CountsByRealm = {}
    for number, (realm, by_type) in enumerate(counts.items()):
        into = fitting.setdefault(realm if number < realms_max else OTHERS, {})
        for place, (name, found) in enumerate(by_type.items()):
            told_apart = place < TYPES_MAX and number < realms_max
            into.setdefault(name if told_apart else OTHERS, Counts()).add(found)
    return fitting
