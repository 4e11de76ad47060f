"""Computes how records of the commits topic change the newest state of each table. Pure.

A create or assign begins with the state of its base, and a history that was cut with the state after the cut: both are looked
up. A record that was seen already is dropped. A generation that starts over is dropped up to what was seen, if the log still
holds that very entry; otherwise the pointer starts over with it.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from headwater.consumers.views.live_views import State, TableState, effect_of
from headwater.schemas.change import COMMITTING_KINDS, Base, Change, KeyPath, Kind
from headwater.schemas.cursor import Position
from headwater.schemas.errors import ChainBroken, CursorGone, NotFound
from headwater.schemas.kafka_records import FeedRecord, RecordType, digest_of

REFERENCE = re.compile(r"cat/\d+/(heads|tags)/.+")
"""Pointers that hold tables; the others are internal to the realm."""


class History(Protocol):
    """What the topic alone does not show."""

    def state_at(self, pointer: str, seq: int) -> State:
        """All keys after that entry."""
        ...

    def change_at(self, pointer: str, seq: int) -> Change:
        """For a Change that was too large for Kafka."""
        ...

    def heads(self) -> dict[str, Position]:
        """The newest entry of every pointer."""
        ...


class FollowedPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far a pointer was followed."""

    generation: int
    seq: int
    entry_id: str = ""


TableKey = tuple[str, KeyPath]


class TableViews:
    """The newest state of all references; `changed` is what was not taken yet, None for a table that is gone."""

    def __init__(self, history: History, begins: int = 1) -> None:
        """`begins`: the newest generation that started over; records of earlier ones belong to a history that has ended."""
        self._history = history
        self._begins = begins
        self.states: dict[str, State] = {}
        self.standings: dict[str, FollowedPosition] = {}
        self.changed: dict[TableKey, TableState | None] = {}
        self.moved: dict[str, FollowedPosition | None] = {}
        """None if the pointer is gone."""

    def apply(self, record: FeedRecord) -> None:
        known = self.standings.get(record.pointer)
        is_over = record.generation < max(self._begins, 0 if known is None else known.generation)
        if is_over or not REFERENCE.fullmatch(record.pointer):
            return
        match record.type:
            case RecordType.CHANGE:
                self._change(record)
            case RecordType.BASELINE:
                self._baseline(record)
            case RecordType.TRUNCATED:
                self._begin_at(record)
            case RecordType.PURGED:
                self._replace(record.pointer, {})
                self.standings.pop(record.pointer, None)
                self.moved[record.pointer] = None

    def take(self) -> tuple[dict[TableKey, TableState | None], dict[str, FollowedPosition | None]]:
        taken = self.changed, self.moved
        self.changed, self.moved = {}, {}
        return taken

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def catch_up(self) -> None:
        """⚠ Moves every pointer to the store's newest state: some may have last moved with a record that is lost."""
        for pointer, head in self._history.heads().items():
            known = self.standings.get(pointer)
            if REFERENCE.fullmatch(pointer) and (known is None or known.seq < head.seq):
                self._take_state(pointer, head, 0 if known is None else known.generation)

    def _baseline(self, record: FeedRecord) -> None:
        """The beginning of a generation: it continues where the last one ended, or starts over."""
        known = self.standings.get(record.pointer)
        if known is not None and record.generation <= known.generation:
            return
        if known is not None and self._holds(record, known):
            moved = msgspec.structs.replace(known, generation=record.generation)
            self.standings[record.pointer] = self.moved[record.pointer] = moved
            return
        self._begin_at(record)

    def _begin_at(self, record: FeedRecord) -> None:
        """With the state after the record's entry; if that was swept, the newest one; if the pointer is gone, none."""
        try:
            state = {} if record.seq == 0 else self._history.state_at(record.pointer, record.seq)
        except (CursorGone, NotFound):
            head = self._history.heads().get(record.pointer)
            if head is not None and head.seq >= record.seq:
                self._take_state(record.pointer, head, record.generation)
                return
            state = {}
        self._replace(record.pointer, state)
        self._stand(record, record.entry_id)

    def _take_state(self, pointer: str, at: Position, generation: int) -> None:
        self._replace(pointer, self._history.state_at(pointer, at.seq))
        standing = FollowedPosition(generation=generation, seq=at.seq, entry_id=at.entry_id.hex())
        self.standings[pointer] = self.moved[pointer] = standing

    def _holds(self, record: FeedRecord, known: FollowedPosition) -> bool:
        """⚠ Whether the generation contains the entry that was seen last: the same by its id, not by its number."""
        if record.seq > known.seq or (known.seq > record.head_seq and not record.continues):
            return False
        for seq, entry_id in ((record.seq, record.entry_id), (record.head_seq, record.head_id)):
            if seq == known.seq:
                return entry_id == known.entry_id
        try:
            return self._history.change_at(record.pointer, known.seq).entry_id == known.entry_id
        except NotFound:
            return False

    def _change(self, record: FeedRecord) -> None:
        known = self.standings.get(record.pointer)
        seq = 0 if known is None else known.seq
        if known is not None and record.seq <= seq:
            self._drop(record, known)
            return
        if record.seq != seq + 1:  # those between are lost to the topic, not to the store
            self._begin_at(record)
            return
        change = record.change or self._claimed(record)
        if change.kind in COMMITTING_KINDS:
            self._commit(change)
        elif change.kind == Kind.DELETE:
            self._replace(record.pointer, {})
        else:
            try:
                self._replace(record.pointer, self._base(change.base))
            except (CursorGone, NotFound):  # swept since, or of a history that the store has lost
                self._begin_at(record)
                return
        self._stand(record, change.entry_id)

    def _drop(self, record: FeedRecord, known: FollowedPosition) -> None:
        """Seen already, unless it belongs to another generation whose baseline the topic has lost."""
        if record.generation > known.generation:
            self._begin_at(record)

    def _claimed(self, record: FeedRecord) -> Change:
        change = self._history.change_at(record.pointer, record.seq)
        if digest_of(change) != record.digest:
            raise ChainBroken(f"{record.pointer}: entry {record.seq} is not the one that was published.", seq=record.seq)
        return change

    def _commit(self, change: Change) -> None:
        state = self.states.setdefault(change.pointer, {})
        for key, after in effect_of(change).after.items():
            self.changed[change.pointer, key] = after
            if after is None:
                state.pop(key, None)
            else:
                state[key] = after

    def _base(self, base: Base | None) -> State:
        return {} if base is None or base.seq == 0 else self._history.state_at(base.pointer, base.seq)

    def _replace(self, pointer: str, state: State) -> None:
        """Only differences are reported."""
        before = self.states.get(pointer, {})
        for key in before.keys() - state.keys():
            self.changed[pointer, key] = None
        for key, now in state.items():
            if before.get(key) != now:
                self.changed[pointer, key] = now
        self.states[pointer] = dict(state)

    def _stand(self, record: FeedRecord, entry_id: str) -> None:
        standing = FollowedPosition(generation=record.generation, seq=record.seq, entry_id=entry_id)
        self.standings[record.pointer] = self.moved[record.pointer] = standing
