"""How many commits a reference has, and how far it is ahead of and behind the default branch.

Counted over stretches of logs, not commit by commit: the cost is that of branches upon branches, not of their commits.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.history.lineage import AncestorRange, Lineage


class Distance(msgspec.Struct, frozen=True):
    ahead: int
    behind: int
    ancestor: bytes
    """The commit where the two diverged."""


class CommitLine(msgspec.Struct, frozen=True):
    """The stretches of a commit's ancestors, newest first, and how many commits each has."""

    stretches: list[AncestorRange]

    @property
    def total(self) -> int:
        """Of commits that are known; what was cut is counted too, for numbers of entries do not change."""
        return sum(stretch.newest.entry.seq - stretch.start_seq for stretch in self.stretches)


def line_of(kernel: RealmKernel, logged: LogRecord) -> CommitLine:
    """What comes before a cut counts."""
    return CommitLine(list(Lineage(kernel).stretches(logged, cut_ok=True)))


def distance(kernel: RealmKernel, line: CommitLine, default: CommitLine) -> Distance | None:
    """None where they share nothing."""
    behind_before = 0
    theirs = {}
    for stretch in default.stretches:
        theirs[_segment(stretch)] = stretch, behind_before
        behind_before += stretch.newest.entry.seq - stretch.start_seq
    ahead = 0
    for stretch in line.stretches:
        shared = theirs.get(_segment(stretch))
        if shared is not None:
            other, behind = shared
            seq = min(stretch.newest.entry.seq, other.newest.entry.seq)
            newest = stretch.newest if stretch.newest.entry.seq == seq else other.newest
            ancestor = kernel.walk.at(newest, seq)
            return Distance(ahead + stretch.newest.entry.seq - seq, behind + other.newest.entry.seq - seq, ancestor.commit)
        ahead += stretch.newest.entry.seq - stretch.start_seq
    return None


def _segment(stretch: AncestorRange) -> tuple[str, int]:
    return stretch.newest.entry.pointer, stretch.start_seq
