"""What a search for common ancestors has still to look at, newest first, and whether both sides have something left."""

from __future__ import annotations

import heapq
import itertools

import msgspec

from headwater.persistence.log.log_entry import CommitPlace

OURS, THEIRS, BOTH = 1, 2, 3
STALE = 4
"""Shared, and older than another commit that is shared."""


class Segment(msgspec.Struct, eq=False):
    """How much of one line of states was reached from which side."""

    flags: int = 0
    is_read: bool = False
    """Whether its merges and its start are being read; not needed if a merge has recorded all that they would show."""
    theirs: CommitPlace | None = None
    """The newest commit that the second side has, if the first one was not there before, and since when."""
    waiting: list[Waiting] = msgspec.field(default_factory=list)

    def reaches_theirs(self, place: CommitPlace, since_time: int) -> None:
        self.theirs = msgspec.structs.replace(self.theirs or place, since_time=since_time)


class Waiting(msgspec.Struct, eq=False):
    """A commit that a newer one leads to; or, without a place, the next older merge or the start of a segment that is being
    read. Without an object id either it is the end of a segment that a merge has recorded completely."""

    segment: Segment
    place: CommitPlace | None = None
    flags: int = 0
    must_read: bool = False
    """Whether the ancestors of the commit are not known from elsewhere."""
    object_id: int = 0
    seq: int = 0
    is_open_for: int = 0
    """Which side it is new to: OURS or THEIRS; BOTH if it will be found to be shared; 0 if nothing comes of it."""


class AncestryQueue:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiting]] = []
        self._pushed = itertools.count()
        self._open = [0, 0, 0, 0]

    def push(self, time: int, waiting: Waiting) -> None:
        heapq.heappush(self._heap, (-time, next(self._pushed), waiting))
        waiting.segment.waiting.append(waiting)
        self._count(waiting, _open_flags(waiting))

    def pop(self) -> Waiting:
        _, _, waiting = heapq.heappop(self._heap)
        waiting.segment.waiting.remove(waiting)
        self._count(waiting, 0)
        return waiting

    def changed(self, segment: Segment) -> None:
        """After something was learned about the segment or about what waits in it."""
        for waiting in segment.waiting:
            self._count(waiting, _open_flags(waiting))

    def has(self, side: int) -> bool:
        return self._open[side] > 0

    @property
    def is_undecided(self) -> bool:
        """While both sides have something of their own, they may still meet in a commit that is newer than what they share."""
        return self._open[BOTH] > 0 or (self._open[OURS] > 0 and self._open[THEIRS] > 0)

    def _count(self, waiting: Waiting, open_for: int) -> None:
        if waiting.is_open_for:
            self._open[waiting.is_open_for] -= 1
        if open_for:
            self._open[open_for] += 1
        waiting.is_open_for = open_for


def _open_flags(waiting: Waiting) -> int:
    known = waiting.segment.flags
    if known == BOTH or waiting.flags & STALE:
        return 0
    if waiting.place is not None and waiting.flags | known == known and waiting.segment.is_read:
        return 0
    return waiting.flags | known
