"""Decides whether a prepared merge still holds after its target has moved.

A target that has moved on has its own new commits and what they merged as new ancestors. As long as none of these is among
what the merge brings, the same commits are the newest shared ones.
"""

from __future__ import annotations

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk
from headwater.producer.merging.ancestry import AncestrySegment, SharedHistory, segment_of
from headwater.schemas.change import Kind
from headwater.schemas.errors import ObjectNotFound

MERGES_MAX = 64
"""Merges since then that are looked at; after more of them the search is repeated."""


def still_shares(walk: LogWalk, then: LogRecord | None, now: LogRecord | None, shared: SharedHistory) -> bool:
    """`None` is the empty state."""
    if then is None or now is None:
        return then is now
    if then.entry_id == now.entry_id:
        return True
    if shared.brought is None:
        return False
    try:
        added = _added_since(walk, then, now)
    except ObjectNotFound:
        return False
    return added is not None and added.isdisjoint(segment_of(place) for place in shared.brought)


def _added_since(walk: LogWalk, then: LogRecord, now: LogRecord) -> set[AncestrySegment] | None:
    """The segments in which the target has new ancestors; None if they are not recorded."""
    if not _goes_on(walk, then, now):
        return None
    added = {AncestrySegment(now.entry.pointer, now.entry.segment_seq)}
    here = now.entry
    for _ in range(MERGES_MAX):
        if here.kind is Kind.MERGE:
            if here.origin is None or here.brought is None:
                return None
            added.update(segment_of(place) for place in (here.origin, *here.brought))
        if here.merge_seq <= then.entry.seq:
            return added
        here = walk.linked(here.merge_id, here.merge_seq)
    return None


def _goes_on(walk: LogWalk, then: LogRecord, now: LogRecord) -> bool:
    """Whether the target has only been committed and merged to."""
    older, newer = then.entry, now.entry
    same_segment = older.pointer == newer.pointer and older.segment_seq == newer.segment_seq
    return same_segment and older.seq < newer.seq and walk.at(now, older.seq).entry_id == then.entry_id
