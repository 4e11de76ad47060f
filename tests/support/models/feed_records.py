"""Records of the commits topic as readers decode them, made from logs: generations that start over or continue."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.schemas.change import Change
from headwater.schemas.kafka_records import FeedRecord, RecordType
from tests.support.models.feed_histories import POINTER, History, put


def change_record(change: Change, generation: int = 1) -> FeedRecord:
    return FeedRecord(
        type=RecordType.CHANGE,
        id=change.entry_id,
        entry_id=change.entry_id,
        pointer=change.pointer,
        generation=generation,
        seq=change.seq,
        change=change,
    )


def control(
    type: RecordType, log: Sequence[Change], seq: int, generation: int = 1, *, continues: int = 0, pointer: str = POINTER
) -> FeedRecord:
    """At entry `seq` of that log, whose end is the head."""
    return FeedRecord(
        type=type,
        id="x",
        entry_id=log[seq - 1].entry_id if seq else "",
        pointer=pointer,
        generation=generation,
        seq=seq,
        head_seq=log[-1].seq if log else 0,
        head_id=log[-1].entry_id if log else "",
        continues=continues,
    )


def anew(generation: int, log: Sequence[Change], seq: int = 0, pointer: str = POINTER) -> list[FeedRecord]:
    """A generation that starts over behind `seq`, with all that the log holds."""
    baseline = control(RecordType.BASELINE, log, seq, generation, pointer=pointer)
    return [baseline, *(change_record(change, generation) for change in log[seq:])]


def going_on(generation: int, log: Sequence[Change], seq: int) -> list[FeedRecord]:
    """A generation that continues the one before behind `seq`."""
    baseline = control(RecordType.BASELINE, log, seq, generation, continues=generation - 1)
    return [baseline, *(change_record(change, generation) for change in log[seq:])]


def replaced(log: Sequence[Change], common: int, length: int) -> list[Change]:
    """Another log with the same first entries, as after a restored backup."""
    made = History(log[0].pointer)
    made.changes = list(log[:common])
    while len(made.changes) < length:
        made.add(put("t", value=1_000 + len(made.changes)))
    return made.changes
