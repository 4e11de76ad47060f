"""The validators are held to what they promise: each seeded mistake is found, and named."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import FeedRecord, RecordType
from headwater.schemas.topics import partition_of
from tests.support.models.changes_sample import FULL_CHANGE
from tests.support.models.feed_validators import (
    Fault,
    Sent,
    TopicRecord,
    check_acknowledgements,
    check_feed,
    check_generations,
    check_protocol,
)

POINTER = "cat/1/heads/main"
P = FaultPoint
ONE_BATCH = [P.BEFORE_SEND, P.AFTER_SEND, P.BEFORE_COMMIT, P.AFTER_COMMIT, P.NOTED]
GOOD = [P.LEASED, P.FENCED, P.RECOVERED, *ONE_BATCH, *ONE_BATCH]


def log() -> list[Change]:
    return [msgspec.structs.replace(FULL_CHANGE, pointer=POINTER, seq=seq, entry_id=f"{seq:064x}") for seq in range(1, 7)]


def topic(changes: list[Change], generation: int = 1) -> list[TopicRecord]:
    baseline = FeedRecord(type=RecordType.BASELINE, id="b", pointer=POINTER, generation=generation, seq=0)
    records = [baseline] + [
        FeedRecord(type=RecordType.CHANGE, id=c.entry_id, pointer=c.pointer, generation=generation, seq=c.seq, change=c)
        for c in changes
    ]
    partition = partition_of(POINTER, 4)
    return [TopicRecord(partition, offset, POINTER.encode(), record) for offset, record in enumerate(records)]


def test_a_topic_that_equals_the_log_has_no_fault() -> None:
    assert check_feed(topic(log()), {POINTER: log()}, partitions=4) == []
    assert check_generations(topic(log())) == []


def _dropped(records: list[TopicRecord]) -> None:
    del records[3]


def _doubled(records: list[TopicRecord]) -> None:
    records.append(records[3])


def _swapped(records: list[TopicRecord]) -> None:
    records[3], records[4] = records[4], records[3]


def _altered(records: list[TopicRecord]) -> None:
    change = records[3].record.change
    assert change is not None
    forged = msgspec.structs.replace(change, message=change.message + "!")
    records[3] = records[3]._replace(record=msgspec.structs.replace(records[3].record, change=forged))


def _misplaced(records: list[TopicRecord]) -> None:
    records[3] = records[3]._replace(partition=(records[3].partition + 1) % 4)


def _foreign(records: list[TopicRecord]) -> None:
    records.append(records[3]._replace(record=msgspec.structs.replace(records[3].record, seq=99)))


def _under_another_key(records: list[TopicRecord]) -> None:
    records[3] = records[3]._replace(key=b"cat/1/heads/other")


@pytest.mark.parametrize(
    ("mistake", "fault"),
    [
        (_dropped, Fault("missing", POINTER, 3)),
        (_doubled, Fault("doubled", POINTER, 3)),
        (_swapped, Fault("swapped", POINTER, 3)),
        (_altered, Fault("altered", POINTER, 3)),
        (_misplaced, Fault("misplaced", POINTER, 3)),
        (_foreign, Fault("foreign", POINTER, 99)),
        (_under_another_key, Fault("altered", POINTER, 3)),
    ],
)
def test_a_seeded_mistake_in_the_topic_is_found(mistake: Callable[[list[TopicRecord]], None], fault: Fault) -> None:
    records = topic(log())
    mistake(records)
    assert check_feed(records, {POINTER: log()}, partitions=4) == [fault]


def test_a_pointer_that_is_missing_altogether_is_found() -> None:
    assert len(check_feed([], {POINTER: log()})) == 6


def test_a_record_without_a_baseline_or_after_the_end_is_found() -> None:
    records = topic(log())
    assert {fault.kind for fault in check_generations(records[1:])} == {"no-baseline"}
    end = FeedRecord(type=RecordType.END, id="e", pointer="", generation=1, seq=0)
    records.insert(4, TopicRecord(records[0].partition, 99, None, end))
    assert {fault.kind for fault in check_generations(records)} == {"after-end"}


def test_the_protocol_as_it_is_has_no_fault() -> None:
    assert check_protocol(GOOD) == []
    assert check_protocol([*GOOD[:5], *GOOD]) == []


@pytest.mark.parametrize(
    "steps",
    [
        [P.LEASED, P.RECOVERED, P.FENCED, *ONE_BATCH],
        [P.FENCED, P.LEASED, P.RECOVERED, *ONE_BATCH],
        [P.LEASED, P.FENCED, *ONE_BATCH],
        [P.LEASED, P.FENCED, P.RECOVERED, P.BEFORE_SEND, P.BEFORE_COMMIT, P.AFTER_COMMIT, P.NOTED],
        [P.LEASED, P.FENCED, P.RECOVERED, P.BEFORE_SEND, P.AFTER_SEND, P.NOTED, P.BEFORE_COMMIT, P.AFTER_COMMIT],
        [*GOOD, P.RECOVERED],
    ],
    ids=["progress-before-fence", "fence-before-lease", "no-progress", "no-delivery-report", "noted-before-commit", "no-fence"],
)
def test_a_seeded_mistake_in_the_protocol_is_found(steps: list[FaultPoint]) -> None:
    assert check_protocol(steps)


def test_an_acknowledgement_before_the_delivery_report_is_found() -> None:
    assert check_acknowledgements([Sent(1, 10, 11), Sent(2, 12, 12)]) == []
    assert check_acknowledgements([Sent(1, 10, 11), Sent(2, 12, 11)]) == [Fault("early", "", 2)]
