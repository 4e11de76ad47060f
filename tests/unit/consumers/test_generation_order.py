"""Records are taken generation by generation, whichever partition is read first; a topic that is gone is noticed."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition

from headwater.consumers.kafka.generation_order import Fetched, GenerationOrder
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import topic_to_read
from headwater.consumers.kafka.topic_watch import ABSENT_SECONDS_MAX, LOOK_SECONDS, TopicWatch
from headwater.schemas.errors import CursorReset
from headwater.schemas.kafka_records import FeedRecord, RecordType

SOURCE = KafkaSource(bootstrap="", realm="r")
OLD, NEW = TopicPartition("t", 0), TopicPartition("t", 1)


def fetched(partition: TopicPartition, generation: int, seq: int) -> Fetched:
    return Fetched(partition, seq, FeedRecord(type=RecordType.CHANGE, id="", pointer="p", generation=generation, seq=seq))


def taken(order: GenerationOrder) -> list[int]:
    found = []
    while (one := order.next()) is not None:
        found.append(one.record.seq)
    return found


def test_a_new_partition_waits_for_the_remaining_records_of_the_old_ones() -> None:
    order = GenerationOrder()
    order.add(fetched(OLD, 1, 1))
    assert taken(order) == [] and order.is_blocked and order.waiting == {OLD}
    order.open_next()
    assert taken(order) == [1] and not order.is_blocked
    order.add(fetched(NEW, 2, 4))
    assert taken(order) == [] and order.is_blocked and order.waiting == {NEW}
    order.add(fetched(OLD, 1, 2))
    order.add(fetched(OLD, 1, 3))
    assert taken(order) == [2, 3] and order.is_blocked
    order.open_next()
    assert taken(order) == [4]


def test_held_records_are_dropped_when_partitions_are_reassigned() -> None:
    order = GenerationOrder()
    order.add(fetched(NEW, 2, 4))
    order.clear()
    assert not order.is_blocked and order.waiting == frozenset() and taken(order) == []


class Brokers:
    def __init__(self, *topics: str) -> None:
        self.now = 0.0
        self.there = set(topics)

    async def topics(self) -> set[str]:
        return self.there


def topic(created: int) -> str:
    return f"headwater.r-{created:016x}.commits"


def look(watch: TopicWatch, brokers: Brokers, seconds: float = LOOK_SECONDS) -> bool:
    brokers.now += seconds
    return asyncio.run(watch.is_due())


def test_a_realm_that_was_recreated_resets_its_followers() -> None:
    brokers = Brokers(topic(1), topic(2), "headwater.r2-0000000000000009.commits")
    watch = TopicWatch(SOURCE, topic(2), brokers.topics, clock=lambda: brokers.now)
    assert not look(watch, brokers, LOOK_SECONDS / 2) and look(watch, brokers)
    brokers.there = {topic(3)}
    with pytest.raises(CursorReset, match="re-created"):
        look(watch, brokers)


def test_a_topic_may_be_away_for_a_moment_and_not_for_good() -> None:
    brokers = Brokers(topic(2))
    watch = TopicWatch(SOURCE, topic(2), brokers.topics, clock=lambda: brokers.now)
    brokers.there = set()
    assert look(watch, brokers)
    brokers.there = {topic(2)}
    assert look(watch, brokers)
    brokers.there = {topic(1)}  # an older one is not a successor
    assert look(watch, brokers)
    with pytest.raises(CursorReset, match="lost its topic"):
        look(watch, brokers, ABSENT_SECONDS_MAX)


def test_a_realm_named_by_its_instance_is_read_from_its_own_topic() -> None:
    """Another store may have a realm of that name on the same brokers."""
    source = KafkaSource(bootstrap="", realm="r", instance=f"r#{2:016x}")
    brokers = Brokers(topic(2), topic(3))
    assert topic_to_read(SOURCE, brokers.there) == topic(3)
    assert topic_to_read(source, brokers.there) == topic(2)
    watch = TopicWatch(source, topic(2), brokers.topics, clock=lambda: brokers.now)
    assert look(watch, brokers)
    brokers.there = {topic(3)}
    assert topic_to_read(source, brokers.there) is None
    with pytest.raises(CursorReset, match="lost its topic"):
        look(watch, brokers, ABSENT_SECONDS_MAX + LOOK_SECONDS)
