"""Folds records of the commits topic into live views, and checks every one."""

from __future__ import annotations

from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.views.live_views import LiveViews
from headwater.consumers.views.server_lookup import ViewsServer
from headwater.schemas.change import COMMITTING_KINDS, Change
from headwater.schemas.errors import ChainBroken
from headwater.schemas.kafka_records import FeedRecord, RecordType, digest_of


class RecordViews:
    """With a server, what the topic no longer has is asked for; without one, it is an error and never passed over."""

    def __init__(self, server: ViewsServer | None) -> None:
        self.views = LiveViews(None if server is None else server.state_of_base)
        self._chains = KafkaChains()
        self._server = server

    def take(self, record: FeedRecord) -> None:
        gap = self._chains.missing(record)
        if gap is not None:
            for frame in self._required().frames(gap.pointer, gap.from_seq, gap.to_seq):
                for change in self._chains.take_frame(frame):
                    self.views.apply(change)
        for change in self._chains.take(record, self._change_of(record)):
            self._begin(change)
            self.views.apply(change)

    def _begin(self, change: Change) -> None:
        """A pointer whose first records the topic has lost begins with the state before the oldest that is left."""
        is_new = change.pointer not in self.views.pointers
        if is_new and change.seq > 1 and change.kind in COMMITTING_KINDS:
            before = change.seq - 1
            self.views.start(change.pointer, before, self._required().state_at(change.pointer, before))

    def _change_of(self, record: FeedRecord) -> Change | None:
        """⚠ A Change that was too large for Kafka is fetched, and must be the one that the record names."""
        if record.type != RecordType.CHANGE or not record.is_claim_check:
            return record.change
        change = self._required().change(record.pointer, record.seq)
        if change is None or digest_of(change) != record.digest:
            raise ChainBroken(f"{record.pointer}: what stands for entry {record.seq} is not what was published.")
        return change

    def _required(self) -> ViewsServer:
        if self._server is None:
            raise ChainBroken("the topic does not hold all that the views need.", remedy="Give the views a server.")
        return self._server
