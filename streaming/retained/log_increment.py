"""Brings a retained set up to the heads from the store's log, in this process and in steps of bounded size.

Meant for a set that is a few thousand entries behind: larger gaps are read by Spark's executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.persistence.backend import Backend
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.errors import RetainedIncomplete
from headwater.streaming.reachability.retained_identifiers import ENTRIES_PER_PAGE, Span
from headwater.streaming.reachability.same_history import other_history, walk_of
from headwater.streaming.retained.retained_seed import current_spans
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.set_increment import NewChange, append_changes, change_of_entry

ROWS_PER_STEP = 100_000
"""A step is written after this many rows, so that large commits do not fill the memory."""


def spans_behind(backend: Backend, state: RetainedState) -> dict[str, Span]:
    """Spans of the pointers that the set does not know up to their heads. ⚠ The heads are read after the set: a head that lies
    before the set's position, or is another entry at its seq, belongs to another history."""
    behind = {}
    for pointer, span in current_spans(backend, state.realm).items():
        at = state.positions.get(pointer)
        if at is not None and (span.seq < at.seq or (span.seq == at.seq and span.head.hex() != at.entry_id)):
            raise other_history(pointer, at.seq)
        if at is None or at.seq < span.seq:
            behind[pointer] = span
    return behind


def entries_behind(state: RetainedState, behind: Mapping[str, Span]) -> dict[str, int]:
    known = {pointer: at.seq for pointer, at in state.positions.items()}
    return {pointer: span.seq - known.get(pointer, 0) for pointer, span in behind.items()}


def add_from_log(backend: Backend, retained: RetainedStore, state: RetainedState, behind: Mapping[str, Span]) -> RetainedState:
    """`RetainedIncomplete` if the log does not continue from the set: then it is seeded again."""
    walk = walk_of(backend, state.realm)
    waiting: list[NewChange] = []
    rows = 0
    for change in _changes(walk, state, behind):
        waiting.append(change)
        rows += len(change.added) + len(change.released)
        if rows >= ROWS_PER_STEP:
            state = append_changes(retained, state, waiting)
            waiting, rows = [], 0
    return append_changes(retained, state, waiting)


def _changes(walk: LogWalk, state: RetainedState, behind: Mapping[str, Span]) -> Iterator[NewChange]:
    for pointer, span in behind.items():
        known = state.positions.get(pointer)
        begin = 1 if known is None else known.seq + 1
        if begin < span.floor:
            raise RetainedIncomplete(
                f"{pointer}: entries {begin} to {span.floor - 1} are cut, and the set does not know them.",
                field="retained",
                remedy="Seed the set again: `headwater maintain retained --reseed`.",
                pointer=pointer,
            )
        newest = walk.load(span.head)
        for first in range(begin, span.seq + 1, ENTRIES_PER_PAGE):
            for logged in walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, span.seq)):
                yield change_of_entry(logged)
