"""Reads from the log what the topic does not hold: gaps, and Changes that are too large for Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator

from headwater.consumers.clients.chain import Gap
from headwater.consumers.clients.transport import AsyncLog
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, CursorExpired, PointerPurged
from headwater.schemas.frame import Frame
from headwater.schemas.kafka_records import FeedRecord, digest_of


class LogRepair:
    def __init__(self, log: AsyncLog | None) -> None:
        self._log = log

    @property
    def is_possible(self) -> bool:
        return self._log is not None

    async def frames(self, gap: Gap, *, is_new: bool) -> AsyncIterator[Frame]:
        """A reader that is new to the pointer begins with the oldest entry that the log still has."""
        if self._log is None:
            raise CursorExpired(
                f"{gap} in the topic, and there is no log to read them from.",
                remedy="Give the reader a server or a store, or begin after a commit that the topic has (from_commit).",
                pointer=gap.pointer,
                oldest=gap.to_seq + 1,
            ) from gap
        from_seq = gap.from_seq
        try:
            async for frame in self._log.frames(gap.pointer, from_seq, gap.to_seq):
                from_seq = frame.to_seq
                yield frame
            return
        except PointerPurged:
            if not is_new:
                raise
            return
        except CursorExpired as error:
            oldest = error.facts.get("oldest")
            if not is_new or from_seq != gap.from_seq or not isinstance(oldest, int):
                raise
        if oldest <= gap.to_seq:
            async for frame in self._log.frames(gap.pointer, oldest - 1, gap.to_seq):
                yield frame

    async def change(self, record: FeedRecord) -> Change | None:
        """⚠ A Change that was too large for Kafka is fetched, and must be the one that the record names."""
        if not record.is_claim_check:
            return record.change
        if self._log is None:
            raise ChainBroken(
                f"{record.pointer}: entry {record.seq} was too large for Kafka, and there is no log to read it from.",
                remedy="Give the reader a server or a store.",
            )
        async for frame in self._log.frames(record.pointer, record.seq - 1, record.seq):
            for change in frame.changes:
                if change.seq == record.seq and digest_of(change) == record.digest:
                    return change
        raise ChainBroken(f"{record.pointer}: the log's entry {record.seq} is not the published one.", seq=record.seq)
