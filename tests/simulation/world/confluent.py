"""Stand-ins for confluent_kafka's Producer, Consumer and AdminClient, on the simulated cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition

from tests.simulation.runtime import virtual
from tests.simulation.world.broker import Broker, BrokerError, ProducerSession, Record

_broker: Broker | None = None


def use(broker: Broker | None) -> None:
    global _broker
    _broker = broker


def broker() -> Broker:
    assert _broker is not None
    return _broker


def kafka_error(error: BrokerError) -> KafkaError:
    return KafkaError(getattr(KafkaError, error.code, KafkaError._TIMED_OUT))


def call(what: str, apply: Callable[[], Any], *, is_write: bool = False) -> Any:
    try:
        return broker().call(what, apply, is_write=is_write)
    except BrokerError as error:
        raise KafkaException(kafka_error(error)) from error


class Producer:
    """Transactional; what is produced is sent by `poll`, `flush` or the commit."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._id = str(config["transactional.id"])
        self._timeout_micros = int(config.get("transaction.timeout.ms", 60_000)) * 1_000
        self._session: ProducerSession | None = None
        self._queue: list[tuple[str, int, Record, Any]] = []

    def init_transactions(self, timeout: float = 0) -> None:
        self._session = call(f"init {self._id}", lambda: broker().init_transactions(self._id), is_write=True)

    def begin_transaction(self) -> None:
        self._queue.clear()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Any = None,
        *,
        headers: Any = (),
        **_: object,
    ) -> None:
        pairs = [(name, text.encode() if isinstance(text, str) else text or b"") for name, text in headers or ()]
        now_ms = virtual.wall_micros() // 1_000
        self._queue.append((topic, partition, Record(0, key, value, pairs, now_ms), on_delivery))

    def poll(self, timeout: float = 0) -> int:
        return 0

    def flush(self, timeout: float = 0) -> int:
        """A failed delivery is reported, not raised."""
        while self._queue:
            topic, partition, record, on_delivery = self._queue[0]
            append = functools.partial(self._append, topic, partition, record)
            try:
                broker().call(f"send {topic}/{partition}", append, is_write=True)
            except BrokerError as error:
                if on_delivery is not None:
                    on_delivery(kafka_error(error), None)
                self._queue.clear()
                return 0
            self._queue.pop(0)
        return 0

    def _append(self, topic: str, partition: int, record: Record) -> None:
        """⚠ Idempotent, as the real one: what was appended is not appended again."""
        assert self._session is not None
        if record.transaction is None:
            broker().append(self._session, self._timeout_micros, topic, partition, record)

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: str, timeout: float = 0) -> None:
        assert self._session is not None
        session, kept = self._session, {(at.topic, at.partition): (at.offset, at.metadata or "") for at in offsets}
        call("send offsets", lambda: broker().add_offsets(session, self._timeout_micros, group, kept), is_write=True)

    def commit_transaction(self, timeout: float = 0) -> None:
        assert self._session is not None
        session, failures = self._session, list[KafkaError]()
        self._queue = [
            (topic, number, record, lambda error, _: failures.append(error)) for topic, number, record, _ in self._queue
        ]
        self.flush()
        if failures:
            raise KafkaException(failures[0])
        call(f"commit {self._id}", lambda: broker().commit(session), is_write=True)

    def abort_transaction(self, timeout: float = 0) -> None:
        assert self._session is not None
        session = self._session

        def abort() -> None:
            broker().require_current(session)
            broker()._decide(self._id, "aborted")

        call(f"abort {self._id}", abort, is_write=True)

    def purge(self, **_: object) -> None:
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)


class Message:
    def __init__(self, topic: str, partition: int, record: Record | None, offset: int, error: KafkaError | None = None) -> None:
        self._topic, self._partition, self._record, self._offset, self._error = topic, partition, record, offset, error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> bytes | None:
        return self._record.key if self._record else None

    def value(self) -> bytes | None:
        return self._record.value if self._record else None

    def headers(self) -> list[tuple[str, bytes]]:
        return self._record.headers if self._record else []


class Consumer:
    """Of partitions that it is told; reads committed records."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._group = str(config.get("group.id", ""))
        self._reset = str(config.get("auto.offset.reset", "earliest"))
        self._positions: dict[tuple[str, int], int] = {}
        self._ended: dict[tuple[str, int], int] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions = {(at.topic, at.partition): at.offset for at in partitions}
        self._ended = {}

    def poll(self, timeout: float = 0) -> Message | None:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, count: int, timeout: float = 0) -> list[Message]:
        found = call(f"fetch {len(self._positions)} partitions", lambda: self._fetch(count))
        if not found:
            virtual.sleep(timeout)
        return list(found)

    def _fetch(self, count: int) -> list[Message]:
        found: list[Message] = []
        for (topic, number), position in list(self._positions.items()):
            if len(found) >= count:
                break
            try:
                partition = broker().partition(topic, number)
            except BrokerError as error:
                found.append(Message(topic, number, None, position, kafka_error(error)))
                continue
            if position == OFFSET_BEGINNING:
                position = partition.start
            if not partition.start <= position <= partition.end:
                if self._reset == "error":
                    found.append(Message(topic, number, None, position, KafkaError(KafkaError._AUTO_OFFSET_RESET)))
                    continue
                position = partition.start
            records, position = partition.from_offset(position, count - len(found), committed=True)
            found += [Message(topic, number, record, record.offset) for record in records]
            self._positions[topic, number] = position
            if position >= partition.stable_end() and self._ended.get((topic, number)) != position and len(found) < count:
                self._ended[topic, number] = position
                found.append(Message(topic, number, None, position, KafkaError(KafkaError._PARTITION_EOF)))
        return found

    def committed(self, partitions: list[TopicPartition], timeout: float = 0) -> list[TopicPartition]:
        def read() -> list[TopicPartition]:
            offsets = broker().group(self._group).offsets
            kept = {(at.topic, at.partition): offsets.get((at.topic, at.partition), (OFFSET_INVALID, "")) for at in partitions}
            return [TopicPartition(topic, number, at, metadata=text) for (topic, number), (at, text) in kept.items()]

        return list(call("committed offsets", read))

    def get_watermark_offsets(self, at: TopicPartition, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        def read() -> tuple[int, int]:
            partition = broker().partition(at.topic, at.partition)
            return partition.start, partition.stable_end()

        low, high = call("watermarks", read)
        return low, high

    def consumer_group_metadata(self) -> str:
        return self._group

    def close(self) -> None: ...


class AdminClient:
    def __init__(self, config: dict[str, Any], **_: object) -> None: ...

    def create_topics(self, topics: Iterable[Any], **_: object) -> dict[str, Future[Any]]:
        return {
            new.topic: _future(
                f"create {new.topic}",
                lambda new=new: broker().create_topic(new.topic, new.num_partitions, dict(new.config or {})),
                is_write=True,
            )
            for new in topics
        }

    def delete_topics(self, names: Iterable[str], **_: object) -> dict[str, Future[Any]]:
        return {name: _future(f"delete {name}", lambda name=name: broker().delete_topic(name), is_write=True) for name in names}

    def describe_topics(self, collection: Any, **_: object) -> dict[str, Future[Any]]:
        return {name: _future(f"describe {name}", lambda name=name: _described(name)) for name in collection.topic_names}

    def describe_configs(self, resources: Iterable[Any], **_: object) -> dict[Any, Future[Any]]:
        def read(resource: Any) -> dict[str, Any]:
            if resource.name not in broker().topics:
                raise BrokerError("UNKNOWN_TOPIC_OR_PART")
            return {name: SimpleNamespace(value=value) for name, value in broker().topics[resource.name].config.items()}

        return {one: _future("describe configs", lambda one=one: read(one)) for one in resources}

    def list_offsets(self, wanted: dict[TopicPartition, Any], *, isolation_level: Any = None, **_: object) -> dict[Any, Any]:
        def read(at: TopicPartition, spec: Any) -> Any:
            partition = broker().partition(at.topic, at.partition)
            if type(spec).__name__ == "EarliestSpec" or getattr(spec, "_value", None) == -2:
                return SimpleNamespace(offset=partition.start)
            committed = isolation_level == IsolationLevel.READ_COMMITTED
            return SimpleNamespace(offset=partition.stable_end() if committed else partition.end)

        return {
            at: _future(f"end of {at.topic}/{at.partition}", lambda at=at, spec=spec: read(at, spec))
            for at, spec in wanted.items()
        }

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        def read() -> Any:
            names = [topic] if topic else list(broker().topics)
            found = {name: broker().topics[name] for name in names if name in broker().topics}
            return SimpleNamespace(
                topics={
                    name: SimpleNamespace(partitions=dict(enumerate(one.partitions)), error=None) for name, one in found.items()
                }
            )

        return call("list topics", read)


def _described(name: str) -> Any:
    topic = broker().topics.get(name)
    if topic is None:
        raise BrokerError("UNKNOWN_TOPIC_OR_PART")
    return SimpleNamespace(topic_id=topic.id, partitions=[None] * len(topic.partitions), name=name)


def _future(what: str, apply: Callable[[], Any], *, is_write: bool = False) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(call(what, apply, is_write=is_write))
    except KafkaException as error:
        future.set_exception(error)
    return future
