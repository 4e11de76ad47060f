"""Stand-ins for aiokafka's consumer and admin client, on the simulated cluster, and the loop that drives their coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    KafkaConnectionError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from aiokafka.structs import OffsetAndMetadata, OffsetAndTimestamp

from tests.simulation.runtime import virtual
from tests.simulation.world import confluent
from tests.simulation.world.broker import BrokerError, Partition

T = TypeVar("T")


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Nothing in the simulation really waits, so a coroutine runs through."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a coroutine waits for something that the simulation does not know")


def iterated(changes: AsyncIterator[T]) -> Iterator[T]:
    while True:
        try:
            yield driven(_next(changes))
        except StopAsyncIteration:
            return


async def _next(changes: AsyncIterator[T]) -> T:
    return await changes.__anext__()


def _call(what: str, apply: Any, *, is_write: bool = False) -> Any:
    try:
        return confluent.broker().call(what, apply, is_write=is_write)
    except BrokerError as error:
        if error.code in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"):
            raise CommitFailedError(error.code) from error
        if error.code == "UNKNOWN_TOPIC_OR_PART":
            raise UnknownTopicOrPartitionError(error.code) from error
        raise KafkaConnectionError(error.code) from error


class AIOKafkaConsumer:
    def __init__(self, *topics: str, group_id: str | None = None, auto_offset_reset: str = "latest", **_: object) -> None:
        self._group = group_id
        self._reset = auto_offset_reset
        self._topics: list[str] = []
        self._listener: Any = None
        self._member = 0
        self._generation = -1
        self._paused: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        """Of what is assigned; -1 where it is not looked up yet."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        if self._member and self._group is not None:
            confluent.broker().leave(self._group, self._member)
            self._member = 0

    def subscribe(self, topics: Iterable[str] = (), *, listener: Any = None, **_: object) -> None:
        self._topics, self._listener = list(topics), listener

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions = dict.fromkeys(partitions, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        for partition in partitions or list(self._positions):
            self._positions[partition] = _call("seek", lambda one=partition: _partition(one).start)

    def assignment(self) -> frozenset[TopicPartition]:
        if self._group is not None and self._topics:
            driven(self._follow_group())
        return frozenset(self._positions)

    async def getmany(self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None) -> dict[Any, Any]:
        if self._topics:
            await self._follow_group()
        found = _call(f"fetch {len(self._positions)} partitions", lambda: self._fetch(max_records or 500))
        if not found:
            virtual.sleep(timeout_ms / 1_000)
        return dict(found)

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        kept = {(at.topic, at.partition): (one.offset, one.metadata) for at, one in offsets.items()}
        broker, group = confluent.broker(), self._group
        assert group is not None
        _call(
            f"commit offsets of {group}",
            lambda: broker.commit_offsets(group, self._member, self._generation, kept),
            is_write=True,
        )

    async def committed(self, partition: TopicPartition) -> int | None:
        kept = confluent.broker().group(self._group or "").offsets.get((partition.topic, partition.partition))
        return None if kept is None else kept[0]

    async def position(self, partition: TopicPartition) -> int:
        if self._positions[partition] < 0:
            self._positions[partition] = _call("position", lambda: self._begin(partition))
        return self._positions[partition]

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict(_call("end offsets", lambda: {one: _partition(one).stable_end() for one in partitions}))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict(_call("first offsets", lambda: {one: _partition(one).start for one in partitions}))

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        def read() -> dict[TopicPartition, OffsetAndTimestamp | None]:
            found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
            for one, time_ms in times.items():
                records = [record for record in _partition(one).records if record.time_ms >= time_ms and not record.is_control]
                found[one] = OffsetAndTimestamp(records[0].offset, records[0].time_ms) if records else None
            return found

        return dict(_call("offsets for times", read))

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._paused.difference_update(partitions)

    def paused(self) -> set[TopicPartition]:
        return self._paused & set(self._positions)

    async def topics(self) -> set[str]:
        return set(_call("list topics", lambda: set(confluent.broker().topics)))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        found = confluent.broker().topics.get(topic)
        return None if found is None else set(range(len(found.partitions)))

    # ── groups ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _follow_group(self) -> None:
        broker, group = confluent.broker(), self._group
        assert group is not None
        if not self._member:
            self._member = _call(f"join {group}", lambda: broker.join(group, self._topics))
        try:
            member = broker.heartbeat(group, self._member)
        except BrokerError:
            self._member = _call(f"join {group} again", lambda: broker.join(group, self._topics))
            member = broker.heartbeat(group, self._member)
        generation = broker.group(group).generation
        if generation == self._generation:
            return
        before = list(self._positions)
        if self._generation >= 0 and self._listener is not None:
            await self._listener.on_partitions_revoked(before)
        self._generation = generation
        assigned = [TopicPartition(topic, number) for topic, number in member.assigned]
        self._positions = dict.fromkeys(assigned, -1)
        if self._listener is not None:
            await self._listener.on_partitions_assigned(assigned)

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def _kept(self, partition: TopicPartition) -> tuple[int, str] | None:
        offsets = confluent.broker().group(self._group).offsets if self._group else {}
        return offsets.get((partition.topic, partition.partition))

    def _begin(self, partition: TopicPartition) -> int:
        kept = self._kept(partition)
        return _partition(partition).start if kept is None else kept[0]

    def _fetch(self, count: int) -> dict[TopicPartition, list[Any]]:
        found: dict[TopicPartition, list[Any]] = {}
        for at, position in list(self._positions.items()):
            if at in self._paused:
                continue
            try:
                partition = _partition(at)
            except BrokerError:
                continue  # the client asks for metadata again and again, and says nothing
            if position < 0 and self._reset == "none" and self._kept(at) is None:
                if found:
                    return found  # the error comes with the next call
                raise NoOffsetForPartitionError(at)
            position = self._begin(at) if position < 0 else position
            if not partition.start <= position <= partition.end:
                if self._reset == "none" and found:
                    return found
                if self._reset == "none":
                    raise OffsetOutOfRangeError({at: position})
                position = partition.start if self._reset == "earliest" else partition.stable_end()
            records, self._positions[at] = partition.from_offset(position, count, committed=True)
            if records:
                found[at] = [
                    SimpleNamespace(
                        offset=one.offset, key=one.key, value=one.value, headers=one.headers, timestamp=one.time_ms,
                        topic=at.topic, partition=at.partition,
                    )
                    for one in records
                ]  # fmt: skip
        return found


class AIOKafkaAdminClient:
    def __init__(self, **_: object) -> None: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def list_topics(self) -> list[str]:
        return list(_call("list topics", lambda: list(confluent.broker().topics)))

    async def describe_topics(self, names: Iterable[str]) -> list[dict[str, Any]]:
        def read() -> list[dict[str, Any]]:
            found = []
            for name in names:
                topic = confluent.broker().topics.get(name)
                if topic is None:
                    found.append({"topic": name, "error_code": 3, "partitions": []})
                    continue
                partitions = [{"partition": number} for number in range(len(topic.partitions))]
                found.append({"topic": name, "error_code": 0, "topic_id": topic.id, "partitions": partitions})
            return found

        return list(_call("describe topics", read))

    async def list_consumer_group_offsets(self, group: str, **_: object) -> dict[TopicPartition, OffsetAndMetadata]:
        def read() -> dict[TopicPartition, OffsetAndMetadata]:
            offsets = confluent.broker().group(group).offsets
            return {TopicPartition(*where): OffsetAndMetadata(*kept) for where, kept in offsets.items()}

        return dict(_call(f"offsets of {group}", read))


def _partition(at: TopicPartition) -> Partition:
    return confluent.broker().partition(at.topic, at.partition)


__all__ = ["AIOKafkaAdminClient", "AIOKafkaConsumer", "KafkaError", "driven", "iterated"]
