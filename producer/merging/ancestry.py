"""Finds the newest common ancestors of two commits, at a cost of what is new on one side, not of history.

A commit's ancestors are whole stretches of logs: of its own segment, back to the create or assign that opened it, then of the
commit that the segment started from, and so on; and of every commit that was merged into one of them. The search goes from both
commits at once, newest first, as Git's does: an entry is later than all that it descends from, so when it is met, everything
that leads to it has been met. It ends when one side has nothing left that the other one has not: what is older than that is
shared, and older than something shared.

⚠ What a merge brought is recorded in the merge itself (`Entry.brought`), so the source's history may be swept. Where the search
needs an entry that is gone, the answer is `MergeBaseExpired` and never a guess.
"""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import msgspec

from headwater.persistence.log.log_entry import CommitPlace, Entry, LogRecord, place_of
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.change import Kind
from headwater.schemas.errors import MergeBaseExpired, ObjectNotFound

OURS, THEIRS, BOTH = 1, 2, 3
STALE = 4
"""Shared, and older than another commit that is shared."""
BROUGHT_SEGMENTS_MAX = 32
"""A merge that brings more says so by None; whoever needs to know reads the source's history."""


class AncestrySegment(NamedTuple):
    """One line of states of a pointer, from a create, assign or its first entry on."""

    pointer: str
    start_seq: int


class SharedHistory(msgspec.Struct, frozen=True):
    """What two commits share, and what only the second one descends from."""

    bases: list[LogRecord]
    """The newest first; none when both share but the empty state. There is more than one only where both sides have merged
    each other crosswise: then neither of them has seen all that both share."""
    brought: tuple[CommitPlace, ...] | None
    """The newest commits, segment by segment, that a merge of the second commit brings; None for too many."""


def segment_of(place: CommitPlace) -> AncestrySegment:
    return AncestrySegment(place.pointer, place.segment_seq)


def shared_history(walk: LogWalk, ours: LogRecord | None, theirs: LogRecord | None) -> SharedHistory:
    """Of the commits that two entries lead to; `None` is the empty state. `MergeBaseExpired` where the answer rests on history
    that was swept."""
    return _Search(walk, ours, theirs).run()


class _Segment(msgspec.Struct):
    """How much of a segment was reached from which side."""

    flags: int = 0
    is_read: bool = False
    """Whether its merges and its start are being read; not so where a merge has told all that they would."""
    theirs: CommitPlace | None = None
    """The newest commit that the second side has, if the first one was not there before, and since when."""

    def reaches_theirs(self, place: CommitPlace, since_time: int) -> None:
        self.theirs = msgspec.structs.replace(self.theirs or place, since_time=since_time)


class _Reached(msgspec.Struct):
    """A commit that a newer one leads to."""

    place: CommitPlace
    flags: int
    must_read: bool
    """Whether its own ancestors are not told otherwise."""


class _Link(msgspec.Struct):
    """The next older merge or the start of a segment that is being read; without an object id its end."""

    segment: _Segment
    object_id: int
    seq: int


class _Search:
    def __init__(self, walk: LogWalk, ours: LogRecord | None, theirs: LogRecord | None) -> None:
        self._walk = walk
        self._given = {logged.commit: logged for logged in (ours, theirs) if logged is not None}
        """By commit. A create or assign has the same state as the commit that it names, whose own entry may be gone."""
        self._queue: list[tuple[int, int, _Reached | _Link]] = []
        self._pushed = itertools.count()
        self._waiting: dict[tuple[AncestrySegment, int], _Reached] = {}
        self._segments: dict[AncestrySegment, _Segment] = {}
        self._bases: list[CommitPlace] = []
        self._order_unsure = False
        """Whether a base may be older than another one by way of history that was swept."""
        self._brought_all = True
        for logged, side in ((ours, OURS), (theirs, THEIRS)):
            place = None if logged is None else place_of(logged)
            if place is not None:
                self._reach(place, side, must_read=True)

    def run(self) -> SharedHistory:
        while self._is_undecided():
            self._step()
        if self._order_unsure and len(self._bases) > 1:
            raise _expired()
        try:
            bases = [self._given.get(place.commit) or self._walk.header(place.commit) for place in self._bases]
        except ObjectNotFound as gone:
            raise _expired() from gone
        return SharedHistory(bases, self._brought())

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    def _is_undecided(self) -> bool:
        """While both sides have something of their own, they may still meet in a commit that is newer than what they share."""
        seen = {flags for _, _, waiting in self._queue if (flags := self._open_flags(waiting))}
        return BOTH in seen or len(seen) > 1

    def _open_flags(self, waiting: _Reached | _Link) -> int:
        """Which side it is new to: OURS or THEIRS; BOTH if it will be found to be shared; 0 if nothing comes of it."""
        if isinstance(waiting, _Link):
            return 0 if waiting.segment.flags == BOTH else waiting.segment.flags
        segment = self._segments.get(segment_of(waiting.place))
        known = 0 if segment is None else segment.flags
        reached = waiting.flags | known
        if known == BOTH or waiting.flags & STALE or (reached == known and segment is not None and segment.is_read):
            return 0
        return reached

    def _brought(self) -> tuple[CommitPlace, ...] | None:
        """Goes on along the second side alone, as far as it is worth it."""
        steps_left = 2 * BROUGHT_SEGMENTS_MAX
        while self._brought_all and any(self._open_flags(waiting) == THEIRS for _, _, waiting in self._queue):
            steps_left -= 1
            if not steps_left:
                return None
            self._step()
        places = tuple(segment.theirs for segment in self._segments.values() if segment.theirs is not None)
        return places if self._brought_all and len(places) <= BROUGHT_SEGMENTS_MAX else None

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _step(self) -> None:
        _, _, waiting = heapq.heappop(self._queue)
        if isinstance(waiting, _Link):
            self._follow(waiting)
            return
        del self._waiting[segment_of(waiting.place), waiting.place.seq]
        self._meet(waiting)

    def _meet(self, reached: _Reached) -> None:
        place = reached.place
        segment = self._segments.setdefault(segment_of(place), _Segment())
        known, segment.flags = segment.flags, segment.flags | (reached.flags & BOTH)
        if known == BOTH:
            return
        is_base = segment.flags == BOTH and not reached.flags & STALE
        if is_base:
            self._bases.append(place)
        if segment.flags == THEIRS:
            segment.reaches_theirs(place, min(place.since_time, segment.theirs.since_time if segment.theirs else place.time))
        elif known == THEIRS:
            segment.reaches_theirs(place, place.time)
        if segment.is_read:
            return
        if reached.must_read or is_base:
            self._read(segment, place)
        else:
            self._push(place.since_time, _Link(segment, 0, 0))

    def _read(self, segment: _Segment, place: CommitPlace) -> None:
        segment.is_read = True
        try:
            given = self._given.get(place.commit)
            newest = given if given and given.entry_id == place.commit else self._walk.header(place.commit)
        except ObjectNotFound:
            self._gone(segment)
            return
        entry = newest.entry
        if segment.flags == THEIRS:
            segment.reaches_theirs(place, entry.segment_time)
        if entry.kind is Kind.MERGE:
            self._push(entry.time, _Link(segment, newest.object_id, entry.seq))
        else:
            self._push_next(segment, entry)

    def _push_next(self, segment: _Segment, entry: Entry) -> None:
        if entry.merge_seq:
            self._push(entry.merge_time, _Link(segment, entry.merge_id, entry.merge_seq))
        else:
            self._push(entry.segment_time, _Link(segment, entry.segment_id, entry.segment_seq))

    def _follow(self, link: _Link) -> None:
        if not link.object_id:
            return
        segment = link.segment
        try:
            entry = self._walk.linked(link.object_id, link.seq)
        except ObjectNotFound:
            self._gone(segment)
            return
        flags = BOTH | STALE if segment.flags == BOTH else segment.flags
        if entry.origin is not None:
            self._reach(entry.origin, flags, must_read=entry.brought is None)
        for place in entry.brought or ():
            self._reach(place, flags, must_read=False)
        if entry.kind is Kind.MERGE:
            self._push_next(segment, entry)

    def _reach(self, place: CommitPlace, flags: int, *, must_read: bool) -> None:
        key = segment_of(place), place.seq
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Reached(place, flags, must_read)
            self._push(place.time, waiting)
        else:
            waiting.flags |= flags
            waiting.must_read |= must_read

    def _push(self, time: int, waiting: _Reached | _Link) -> None:
        heapq.heappush(self._queue, (-time, next(self._pushed), waiting))

    def _gone(self, segment: _Segment) -> None:
        """Older ancestors are not known here. That matters where the other side has something as old that is not shared."""
        if segment.flags == BOTH:
            self._order_unsure = True
            return
        self._brought_all = False
        if any(self._open_flags(waiting) == BOTH ^ segment.flags for _, _, waiting in self._queue):
            raise _expired()


def _expired() -> MergeBaseExpired:
    return MergeBaseExpired(
        "the history that both sides share has been cut.",
        field="from",
        remedy="Assign the branch to the commit you want, or copy the tables over by a commit.",
    )
