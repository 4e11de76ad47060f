"""Names every way in which a topic differs from the log. Pure, and itself under test.

Each check quotes the promise that it stands for. A run is right when the list is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.schemas.avro.avro_codec import to_avro
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import FeedRecord, RecordType
from headwater.schemas.topics import partition_of


class TopicRecord(NamedTuple):
    """A record of the commits topic, where it lay."""

    partition: int
    offset: int
    key: bytes | None
    record: FeedRecord


class Fault(NamedTuple):
    kind: str
    """missing, doubled, swapped, altered, foreign, misplaced, no-baseline, after-end"""
    pointer: str
    seq: int


Log = Mapping[str, Sequence[Change]]
"""Pointer → its entries from the floor to the head, in order."""


def check_feed(records: Iterable[TopicRecord], log: Log, *, partitions: int | None = None) -> list[Fault]:
    """ "What read_committed gives per pointer equals the log in all fields: none missing, none twice, in order.\""""
    by_pointer: dict[str, list[TopicRecord]] = {pointer: [] for pointer in log}
    faults: list[Fault] = []
    for found in records:
        if found.record.type == RecordType.CHANGE:
            by_pointer.setdefault(found.record.pointer, []).append(found)
    for pointer, found_records in by_pointer.items():
        faults += _check_pointer(pointer, found_records, list(log.get(pointer, ())))
        faults += [Fault("misplaced", pointer, f.record.seq) for f in found_records if _is_misplaced(f, partitions)]
    return faults


def _check_pointer(pointer: str, found: Sequence[TopicRecord], entries: Sequence[Change]) -> list[Fault]:
    expected = {change.seq: change for change in entries}
    faults, seen, last = list[Fault](), set[int](), 0
    for _, _, key, record in found:
        if record.seq not in expected:
            faults.append(Fault("foreign", pointer, record.seq))
            continue
        if record.seq in seen:
            faults.append(Fault("doubled", pointer, record.seq))
        elif record.seq < last:
            faults.append(Fault("swapped", pointer, record.seq))
        if not _is_same(record, expected[record.seq]) or key != pointer.encode():
            faults.append(Fault("altered", pointer, record.seq))
        seen.add(record.seq)
        last = max(last, record.seq)
    return faults + [Fault("missing", pointer, seq) for seq in expected if seq not in seen]


def _is_same(record: FeedRecord, change: Change) -> bool:
    """Canonical bytes of every field; a claim check by its digest is compared where it is resolved."""
    if record.change is None:
        return record.is_claim_check and record.id == change.entry_id
    return record.id == change.entry_id and record.change == change and to_avro(record.change) == to_avro(change)


def _is_misplaced(found: TopicRecord, partitions: int | None) -> bool:
    return partitions is not None and found.partition != partition_of(found.record.pointer, partitions)


def check_generations(records: Iterable[TopicRecord]) -> list[Fault]:
    """ "First contact writes a baseline per pointer", "after an end record in every old partition"."""
    faults, begun, ended = list[Fault](), set[tuple[str, int]](), dict[int, int]()
    for partition, _, _, record in records:
        if record.type == RecordType.END:
            ended[partition] = max(record.generation, ended.get(partition, 0))
        elif record.generation <= ended.get(partition, 0):
            faults.append(Fault("after-end", record.pointer, record.seq))
        elif record.type == RecordType.BASELINE:
            begun.add((record.pointer, record.generation))
        elif (record.pointer, record.generation) not in begun:
            faults.append(Fault("no-baseline", record.pointer, record.seq))
    return faults


def without_repeats(given: Sequence[Change], log: Sequence[Change]) -> list[Change]:
    """What a group was given of one pointer, without what came again: it may go back, but never skips, nor alters."""
    kept = 0
    for change in given:
        assert change.seq <= kept + 1, f"{change.pointer}: entry {change.seq} came behind {kept}"
        assert change == log[change.seq - 1]
        kept = max(kept, change.seq)
    return list(log[:kept])


def newest_generation(records: Sequence[TopicRecord]) -> list[TopicRecord]:
    newest = max((found.record.generation for found in records), default=0)
    return [found for found in records if found.record.generation == newest]


# ── the protocol ────────────────────────────────────────────────────────────────────────────────────────────

P = FaultPoint
FOLLOWS: dict[FaultPoint, frozenset[FaultPoint]] = {
    P.LEASED: frozenset({P.LEASED, P.FENCED}),
    P.FENCED: frozenset({P.LEASED, P.RECOVERED}),
    P.RECOVERED: frozenset({P.LEASED, P.BEFORE_SEND}),
    P.BEFORE_SEND: frozenset({P.LEASED, P.AFTER_SEND}),
    P.AFTER_SEND: frozenset({P.LEASED, P.BEFORE_COMMIT}),
    P.BEFORE_COMMIT: frozenset({P.LEASED, P.AFTER_COMMIT}),
    P.AFTER_COMMIT: frozenset({P.LEASED, P.NOTED}),
    P.NOTED: frozenset({P.LEASED, P.BEFORE_SEND}),
}
"""Which step may follow which; any of them may be followed by a new beginning at the lease."""


def check_protocol(steps: Sequence[FaultPoint]) -> list[str]:
    """ "Win the lease; fence; read the progress; per batch one transaction; nothing counts before Kafka has committed it.\""""
    faults = [] if not steps or steps[0] is P.LEASED else [f"begins with {steps[0]}"]
    for before, after in pairwise(steps):
        if after not in FOLLOWS[before]:
            faults.append(f"{after} follows {before}")
    return faults


class Sent(msgspec.Struct, frozen=True):
    """One record as its producer saw it: when it was acknowledged to us, and when it counted as published."""

    seq: int
    delivered_at: int
    noted_at: int


def check_acknowledgements(sent: Iterable[Sent]) -> list[Fault]:
    """ "Nothing counts as published before its delivery report.\""""
    return [Fault("early", "", one.seq) for one in sent if one.noted_at < one.delivered_at]
