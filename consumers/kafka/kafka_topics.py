"""Finds the topic of a realm's newest instance, and the offsets to read from after a commit."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.schemas.entry_ids import micros_of, object_id_of, parse_id
from headwater.schemas.errors import CursorExpired, RealmNotFound
from headwater.schemas.kafka_records import FeedRecord, RecordType, SchemaById, decode_record
from headwater.schemas.topics import commits_topic

CLOCKS_APART_MS = 60_000
"""How much earlier a record may be stamped than its commit: clocks of publisher and writer differ."""
POLL_MS = 200


class Start(msgspec.Struct, frozen=True):
    offsets: dict[TopicPartition, int]
    is_behind: Callable[[FeedRecord], bool]


@asynccontextmanager
async def administering(source: KafkaSource) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=source.bootstrap, **source.client)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


def newest_topic(realm: str, topics: Iterable[str]) -> str | None:
    """⚠ A realm that was made again has a topic of its own: the newest creation id is the realm that lives."""
    wanted = re.compile(re.escape(commits_topic(f"{realm}#ID")).replace("ID", "([0-9a-f]{16})"))
    return max((topic for topic in topics if wanted.fullmatch(topic)), default=None)


async def all_topics(source: KafkaSource) -> set[str]:
    async with administering(source) as admin:
        return set(await admin.list_topics())


async def find_partitions(source: KafkaSource) -> list[TopicPartition]:
    async with administering(source) as admin:
        topic = newest_topic(source.realm, await admin.list_topics())
        if topic is None:
            raise RealmNotFound(
                f"Kafka has no topic of realm {source.realm!r}.",
                field="realm",
                remedy="Check the name, and that a publisher runs.",
            )
        (described,) = await admin.describe_topics([topic])
    return [TopicPartition(topic, number) for number in range(len(described["partitions"]))]


async def find_start(
    source: KafkaSource, partitions: Sequence[TopicPartition], commit: str, schema_by_id: SchemaById | None
) -> Start:
    """Behind the commit in its own pointer; in others behind its time."""
    committed_ms = id_time_micros(object_id_of(parse_id(commit, field="from_commit"))) // 1_000
    consumer = AIOKafkaConsumer(bootstrap_servers=source.bootstrap, isolation_level="read_committed", **source.client)
    await consumer.start()
    try:
        at_time = await consumer.offsets_for_times(dict.fromkeys(partitions, max(0, committed_ms - CLOCKS_APART_MS)))
        ends = await consumer.end_offsets(list(partitions))
        offsets = {one: ends[one] if at_time[one] is None else at_time[one].offset for one in partitions}
        found = await _scan(consumer, offsets, ends, commit, schema_by_id)
    finally:
        await consumer.stop()
    return Start(offsets, lambda record: _is_behind(record, found))


async def _scan(
    consumer: AIOKafkaConsumer,
    offsets: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    commit: str,
    schema_by_id: SchemaById | None,
) -> FeedRecord:
    for partition, offset in offsets.items():
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while await consumer.position(partition) < ends[partition]:
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    decoded = decode_record(record.headers, record.value, schema_by_id)
                    if decoded.type == RecordType.CHANGE and decoded.id == commit:
                        return decoded
    raise CursorExpired(
        f"the topic does not hold {commit}: it is too old for it, or was not published yet.",
        field="from_commit",
        remedy="Read from the server or the store.",
    )


def _is_behind(record: FeedRecord, start: FeedRecord) -> bool:
    if record.pointer == start.pointer:
        return record.seq > start.seq
    if record.change is None or start.change is None:
        return True  # a claim check: given out rather than guessed about
    return micros_of(record.change.time) > micros_of(start.change.time)
