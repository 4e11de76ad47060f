"""Checks frames of one pointer: each Change passes once and in order, or the gap before it is named. Pure.

Drops what is at or below the last seen entry, after checking that it is the same; delivers what follows directly; otherwise
stops, and the caller repairs from the log. Two ids for one seq are two histories: `CursorReset`. Every client uses it, so that
all transports share one definition of completeness.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from headwater.schemas.change import Change
from headwater.schemas.entry_ids import recomputed_entry_id
from headwater.schemas.errors import ChainBroken, CursorReset
from headwater.schemas.frame import Frame
from headwater.schemas.redaction import is_partial

REMEMBERED_ENTRIES_MAX = 1_000
"""How many of the newest entry ids are kept, to distinguish a repeated entry from a changed one."""


class Gap(Exception):
    """Entries (from_seq, to_seq] are missing: read them from the log, then offer the frame again."""

    def __init__(self, pointer: str, from_seq: int, to_seq: int) -> None:
        super().__init__(f"{pointer}: entries {from_seq + 1} to {to_seq} are missing")
        self.pointer = pointer
        self.from_seq = from_seq
        self.to_seq = to_seq


class Chain:
    """What one reader has seen of one pointer."""

    def __init__(self, pointer: str, seq: int, entry_id: str = "") -> None:
        """`entry_id` is the id of entry `seq`, if it is known: the first Change is then checked against it."""
        self.pointer = pointer
        self.seq = seq
        self._ids: OrderedDict[int, str] = OrderedDict({seq: entry_id} if entry_id or seq == 0 else {})

    def id_of(self, seq: int) -> str:
        """Empty if it is not remembered."""
        return self._ids.get(seq, "")

    def accept(self, frame: Frame) -> list[Change]:
        """The new Changes of the frame. `Gap` if it begins beyond what was seen; `ChainBroken` if it contradicts."""
        if frame.pointer != self.pointer:
            raise ChainBroken(f"a frame of {frame.pointer!r} came to the reader of {self.pointer!r}.")
        if frame.from_seq > self.seq:
            raise Gap(self.pointer, self.seq, frame.from_seq)
        _check_shape(frame)
        new = [change for change in frame.changes if not self._is_known(change)]
        for change in new:
            self._check_link(change)
            self._remember(change)
        self.seq = max(self.seq, frame.to_seq)
        return new

    def _is_known(self, change: Change) -> bool:
        if change.seq > self.seq:
            return False
        known = self._ids.get(change.seq)
        if known and known != change.entry_id:
            raise CursorReset(
                f"{self.pointer}: entry {change.seq} came as {known} and as {change.entry_id}: the history was replaced.",
                remedy="Take a snapshot and follow from its entry.",
                pointer=self.pointer,
                seq=change.seq,
            )
        return True

    def _check_link(self, change: Change) -> None:
        """Recompute the id over the predecessor's, if the predecessor was seen."""
        previous = self._ids.get(change.seq - 1)
        if is_partial(change):  # proven by what follows it, whose id covers this one's
            return
        if previous is not None and recomputed_entry_id(change, previous) != change.entry_id:
            raise ChainBroken(
                f"{self.pointer}: entry {change.seq} does not follow from the entry before it, or was altered.", seq=change.seq
            )

    def _remember(self, change: Change) -> None:
        self._ids[change.seq] = change.entry_id
        if len(self._ids) > REMEMBERED_ENTRIES_MAX:
            self._ids.popitem(last=False)


def _check_shape(frame: Frame) -> None:
    """What no transport may ever deliver: disorder, repetition or a gap within one frame."""
    seqs = [change.seq for change in frame.changes]
    within = all(frame.from_seq < seq <= frame.to_seq for seq in seqs)
    if frame.to_seq < frame.from_seq or not within or any(a >= b for a, b in pairwise(seqs)):
        raise ChainBroken(f"{frame.pointer}: a frame of ({frame.from_seq}, {frame.to_seq}] holds entries {seqs[:20]}.")
    if not frame.filtered and len(seqs) != frame.to_seq - frame.from_seq:
        raise ChainBroken(
            f"{frame.pointer}: an unfiltered frame of ({frame.from_seq}, {frame.to_seq}] holds {len(seqs)} entries."
        )
