"""Checks records of the commits topic: each Change passes once and in order, or the gap before it is named. Does no I/O.

Transactions leave holes in Kafka's offsets; gaps are found by our own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.consumers.clients.chain import Chain, Gap
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CursorExpired
from headwater.schemas.frame import Frame
from headwater.schemas.kafka_records import FeedRecord, RecordType


class KafkaChains:
    """What a consumer has seen of its pointers."""

    def __init__(self) -> None:
        self.chains: dict[str, Chain] = {}

    def begin(self, positions: Mapping[str, Position]) -> None:
        for pointer, position in positions.items():
            self.chains[pointer] = Chain(pointer, position.seq, position.entry_id.hex())

    def missing(self, record: FeedRecord) -> Gap | None:
        """What must be read from the log before the record can be taken."""
        chain = self.chains.get(record.pointer)
        if chain is None:
            return None
        match record.type:
            case RecordType.CHANGE:
                before = record.seq - 1
            case RecordType.BASELINE:
                before = record.seq
            case _:
                return None
        return Gap(record.pointer, chain.seq, before) if before > chain.seq else None

    def take(self, record: FeedRecord, change: Change | None) -> list[Change]:
        """`change` is the record's, fetched where it was too large for Kafka."""
        if record.type == RecordType.CHANGE and change is not None:
            chain = self._chain(record.pointer, record.seq - 1)
            return chain.accept(Frame(pointer=record.pointer, from_seq=record.seq - 1, to_seq=record.seq, changes=(change,)))
        if record.type == RecordType.BASELINE:
            self._chain(record.pointer, record.seq)
        if record.type == RecordType.TRUNCATED:
            self._skip(record)
        return []

    def pass_by(self, record: FeedRecord) -> None:
        """A Change before the one that the reader wants to begin behind."""
        chain = self.chains.get(record.pointer)
        if chain is None or chain.seq < record.seq:
            self.chains[record.pointer] = Chain(record.pointer, record.seq, record.id)

    def take_frame(self, frame: Frame) -> list[Change]:
        return self._chain(frame.pointer, frame.from_seq).accept(frame)

    def _chain(self, pointer: str, seq: int) -> Chain:
        if pointer not in self.chains:
            self.chains[pointer] = Chain(pointer, seq)
        return self.chains[pointer]

    def _skip(self, record: FeedRecord) -> None:
        """⚠ Entries that were cut before they were published are lost to whoever had not seen them: never passed over."""
        chain = self._chain(record.pointer, record.seq)
        if chain.seq < record.seq:
            raise CursorExpired(
                f"{record.pointer}: entries {chain.seq + 1} to {record.seq} were cut before they were published.",
                remedy="Take a snapshot and follow from its entry.",
                pointer=record.pointer,
                oldest=record.seq + 1,
            )
