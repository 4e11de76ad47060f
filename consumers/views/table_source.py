"""Finds where the keeper of the tables topic continues in the commits topic, and whether records between were lost."""

from __future__ import annotations

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

TIMEOUT_SECONDS = 20.0


class SourceTopic(msgspec.Struct, frozen=True):
    id: str = ""
    """A topic that was deleted and re-created has another id; empty if there is no topic."""
    partitions: int = 0


class Start(msgspec.Struct, frozen=True):
    positions: dict[int, TopicPartition]
    is_lost: bool
    """Whether pointers may have moved without a record that is still to come."""


def describe_source(admin: AdminClient, topic: str) -> SourceTopic:
    try:
        found = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return SourceTopic()
        raise
    return SourceTopic(str(found.topic_id), len(found.partitions))


def find_start(consumer: Consumer, topic: str, source: SourceTopic, *, remembers: bool) -> Start:
    """⚠ A committed offset counts only together with what it was committed with: a keeper that remembers nothing, a topic that
    was re-created, and an offset that retention has passed all begin with the oldest existing record."""
    wanted = [TopicPartition(topic, number) for number in range(source.partitions)]
    positions, is_lost = {}, not remembers
    for where in consumer.committed(wanted, TIMEOUT_SECONDS) if wanted else []:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, where.partition), TIMEOUT_SECONDS)
        is_new = where.offset == OFFSET_INVALID
        is_valid = not is_new and where.metadata == source.id and low <= where.offset <= high
        is_lost = is_lost or (low > 0 if is_new else not is_valid)
        offset = where.offset if remembers and is_valid else OFFSET_BEGINNING
        positions[where.partition] = position(topic, where.partition, offset, source)
    return Start(positions, is_lost)


def position(topic: str, partition: int, offset: int, source: SourceTopic) -> TopicPartition:
    """With the topic's id beside the offset."""
    return TopicPartition(topic, partition, offset, metadata=source.id)
