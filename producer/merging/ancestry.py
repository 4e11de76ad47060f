"""Finds the newest common ancestors of two commits, at a cost of what is new on one side, not of history.

A commit's ancestors are whole sections of logs: of its own segment, back to the create or assign that opened it, then of the
commit that the segment started from, and so on; and of every commit that was merged into one of them. The search goes from both
commits at once, newest first, as Git's does: an entry is later than all that it descends from, so when it is met, everything
that leads to it has been met. It ends when one side has nothing left that the other one has not: what is older than that is
shared, and older than something shared.

⚠ A merge records what it brought in (`Entry.brought`), so the source's history may be swept. Where the search
needs an entry that is gone, the answer is `MergeBaseExpired` and never a guess.
"""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

import msgspec

from headwater.persistence.log.log_entry import CommitPlace, Entry, LogRecord, place_of
from headwater.persistence.log.log_walk import LogWalk
from headwater.producer.merging.ancestry_queue import BOTH, OURS, STALE, THEIRS, AncestryQueue, Segment, Waiting
from headwater.schemas.change import Kind
from headwater.schemas.errors import MergeBaseExpired, ObjectNotFound

BROUGHT_SEGMENTS_MAX = 32
"""A merge that brings more records None, and readers use the source's history instead."""
STEPS_FOR_BROUGHT_MAX = 128
STEPS_AT_ONCE = 32
REST_SECONDS = 0.000_05
"""A long search gives up the interpreter several times a millisecond; else commits would wait 5 ms at each of their steps."""


class AncestrySegment(NamedTuple):
    """One line of states of a pointer, from a create, assign or its first entry on."""

    pointer: str
    start_seq: int


class SharedHistory(msgspec.Struct, frozen=True):
    """The ancestors that two commits share, and those of the second one alone."""

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


class _Search:
    def __init__(self, walk: LogWalk, ours: LogRecord | None, theirs: LogRecord | None) -> None:
        self._walk = walk
        self._given = {logged.commit: logged for logged in (ours, theirs) if logged is not None}
        """By commit. A create or assign has the same state as the commit that it names, whose own entry may be gone."""
        self._queue = AncestryQueue()
        self._reached: dict[tuple[AncestrySegment, int], Waiting] = {}
        self._segments: dict[AncestrySegment, Segment] = {}
        self._bases: list[CommitPlace] = []
        self._order_unsure = False
        """Whether a base may be older than another one by way of history that was swept."""
        self._brought_all = True
        for logged, side in ((ours, OURS), (theirs, THEIRS)):
            place = None if logged is None else place_of(logged)
            if place is not None:
                self._reach(place, side, must_read=True)

    def run(self) -> SharedHistory:
        for step in itertools.count(1):
            if not self._queue.is_undecided:
                break
            self._step()
            if step % STEPS_AT_ONCE == 0:
                time.sleep(REST_SECONDS)
        if self._order_unsure and len(self._bases) > 1:
            raise _expired()
        try:
            bases = [self._given.get(place.commit) or self._walk.header(place.commit) for place in self._bases]
        except ObjectNotFound as gone:
            raise _expired() from gone
        return SharedHistory(bases, self._brought())

    def _brought(self) -> tuple[CommitPlace, ...] | None:
        """Continues along the second side alone, as far as it is worth it."""
        steps_left = STEPS_FOR_BROUGHT_MAX
        while self._brought_all and self._queue.has(THEIRS):
            steps_left -= 1
            if not steps_left:
                return None
            self._step()
        places = tuple(segment.theirs for segment in self._segments.values() if segment.theirs is not None)
        return places if self._brought_all and len(places) <= BROUGHT_SEGMENTS_MAX else None

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _step(self) -> None:
        waiting = self._queue.pop()
        if waiting.place is None:
            self._follow(waiting)
        else:
            del self._reached[segment_of(waiting.place), waiting.place.seq]
            self._meet(waiting.segment, waiting.place, waiting)

    def _meet(self, segment: Segment, place: CommitPlace, reached: Waiting) -> None:
        known, segment.flags = segment.flags, segment.flags | (reached.flags & BOTH)
        if known == BOTH:
            return
        is_base = segment.flags == BOTH and not reached.flags & STALE
        if is_base:
            self._bases.append(place)
        self._queue.changed(segment)
        if segment.flags == THEIRS:
            segment.reaches_theirs(place, min(place.since_time, segment.theirs.since_time if segment.theirs else place.time))
        elif known == THEIRS:
            segment.reaches_theirs(place, place.time)
        if not segment.is_read:
            if reached.must_read or is_base:
                self._read(segment, place)
            else:
                self._queue.push(place.since_time, Waiting(segment))

    def _read(self, segment: Segment, place: CommitPlace) -> None:
        segment.is_read = True
        self._queue.changed(segment)
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
            self._queue.push(entry.time, Waiting(segment, object_id=newest.object_id, seq=entry.seq))
        else:
            self._push_next(segment, entry)

    def _push_next(self, segment: Segment, entry: Entry) -> None:
        if entry.merge_seq:
            self._queue.push(entry.merge_time, Waiting(segment, object_id=entry.merge_id, seq=entry.merge_seq))
        else:
            self._queue.push(entry.segment_time, Waiting(segment, object_id=entry.segment_id, seq=entry.segment_seq))

    def _follow(self, link: Waiting) -> None:
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
        name = segment_of(place)
        segment = self._segments.get(name)
        if segment is None:
            segment = self._segments[name] = Segment()
        waiting = self._reached.get((name, place.seq))
        if waiting is None:
            waiting = self._reached[name, place.seq] = Waiting(segment, place, flags, must_read)
            self._queue.push(place.time, waiting)
        else:
            waiting.flags |= flags
            waiting.must_read |= must_read
            self._queue.changed(segment)

    def _gone(self, segment: Segment) -> None:
        """Older ancestors are not known here. That matters where the other side has something as old that is not shared."""
        if segment.flags == BOTH:
            self._order_unsure = True
            return
        self._brought_all = False
        if self._queue.has(BOTH ^ segment.flags):
            raise _expired()


def _expired() -> MergeBaseExpired:
    return MergeBaseExpired(
        "the history that both sides share has been cut.",
        field="from",
        remedy="Assign the branch to the commit you want, or copy the tables over by a commit.",
    )
