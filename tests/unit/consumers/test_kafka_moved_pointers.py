"""A pointer that begins in another partition of a group is compared with what the group has acknowledged of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import OffsetAndMetadata

from headwater.consumers.kafka import kafka_reader
from headwater.consumers.kafka.kafka_positions import KafkaPosition, KeptPositions, parse_positions, positions_text
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorReset, KafkaUnavailable
from headwater.schemas.kafka_records import FeedRecord
from tests.support.models.feed_histories import POINTER, history, seqs
from tests.support.models.feed_records import anew, going_on, replaced

OLD, NEW, THIRD = (TopicPartition("commits", number) for number in range(3))
LOG = history(6)
OTHER = replaced(LOG, 4, 8)
"""What a restored store has instead: entries 5 and 6 are other ones."""


class Brokers:
    """One group's offsets, and records of the partitions that this reader was dealt."""

    def __init__(self, records: dict[TopicPartition, list[FeedRecord]], kept: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.records = records
        self.kept = kept
        self.away_for = 0
        """So many questions for the group's offsets fail."""

    async def list_consumer_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        if self.away_for:
            self.away_for -= 1
            raise KafkaConnectionError
        return dict(self.kept)

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Consumer:
    """As much of aiokafka's consumer as a reader of a group needs that is dealt its partitions once."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._at = {partition: kept.offset for partition, kept in brokers.kept.items()}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def subscribe(self, topics: list[str], listener: object) -> None: ...

    async def topics(self) -> set[str]:
        return {"commits"}

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._brokers.records)

    async def position(self, partition: TopicPartition) -> int:
        return self._at.get(partition, 0)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._at[partition] = offset

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self._brokers.records[partition]) for partition in partitions}

    async def getmany(self, **_: object) -> dict[TopicPartition, list[Any]]:
        found = {}
        for partition, records in self._brokers.records.items():
            begin = self._at.get(partition, 0)
            self._at[partition] = len(records)
            if records[begin:]:
                found[partition] = [
                    SimpleNamespace(offset=begin + number, headers=(), value=record)
                    for number, record in enumerate(records[begin:])
                ]
        return found

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset()

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._brokers.kept |= offsets


def behind(seq: int, offset: int, *, generation: int = 1) -> OffsetAndMetadata:
    """The group has acknowledged entries up to `seq`, in that generation."""
    position = KafkaPosition(seq, bytes.fromhex(LOG[seq - 1].entry_id), generation)
    return OffsetAndMetadata(offset, positions_text(KeptPositions(generation=generation, positions={POINTER: position})))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """Generation 2 starts over, and has the pointer in the partition that was added; the old one is another reader's."""
    made = Brokers({NEW: anew(2, OTHER)}, {OLD: behind(6, 7)})

    async def partitions(source: KafkaSource) -> list[TopicPartition]:
        return [OLD, NEW]

    async def begins(source: KafkaSource, topic: str) -> int:
        return 2

    async def ends(consumer: Consumer) -> dict[TopicPartition, int]:
        return await consumer.end_offsets(sorted(made.records))

    monkeypatch.setattr(kafka_reader, "AIOKafkaConsumer", lambda **_: Consumer(made))
    monkeypatch.setattr("headwater.consumers.kafka.kafka_topics.AIOKafkaAdminClient", lambda **_: made)
    monkeypatch.setattr(kafka_reader, "find_partitions", partitions)
    monkeypatch.setattr(kafka_reader, "read_begins", begins)
    monkeypatch.setattr(kafka_reader, "assigned_ends", ends)
    monkeypatch.setattr(kafka_reader, "decode_record", lambda headers, value, schemas: value)
    return made


async def read_on(reader: KafkaReader) -> list[Change]:
    given = [change async for change in reader.changes(follow=False)]
    await reader.acknowledge()
    return given


def member() -> KafkaReader:
    return KafkaReader(KafkaSource(bootstrap="none", group="billing"))


def read() -> list[Change]:
    """As a new member of the group that ends then."""

    async def run() -> list[Change]:
        async with member() as reader:
            return await read_on(reader)

    return asyncio.run(run())


def test_another_history_in_another_partition_is_a_reset(brokers: Brokers) -> None:
    async def run() -> list[Change]:
        async with member() as reader:
            with pytest.raises(CursorReset) as gone:
                await read_on(reader)
            await reader.accept(gone.value)
            return await read_on(reader)

    assert asyncio.run(run()) == OTHER
    assert read() == []


def test_the_same_history_continues_in_another_partition(brokers: Brokers) -> None:
    brokers.records[NEW] = anew(2, history(9))
    assert seqs(read()) == [7, 8, 9]
    assert parse_positions(brokers.kept[NEW].metadata).positions[POINTER].seq == 9


def test_a_history_that_started_over_and_moved_before_it_was_compared_is_a_reset(brokers: Brokers) -> None:
    """Only entry 4 was published again when partitions were added: entries 5 and 6 come in the new one."""
    brokers.kept = {OLD: behind(6, 9, generation=2)}
    brokers.records = {NEW: going_on(3, OTHER, 4)}
    with pytest.raises(CursorReset):
        read()


def test_changes_that_another_reader_still_delivers_are_not_repeated(brokers: Brokers) -> None:
    brokers.kept = {OLD: behind(3, 4)}
    brokers.records = {NEW: going_on(2, LOG, 5)}
    assert seqs(read()) == [6]


def test_positions_of_another_partition_are_kept_before_new_records_arrive(brokers: Brokers) -> None:
    brokers.records[NEW] = anew(2, OTHER)[:1]
    assert read() == []
    del brokers.kept[OLD]
    brokers.records[NEW] = anew(2, OTHER)
    with pytest.raises(CursorReset):
        read()


def test_of_several_partitions_the_newest_generation_counts(brokers: Brokers) -> None:
    """Pointers move each time that partitions are added; what they leave behind stays beside the offsets."""
    brokers.kept = {OLD: behind(6, 7), THIRD: behind(4, 3, generation=2)}
    brokers.records = {NEW: anew(3, OTHER)}
    assert seqs(read()) == [5, 6, 7, 8]


def test_partitions_of_one_reader_are_compared_before_anything_is_acknowledged(brokers: Brokers) -> None:
    brokers.kept = {}
    brokers.records = {OLD: anew(2, LOG), NEW: anew(3, OTHER)}
    with pytest.raises(CursorReset):
        read()


def test_a_baseline_that_could_not_be_compared_is_taken_again(brokers: Brokers) -> None:
    async def run() -> None:
        async with member() as reader:
            await reader._settle()
            brokers.away_for = 1
            with pytest.raises(KafkaUnavailable):
                await read_on(reader)
            with pytest.raises(CursorReset):
                await read_on(reader)

    asyncio.run(run())
