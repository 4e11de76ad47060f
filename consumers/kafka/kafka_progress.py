"""Reads from the progress topic which generation started over last, and the published head of every pointer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import administering
from headwater.schemas.errors import KafkaUnavailable
from headwater.schemas.kafka_records import GENERATION_KEY, GenerationEnd, Progress

POLL_MS = 200


async def read_begins(source: KafkaSource, topic: str) -> int:
    """⚠ Records of earlier generations belong to a history that has ended. 1 while no generation has followed the first."""
    begins = 1
    async for record in committed_records(source, (await _partitions(source, topic))[:1]):
        if record.key == GENERATION_KEY and record.value is not None:
            begins = max(begins, msgspec.json.decode(record.value, type=GenerationEnd).begins)
    return begins


async def read_heads(source: KafkaSource, topic: str) -> dict[str, Progress]:
    """By pointer: how much of the current history was published to that topic, at least."""
    partitions = await _partitions(source, topic)
    if not partitions:
        raise KafkaUnavailable(f"there is no progress topic for {topic}.", remedy="Let the publisher run, then try again.")
    begins, heads = 1, dict[bytes, Progress]()
    async for record in committed_records(source, partitions):
        if record.key == GENERATION_KEY and record.value is not None:
            begins = max(begins, msgspec.json.decode(record.value, type=GenerationEnd).begins)
        elif record.value is None:
            heads.pop(record.key, None)
        else:
            heads[record.key] = msgspec.json.decode(record.value, type=Progress)
    commits = topic.rpartition(".")[0] + ".commits"
    return {head.pointer: head for head in heads.values() if head.generation >= begins and (head.topic or commits) == topic}


async def _partitions(source: KafkaSource, beside: str) -> list[TopicPartition]:
    """None if the topic is not there."""
    topic = beside.rpartition(".")[0] + ".progress"
    async with administering(source) as admin:
        if topic not in await admin.list_topics():
            return []
        (described,) = await admin.describe_topics([topic])
    return [TopicPartition(topic, number) for number in range(len(described["partitions"]))]


async def committed_records(source: KafkaSource, partitions: Sequence[TopicPartition]) -> AsyncGenerator[ConsumerRecord, None]:
    """All records that are committed now."""
    if not partitions:
        return
    consumer = AIOKafkaConsumer(
        bootstrap_servers=source.bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **source.client,
    )
    await consumer.start()
    try:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(one) < end for one, end in ends.items()]):
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            for records in batches.values():
                for record in records:
                    yield record
            if not batches:  # ⚠ a topic that was re-created may be shorter: its old end would never come
                now = await consumer.end_offsets(partitions)
                ends = {one: min(end, now[one]) for one, end in ends.items()}
    finally:
        await consumer.stop()
