"""Checks that one pointer's Changes are complete and unaltered, or names the first that is not. Pure.

Each entry's id is recomputed over its predecessor's: a single flipped bit anywhere shows at the entry that has it, and a
missing, repeated or swapped entry at the one after it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.entry_ids import recomputed_entry_id
from headwater.schemas.errors import ChainBroken
from headwater.schemas.redaction import is_partial


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chain breaks, and how."""

    seq: int
    entry_id: str
    reason: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    pointer: str
    entries: int
    first_seq: int
    last_seq: int
    last_entry_id: str
    anchored: bool
    """Whether the first entry was checked against its predecessor too: it is the very first one, or its anchor was known."""
    flaw: Flaw | None = None

    @property
    def is_whole(self) -> bool:
        return self.flaw is None


def verify(pointer: str, changes: Iterable[Change], *, after_seq: int = 0, anchor: str | None = None) -> Verification:
    """`anchor` is the id of entry `after_seq`; without it, a history that was cut is checked from its second entry on."""
    previous = "" if after_seq == 0 else anchor
    anchored = previous is not None
    seq, count, first, last = after_seq, 0, 0, None
    flaw: Flaw | None = None
    for change in changes:
        flaw = _flaw(pointer, change, seq + 1, previous, last)
        if flaw is not None:
            break
        seq, count, previous, last = change.seq, count + 1, change.entry_id, change
        first = first or change.seq
    return Verification(
        pointer=pointer,
        entries=count,
        first_seq=first,
        last_seq=seq,
        last_entry_id=previous or "",
        anchored=anchored,
        flaw=flaw,
    )


def _flaw(pointer: str, change: Change, expected_seq: int, previous: str | None, last: Change | None) -> Flaw | None:
    reason = ""
    if change.pointer != pointer:
        reason = f"belongs to {change.pointer!r}"
    elif is_partial(change):
        reason = "was withheld in part: its reader may not see all of it, and so cannot audit it"
    elif change.seq != expected_seq:
        reason = f"has seq {change.seq} where {expected_seq} must follow"
    elif last is not None and change.time <= last.time:
        reason = f"is of {change.time}, not later than the entry before it"
    elif last is not None and change.head_before != last.commit_id:
        reason = f"says the head was at {change.head_before}, but the entry before it left it at {last.commit_id}"
    elif previous is not None:
        reason = _broken_link(change, previous)
    return Flaw(seq=change.seq, entry_id=change.entry_id, reason=reason) if reason else None


def _broken_link(change: Change, previous: str) -> str:
    try:
        recomputed = recomputed_entry_id(change, previous)
    except (ChainBroken, ValueError, TypeError, OverflowError) as error:
        return f"cannot be hashed: {error}"
    return "" if recomputed == change.entry_id else f"hashes to {recomputed}: it or the entry before it was altered"
