"""Two commits enter; the newest commits that both descend from leave, at a cost of merges and branches, not of commits.

A commit's ancestors are whole stretches of logs: of its own pointer back to where that line of states began (create or
assign), then of the base that it began from, and so on; and of every commit that was merged into one of them. So ancestors
are kept as "this segment, up to this entry", and what two commits share is the smaller of both in each common segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.change import COMMITTING_KINDS
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import MergeBaseExpired, ObjectNotFound


class AncestrySegment(NamedTuple):
    """One line of states of a pointer, from a create, assign or its first entry on."""

    pointer: str
    start_seq: int


class Ancestors(msgspec.Struct, frozen=True):
    """A commit and everything that it descends from."""

    newest: dict[AncestrySegment, LogRecord]
    complete: bool
    """False where a part of the history has been cut and swept."""

    def include(self, commit: LogRecord) -> bool:
        reached = self.newest.get(segment_of(commit))
        return reached is not None and reached.entry.seq >= commit.entry.seq


def segment_of(commit: LogRecord) -> AncestrySegment:
    return AncestrySegment(commit.entry.pointer, commit.entry.segment_seq)


def commit_of(walk: LogWalk, entry: LogRecord) -> LogRecord | None:
    """The commit that is the head after an entry; None for the empty state."""
    if entry.commit == EMPTY:
        return None
    return entry if entry.entry.kind in COMMITTING_KINDS else walk.load(entry.commit)


def ancestors(walk: LogWalk, commit: LogRecord | None) -> Ancestors:
    """`None` is the empty state."""
    newest: dict[AncestrySegment, LogRecord] = {}
    complete = True
    unvisited = [] if commit is None else [commit]
    while unvisited:
        here = unvisited.pop()
        segment = segment_of(here)
        reached = newest.get(segment)
        if reached is not None and reached.entry.seq >= here.entry.seq:
            continue
        newest[segment] = here
        older: list[Iterator[LogRecord]] = [_merged_since(walk, here, reached.entry.seq if reached else segment.start_seq)]
        if not reached:
            older.append(_base_of(walk, here))
        for found in older:
            try:
                for one in found:  # not all at once: where history was cut, the newer merges before the cut still count
                    unvisited.append(one)
            except ObjectNotFound:
                complete = False
    return Ancestors(newest, complete)


def merge_bases(walk: LogWalk, ours: LogRecord | None, theirs: LogRecord | None) -> list[LogRecord]:
    """The newest commits that both descend from, the newest first; none when that is the empty state. There is more than one
    only where both sides have merged each other crosswise: then neither of them has seen all that both share."""
    of_ours, of_theirs = ancestors(walk, ours), ancestors(walk, theirs)
    shared = [
        min(of_ours.newest[segment], of_theirs.newest[segment], key=lambda commit: commit.entry.seq)
        for segment in of_ours.newest.keys() & of_theirs.newest.keys()
    ]
    if not shared and not (of_ours.complete and of_theirs.complete):
        raise MergeBaseExpired(
            "the history that both sides share has been cut.",
            field="from",
            remedy="Assign the branch to the commit you want, or copy the tables over by a commit.",
        )
    return _without_ancestors(walk, sorted(shared, key=lambda commit: (commit.entry.time, commit.entry_id), reverse=True))


def _without_ancestors(walk: LogWalk, newest_first: list[LogRecord]) -> list[LogRecord]:
    """Those that no other one descends from."""
    kept: list[LogRecord] = []
    seen: list[Ancestors] = []
    for commit in newest_first:
        if any(known.include(commit) for known in seen):
            continue
        kept.append(commit)
        if len(newest_first) > 1:
            seen.append(ancestors(walk, commit))
    return kept


def _merged_since(walk: LogWalk, here: LogRecord, after_seq: int) -> Iterator[LogRecord]:
    """Heads of what was merged into this segment behind `after_seq`, up to `here`; newest first."""
    merge_seq = here.entry.merge_seq
    while merge_seq > after_seq:
        merge = walk.at(here, merge_seq)
        if merge.entry.source is not None and merge.entry.source.commit != EMPTY:
            yield walk.load(merge.entry.source.commit)
        merge_seq = walk.at(merge, merge_seq - 1).entry.merge_seq if merge_seq - 1 > after_seq else 0


def _base_of(walk: LogWalk, here: LogRecord) -> Iterator[LogRecord]:
    """The commit that the segment began from."""
    if here.entry.segment_seq:
        start = walk.at(here, here.entry.segment_seq)
        if start.entry.base is not None and start.commit != EMPTY:
            yield walk.load(start.commit)
