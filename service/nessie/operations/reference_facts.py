"""How many commits a reference has, and how far it is ahead of and behind the default branch.

Counted over sections of logs, not commit by commit: the cost is that of branches upon branches, not of their commits.
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
    """The sections of a commit's ancestors, newest first, and how many commits each has."""

    sections: list[AncestorRange]

    @property
    def total(self) -> int:
        """Number of known commits; those that were cut count too, because entry numbers do not change."""
        return sum(section.newest.entry.seq - section.start_seq for section in self.sections)


def line_of(kernel: RealmKernel, logged: LogRecord) -> CommitLine:
    """What comes before a cut counts."""
    return CommitLine(list(Lineage(kernel).sections(logged, cut_ok=True)))


def distance(kernel: RealmKernel, line: CommitLine, default: CommitLine) -> Distance | None:
    """None where they share nothing."""
    behind_before = 0
    theirs = {}
    for section in default.sections:
        theirs[_segment(section)] = section, behind_before
        behind_before += section.newest.entry.seq - section.start_seq
    ahead = 0
    for section in line.sections:
        shared = theirs.get(_segment(section))
        if shared is not None:
            other, behind = shared
            seq = min(section.newest.entry.seq, other.newest.entry.seq)
            newest = section.newest if section.newest.entry.seq == seq else other.newest
            ancestor = kernel.walk.at(newest, seq)
            return Distance(ahead + section.newest.entry.seq - seq, behind + other.newest.entry.seq - seq, ancestor.commit)
        ahead += section.newest.entry.seq - section.start_seq
    return None


def _segment(section: AncestorRange) -> tuple[str, int]:
    return section.newest.entry.pointer, section.start_seq
