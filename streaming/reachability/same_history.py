"""Checks in the store whether an older entry, by id and seq, is in the history of a newer one.

⚠ A retained set belongs to one history. A store that was restored from a backup and continued has another history with the same
seqs; so has another store whose set lies in the same folder. Objects that were added there are not in the set, and would be
taken for garbage.

⚠ That the set ends in the log's own entry proves nothing about what it read before: every position that it has passed is looked
up in the log. (Below the floor there is no log any more. There the proof made when the steps were written applies: each follows
the previous one by the ids of its entries.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.persistence.backend import Backend
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.errors import ObjectNotFound, RetainedIncomplete
from headwater.streaming.reachability.retained_identifiers import Span, WalkedRealm
from headwater.streaming.reachability.segments import SegmentPosition


def walk_of(backend: Backend, realm: str) -> LogWalk:
    return WalkedRealm(backend, realm, {}).walk


def leads_to(walk: LogWalk, newer_id: str, older_seq: int, older_id: str) -> bool:
    """The older entry itself may be gone if it lies just below a floor: its successor names it."""
    if newer_id == older_id:
        return True
    try:
        newer = walk.load(bytes.fromhex(newer_id))
        return newer.entry.seq > older_seq and walk.at(newer, older_seq + 1).entry.previous == bytes.fromhex(older_id)
    except ObjectNotFound:
        return False


def require_same_history(walk: LogWalk, spans: Mapping[str, Span], positions: Mapping[str, SegmentPosition]) -> None:
    """Checks the pointers whose set reaches beyond the head: the set may have been read later, or belong to another history."""
    for pointer, span in spans.items():
        known = positions.get(pointer)
        if known is not None and known.seq > span.seq and not leads_to(walk, known.entry_id, span.seq, span.head.hex()):
            raise other_history(pointer, known.seq)


def require_every_position(walk: LogWalk, spans: Mapping[str, Span], passed: Mapping[str, Sequence[SegmentPosition]]) -> None:
    """Checks all positions from the floors on, newest first, so that each is found from the one after it in a few reads."""
    for pointer, span in spans.items():
        newest = walk.load(span.head)
        for position in sorted(passed.get(pointer, ()), key=lambda it: it.seq, reverse=True):
            if span.floor <= position.seq <= span.seq:
                newest = walk.at(newest, position.seq)
                if newest.entry_id.hex() != position.entry_id:
                    raise other_history(pointer, position.seq)


def other_history(pointer: str, seq: int) -> RetainedIncomplete:
    return RetainedIncomplete(
        f"{pointer}: the entry {seq} of the retained set is not in this log.",
        field="retained",
        remedy="Seed the set again: `headwater maintain retained --reseed`.",
        pointer=pointer,
    )
