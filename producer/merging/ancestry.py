"""Two commits enter; the newest commit that both descend from leaves, at a cost of merges and branches, not of commits.

A commit's ancestors are whole stretches of logs: of its own pointer back to where that line of states began (create or
assign), then of the base that it began from, and so on; and of every commit that was merged into one of them. So ancestors
are kept as "this segment, up to this entry", and what two commits share is the smaller of both in each common segment.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headwater.persistence.log_entry import Logged
from headwater.persistence.log_walk import LogWalk
from headwater.schemas.change import COMMITTING_KINDS
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import MergeBaseExpired, ObjectNotFound


class Segment(NamedTuple):
    """One line of states of a pointer, from a create, assign or its first entry on."""

    pointer: str
    start_seq: int


class Ancestors(msgspec.Struct, frozen=True):
    """A commit and everything that it descends from."""

    newest: dict[Segment, Logged]
    complete: bool
    """False where a part of the history has been cut and swept."""

    def include(self, commit: Logged) -> bool:
        reached = self.newest.get(segment_of(commit))
        return reached is not None and reached.entry.seq >= commit.entry.seq


def segment_of(commit: Logged) -> Segment:
    return Segment(commit.entry.pointer, commit.entry.segment_seq)


def commit_of(walk: LogWalk, entry: Logged) -> Logged | None:
    """The commit that is the head after an entry; None for the empty state."""
    if entry.commit == EMPTY:
        return None
    return entry if entry.entry.kind in COMMITTING_KINDS else walk.load(entry.commit)


def ancestors(walk: LogWalk, commit: Logged | None) -> Ancestors:
    """`None` is the empty state."""
    newest: dict[Segment, Logged] = {}
    complete = True
    unvisited = [] if commit is None else [commit]
    while unvisited:
        here = unvisited.pop()
        segment = segment_of(here)
        reached = newest.get(segment)
        if reached is not None and reached.entry.seq >= here.entry.seq:
            continue
        newest[segment] = here
        try:
            unvisited += _merged_since(walk, here, reached.entry.seq if reached else segment.start_seq)
            unvisited += [] if reached else _base_of(walk, here)
        except ObjectNotFound:
            complete = False
    return Ancestors(newest, complete)


def merge_base(walk: LogWalk, ours: Logged | None, theirs: Logged | None) -> Logged | None:
    """The newest commit that both descend from; None when that is the empty state."""
    of_ours, of_theirs = ancestors(walk, ours), ancestors(walk, theirs)
    shared = [
        min(of_ours.newest[segment], of_theirs.newest[segment], key=lambda commit: commit.entry.seq)
        for segment in of_ours.newest.keys() & of_theirs.newest.keys()
    ]
    if shared:
        return max(shared, key=lambda commit: (commit.entry.time, commit.entry_id))
    if of_ours.complete and of_theirs.complete:
        return None
    raise MergeBaseExpired(
        "the history that both sides share has been cut.",
        field="from",
        remedy="Assign the branch to the commit you want, or copy the tables over by a commit.",
    )


def _merged_since(walk: LogWalk, here: Logged, after_seq: int) -> list[Logged]:
    """Heads of what was merged into this segment behind `after_seq`, up to `here`."""
    merged = []
    merge_seq = here.entry.merge_seq
    while merge_seq > after_seq:
        merge = walk.at(here, merge_seq)
        if merge.entry.source is not None and merge.entry.source.commit != EMPTY:
            merged.append(walk.load(merge.entry.source.commit))
        merge_seq = walk.at(merge, merge_seq - 1).entry.merge_seq if merge_seq - 1 > after_seq else 0
    return merged


def _base_of(walk: LogWalk, here: Logged) -> list[Logged]:
    """The commit that the segment began from."""
    if not here.entry.segment_seq:
        return []
    start = walk.at(here, here.entry.segment_seq)
    return [walk.load(start.commit)] if start.entry.base is not None and start.commit != EMPTY else []
