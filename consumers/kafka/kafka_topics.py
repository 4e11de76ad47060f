"""Finds the topic of a realm's newest instance, and the offsets to read from after a commit."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import micros_of, object_id_of, parse_id
from headwater.schemas.errors import CursorExpired, KafkaUnavailable, RealmNotFound
from headwater.schemas.kafka_records import FeedRecord, RecordType, SchemaById, decode_record
from headwater.schemas.topics import access_topic, commits_topic

CLOCKS_APART_MS = 60_000
"""How much earlier a record's timestamp may be than its commit: the clocks of publisher and writer differ."""
POLL_MS = 200
ASSIGNED_SECONDS_MAX = 60.0
ASSIGNED_SECONDS = 0.05
"""Seconds between two checks whether the group has given this reader its partitions."""


IsBehind = Callable[[str, int, Change | None], bool]
"""Whether the entry of a pointer at a seq, with its Change if available, is to be returned."""


class Start(msgspec.Struct, frozen=True):
    offsets: dict[TopicPartition, int]
    is_behind: IsBehind


BEGINNING = Start({}, lambda pointer, seq, change: True)


@asynccontextmanager
async def administering(source: KafkaSource) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=source.bootstrap, **source.client)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


def newest_topic(realm: str, topics: Iterable[str], name: Callable[[str], str] = commits_topic) -> str | None:
    """⚠ A realm that was re-created has a topic of its own: the newest creation id is the realm that exists."""
    wanted = re.compile(re.escape(name(f"{realm}#ID")).replace("ID", "([0-9a-f]{16})"))
    return max((topic for topic in topics if wanted.fullmatch(topic)), default=None)


def topic_to_read(source: KafkaSource, topics: Iterable[str]) -> str | None:
    """None if it does not exist."""
    name = access_topic if source.access else commits_topic
    if not source.instance:
        return newest_topic(source.realm, topics, name)
    return name(source.instance) if name(source.instance) in topics else None


async def all_topics(source: KafkaSource) -> set[str]:
    async with administering(source) as admin:
        return set(await admin.list_topics())


async def readable_sources(source: KafkaSource) -> list[KafkaSource]:
    """The commits topic, and the access topic of the same instance if the brokers show this client one."""
    topics = await all_topics(source)
    commits, access = (topic_to_read(msgspec.structs.replace(source, access=one), topics) for one in (False, True))
    is_beside = commits is not None and access is not None and commits.rpartition(".")[0] == access.rpartition(".")[0]
    return [source, msgspec.structs.replace(source, access=True)] if is_beside else [source]


async def find_partitions(source: KafkaSource) -> list[TopicPartition]:
    async with administering(source) as admin:
        topic = topic_to_read(source, await admin.list_topics())
        described = await admin.describe_topics([topic]) if topic is not None else []
    partitions = [TopicPartition(topic, number) for one in described for number in range(len(one["partitions"]))]
    if not partitions:  # also if it was deleted between the two requests
        what = "no topic of access records" if source.access else "no topic"
        raise RealmNotFound(
            f"Kafka has {what} of realm {source.realm!r}, or shows this client none.",
            field="realm",
            remedy="Check the name, the rights of this client, and that a publisher runs.",
        )
    return partitions


async def find_start(
    source: KafkaSource, partitions: Sequence[TopicPartition], commit: str, begins: int, schema_by_id: SchemaById | None
) -> Start:
    """After the commit in its own pointer; in others after its time. Only in the history that generation `begins` started."""
    committed_ms = id_time_micros(object_id_of(parse_id(commit, field="from_commit"))) // 1_000
    consumer = AIOKafkaConsumer(bootstrap_servers=source.bootstrap, isolation_level="read_committed", **source.client)
    await consumer.start()
    try:
        at_time = await consumer.offsets_for_times(dict.fromkeys(partitions, max(0, committed_ms - CLOCKS_APART_MS)))
        ends = await consumer.end_offsets(list(partitions))
        offsets = {one: ends[one] if at_time[one] is None else at_time[one].offset for one in partitions}
        found = await _scan(consumer, offsets, ends, commit, begins, schema_by_id)
    finally:
        await consumer.stop()
    return Start(offsets, lambda pointer, seq, change: _is_behind(pointer, seq, change, found))


async def _scan(
    consumer: AIOKafkaConsumer,
    offsets: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    commit: str,
    begins: int,
    schema_by_id: SchemaById | None,
) -> FeedRecord:
    for partition, offset in offsets.items():
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while await consumer.position(partition) < ends[partition]:
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            if not batches:  # ⚠ a topic that was re-created may be shorter: its old end would never come
                ends[partition] = min(ends[partition], (await consumer.end_offsets([partition]))[partition])
            for records in batches.values():
                for record in records:
                    decoded = decode_record(record.headers, record.value, schema_by_id)
                    if decoded.type == RecordType.CHANGE and decoded.id == commit and decoded.generation >= begins:
                        return decoded
    raise CursorExpired(
        f"the topic does not hold {commit}: it is too old for it, or was not published yet.",
        field="from_commit",
        remedy="Read from the server or the store.",
    )


def _is_behind(pointer: str, seq: int, change: Change | None, start: FeedRecord) -> bool:
    if pointer == start.pointer:
        return seq > start.seq
    if change is None or start.change is None:
        return True  # a claim check: returned rather than guessed about
    return micros_of(change.time) > micros_of(start.change.time)


async def assigned_ends(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    """Only the partitions that the group gives to this reader."""
    deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
    while not consumer.assignment():
        if time.monotonic() > deadline:
            raise KafkaUnavailable("the group has no partition for this reader.", remedy="Other readers have them all.")
        await asyncio.sleep(ASSIGNED_SECONDS)
    return dict(await consumer.end_offsets(list(consumer.assignment())))
