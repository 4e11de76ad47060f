"""Counts the rows of a maintenance run by realm and type, and the tables' files by realm."""

from __future__ import annotations

import msgspec

OTHERS = "(others)"
TYPES_MAX = 200
"""Number of types of one realm that are counted separately."""


class Counts(msgspec.Struct, kw_only=True):
    """Rows. Nothing that was not deleted is counted as purged."""

    scanned: int = 0
    retained: int = 0
    newer: int = 0
    purged: int = 0
    failed: int = 0
    would_purge: int = 0
    """In a dry run, instead of purged."""

    def add(self, other: Counts) -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class FileCounts(msgspec.Struct, kw_only=True):
    """The tables' own files. Each that was listed or named is exactly one of kept, deleted, missing, failed and refused."""

    listed: int = 0
    kept: int = 0
    deleted: int = 0
    """Deletions that the storage confirmed."""
    missing: int = 0
    """Gone before."""
    failed: int = 0
    refused: int = 0
    """Unused, below a root that was refused."""
    listed_bytes: int = 0
    kept_bytes: int = 0
    """Includes those of files that failed."""
    deleted_bytes: int = 0
    refused_bytes: int = 0
    refusals: int = 0
    """Roots and dropped tables whose deletion was stopped for a reason."""

    def add(self, other: FileCounts) -> None:
        for name in FileCounts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


CountsByRealm = dict[str, dict[str, Counts]]


def folded(counts: CountsByRealm, realms_max: int) -> CountsByRealm:
    """The first realms are listed one by one, all others added up under one name, so that the sums do not change."""
    fitting: CountsByRealm = {}
    for number, (realm, by_type) in enumerate(counts.items()):
        into = fitting.setdefault(realm if number < realms_max else OTHERS, {})
        for place, (name, found) in enumerate(by_type.items()):
            told_apart = place < TYPES_MAX and number < realms_max
            into.setdefault(name if told_apart else OTHERS, Counts()).add(found)
    return fitting


def folded_files(files: dict[str, FileCounts], realms_max: int) -> dict[str, FileCounts]:
    """As `folded`."""
    fitting: dict[str, FileCounts] = {}
    for number, (realm, found) in enumerate(files.items()):
        fitting.setdefault(realm if number < realms_max else OTHERS, FileCounts()).add(found)
    return fitting
