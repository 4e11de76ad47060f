"""Folds records of the commits topic into live views, and checks every one.

Views are made of the topic alone, so a history that was replaced is no error here: the pointer's view begins anew with it.
"""

from __future__ import annotations

from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.views.live_views import LiveViews
from headwater.consumers.views.server_lookup import ViewsServer
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, CursorReset
from headwater.schemas.frame import Frame
from headwater.schemas.kafka_records import FeedRecord, RecordType, digest_of


class RecordViews:
    """With a server, what the topic no longer has is asked for; without one, it is an error and never passed over."""

    def __init__(self, server: ViewsServer | None, begins: int = 1) -> None:
        """`begins`: the newest generation of the topic that began anew."""
        self.views = LiveViews(None if server is None else server.state_of_base)
        self._chains = KafkaChains(begins)
        self._server = server

    def take(self, record: FeedRecord) -> None:
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
            for frame in self._required().frames(gap.pointer, gap.from_seq, gap.to_seq):
                for change in self._chains.take_frame(frame):
                    self.views.apply(change)
        elif self._is_cut(record):
            self._forget(record.pointer)
            self._begin(record.pointer, record.seq)
        for change in self._chains.take(record, self._change_of(record)):
            self.views.apply(change)
        if record.type == RecordType.PURGED:
            self._forget(record.pointer)

    def _is_cut(self, record: FeedRecord) -> bool:
        """Whether entries that the views have not seen were cut from the log: their state is asked for."""
        begins = record.type in (RecordType.BASELINE, RecordType.TRUNCATED)
        return begins and record.seq > (self._chains.reached(record.pointer) or 0)

    def _begin(self, pointer: str, seq: int) -> None:
        """A pointer whose first records the topic has lost begins with the state before the oldest that is left."""
        self.views.start(pointer, seq, self._required().state_at(pointer, seq))
        self._chains.take_frame(Frame(pointer=pointer, from_seq=seq, to_seq=seq, changes=()))

    def _forget(self, pointer: str) -> None:
        self._chains.forget(pointer)
        self.views.forget(pointer)

    def _change_of(self, record: FeedRecord) -> Change | None:
        """⚠ A Change that was too large for Kafka is fetched, and must be the one that the record names."""
        if not record.is_claim_check:
            return record.change
        change = self._required().change(record.pointer, record.seq)
        if change is None or digest_of(change) != record.digest:
            raise ChainBroken(f"{record.pointer}: what stands for entry {record.seq} is not what was published.")
        return change

    def _required(self) -> ViewsServer:
        if self._server is None:
            raise ChainBroken("the topic does not hold all that the views need.", remedy="Give the views a server.")
        return self._server
