"""Computes what a bounded number of Changes adds to a retained set, in this process: milliseconds, without a Spark job.

The rules are those of `retained_batch`, which does the same on executors. ⚠ Only entries that follow the set's last one by
their ids are added. Anything else is `RetainedIncomplete`: the set is brought up to date from the store's log, or seeded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from headwater.persistence.log.log_entry import LogRecord, objects_added, objects_released
from headwater.schemas.errors import ChainBroken, RetainedIncomplete
from headwater.streaming.reachability.segments import BaseAt, Bounds, SegmentPosition
from headwater.streaming.retained.retained_seed import SetRow, write_rows
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore

OPENING = ("create", "assign", "delete")
"""Kinds of entries that begin a segment."""


class NewChange(NamedTuple):
    """What a retained set needs of a Change."""

    pointer: str
    seq: int
    entry_id: str
    previous_id: str
    kind: str
    added: Sequence[int]
    released: Sequence[int]
    base: BaseAt | None


class Increment(NamedTuple):
    positions: dict[str, SegmentPosition]
    """Positions of the pointers that move."""
    bounds: list[Bounds]
    rows: list[SetRow]


def change_of_entry(logged: LogRecord) -> NewChange:
    entry = logged.entry
    base = None if entry.base is None else BaseAt(entry.base.pointer, entry.base.seq)
    return NewChange(
        entry.pointer,
        entry.seq,
        logged.entry_id.hex(),
        entry.previous.hex(),
        str(entry.kind),
        objects_added(entry, logged.object_id),
        objects_released(entry),
        base,
    )


def change_of_row(row: Mapping[str, Any]) -> NewChange:
    """From the columns that every transport has."""
    base = row["base"]
    return NewChange(
        row["pointer"],
        row["seq"],
        row["entry_id"],
        row["previous_id"],
        row["kind"],
        row["objects_added"],
        row["objects_released"],
        None if base is None else BaseAt(base["pointer"], base["seq"]),
    )


def increment(state: RetainedState, changes: Iterable[NewChange]) -> Increment | None:
    """None if nothing is new. Changes may come in any order, be repeated, and be known already."""
    by_pointer: dict[str, dict[tuple[int, str], NewChange]] = {}
    for change in changes:
        known = state.positions.get(change.pointer)
        if known is None or change.seq > known.seq:
            by_pointer.setdefault(change.pointer, {})[change.seq, change.entry_id] = change
    if not by_pointer:
        return None
    segments = {pointer: start for pointer, start in state.current_segment().items() if pointer in by_pointer}
    found = Increment({}, [], [])
    for pointer, of_pointer in by_pointer.items():
        ordered = [of_pointer[key] for key in sorted(of_pointer)]
        found.positions[pointer] = _reached(state, pointer, ordered)
        _add_rows(found, ordered, segments.get(pointer, 0))
    return found


def append_changes(retained: RetainedStore, state: RetainedState, changes: Iterable[NewChange]) -> RetainedState:
    """The state afterwards; the same one if nothing is new."""
    found = increment(state, changes)
    return state if found is None else append_increment(retained, state, found)


def append_increment(retained: RetainedStore, state: RetainedState, found: Increment) -> RetainedState:
    return retained.append(state, found.positions, found.bounds, partial(write_rows, rows=iter(found.rows)))


def _reached(state: RetainedState, pointer: str, ordered: Sequence[NewChange]) -> SegmentPosition:
    known = state.positions.get(pointer)
    seq, entry_id = (0, "") if known is None else (known.seq, known.entry_id)
    for change in ordered:
        if change.seq != seq + 1 or change.previous_id != entry_id:
            raise RetainedIncomplete(
                f"{pointer}: entry {change.seq} does not follow entry {seq}, with which the set ends.",
                field="retained",
                remedy="Seed the set again: `headwater maintain retained --reseed`.",
                pointer=pointer,
            )
        seq, entry_id = change.seq, change.entry_id
    return SegmentPosition(1 if known is None else known.first, seq, entry_id)


def _add_rows(found: Increment, ordered: Sequence[NewChange], segment: int) -> None:
    for change in ordered:
        if change.kind in OPENING or change.seq == 1:
            segment = change.seq
            found.bounds.append(Bounds(change.pointer, change.seq, change.base))
        if not segment:
            raise ChainBroken(f"{change.pointer}: the set does not know the segment of entry {change.seq}.")
        found.rows.extend(SetRow(change.pointer, segment, added, change.seq, True) for added in change.added)
        found.rows.extend(SetRow(change.pointer, segment, released, change.seq, False) for released in change.released)
