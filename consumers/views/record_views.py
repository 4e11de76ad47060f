"""Folds records of the commits topic into live views, and checks every one.

Views are built from the topic, so a replaced history is not an error here: the pointer's view starts over with it. What the
topic does not have comes from a server or a store. If they do not have it either, a pointer begins with its newest state.
"""

from __future__ import annotations

from headwater.consumers.clients.chain import Gap
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_positions import KafkaPosition
from headwater.consumers.views.live_views import LiveViews, State
from headwater.consumers.views.views_lookup import GONE, ViewsLookup, newest_state
from headwater.schemas.change import Base, Change
from headwater.schemas.errors import ChainBroken, CursorReset
from headwater.schemas.kafka_records import FeedRecord, RecordType, digest_of


class RecordViews:
    """With a lookup, what the topic no longer has is looked up; without one, it is an error and never skipped."""

    def __init__(self, lookup: ViewsLookup | None, begins: int = 1) -> None:
        """`begins`: the newest generation of the topic that started over."""
        self.views = LiveViews(None if lookup is None else self._state_of_base)
        self._chains = KafkaChains(begins)
        self._lookup = lookup
        self._waited: dict[str, Change] = {}
        self._is_complete = lookup is None
        self._taken = self._taken_before = 0
        self._generation = begins

    def settle(self) -> None:
        """Called repeatedly: a pointer that has waited for a base since the last call gets it from elsewhere, and pointers of
        which the topic has lost all records begin with their newest state."""
        if self._lookup is None:
            return
        for pointer, change in self._waited.items():
            if self.views.waiting.get(pointer) is change:
                self._begin_from_elsewhere(pointer, change)
        self._waited = self.views.waiting
        if not self._is_complete and self._taken == self._taken_before:
            self._is_complete = True
            for pointer in self._lookup.heads():
                if self._chains.reached(pointer) is None:
                    self._rebuild(pointer)
        self._taken_before = self._taken

    def take(self, record: FeedRecord) -> None:
        self._taken += 1
        self._generation = max(self._generation, record.generation)
        try:
            self._take(record)
        except CursorReset:
            self._forget(record.pointer)
            self._take(record)

    def _take(self, record: FeedRecord) -> None:
        if self._chains.is_over(record):
            return
        gap = self._chains.missing(record)
        if gap is not None and self._chains.reached(gap.pointer) is None:
            self._begin(gap.pointer, gap.to_seq)
        elif gap is not None:
            self._fill(gap)
        elif self._is_cut(record):
            self._forget(record.pointer)
            self._begin(record.pointer, record.seq)
        if gap is not None and record.seq <= (self._chains.reached(record.pointer) or 0):
            return  # the pointer was begun with a newer state
        for change in self._chains.take(record, self._change_of(record)):
            self.views.apply(change)
        if record.type in (RecordType.PURGED, RecordType.MOVED):
            self._forget(record.pointer)

    def _fill(self, gap: Gap) -> None:
        try:
            for frame in self._required().frames(gap.pointer, gap.from_seq, gap.to_seq):
                for change in self._chains.take_frame(frame):
                    self.views.apply(change)
        except GONE:
            self._rebuild(gap.pointer)

    def _begin_from_elsewhere(self, pointer: str, change: Change) -> None:
        state = None if change.base is None else self._state_of_base(change.base)
        if state is None:
            self._rebuild(pointer)
        else:
            self.views.begin_at_base(pointer, state)

    def _state_of_base(self, base: Base) -> State | None:
        try:
            return self._required().state_at(base.pointer, base.seq)
        except GONE:
            return None

    def _rebuild(self, pointer: str) -> None:
        """⚠ All or nothing: with the newest state of the pointer, or without the pointer if it is gone."""
        newest = newest_state(self._required(), pointer)
        self._forget(pointer)
        if newest is not None:
            self._start(pointer, newest.seq, newest.state)

    def _is_cut(self, record: FeedRecord) -> bool:
        """Whether entries that the views have not seen were cut from the log: then their state is looked up."""
        begins = record.type in (RecordType.BASELINE, RecordType.TRUNCATED)
        return begins and record.seq > (self._chains.reached(record.pointer) or 0)

    def _begin(self, pointer: str, seq: int) -> None:
        """A pointer whose first records the topic has lost begins with the state before the oldest one that is left."""
        try:
            self._start(pointer, seq, self._required().state_at(pointer, seq))
        except GONE:
            self._rebuild(pointer)

    def _start(self, pointer: str, seq: int, state: State) -> None:
        self.views.start(pointer, seq, state)
        self._chains.begin({pointer: KafkaPosition(seq, b"", self._generation)})

    def _forget(self, pointer: str) -> None:
        self._chains.forget(pointer)
        self.views.forget(pointer)

    def _change_of(self, record: FeedRecord) -> Change | None:
        """⚠ A Change that was too large for Kafka is fetched, and must be the one that the record names."""
        if not record.is_claim_check:
            return record.change
        change = self._required().change(record.pointer, record.seq)
        if change is None or digest_of(change) != record.digest:
            raise ChainBroken(f"{record.pointer}: the log's entry {record.seq} is not the published one.")
        return change

    def _required(self) -> ViewsLookup:
        if self._lookup is None:
            remedy = "Give the views a server or a store."
            raise ChainBroken("the topic does not hold all that the views need.", remedy=remedy)
        return self._lookup
