"""Writes a compacted topic of the newest state per pointer and table from the commits topic, exactly once.

⚠ One transaction holds the states, the positions of their pointers and the consumed offsets. At the start the transactional id
fences an older keeper, and the topic itself is read to its end, including open transactions: it is the keeper's only memory.
What the commits topic has lost, or what was forgotten with the tables topic, is taken from the store. A table that is gone
leaves a tombstone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from headwater.consumers.views.live_views import TableState
from headwater.consumers.views.table_source import describe_source, find_start, position
from headwater.consumers.views.table_views import FollowedPosition, History, TableViews
from headwater.schemas.errors import HungTransaction, KafkaUnavailable, ShardLost
from headwater.schemas.kafka_records import SchemaById, decode_record
from headwater.schemas.topics import commits_topic, partition_of, tables_topic

TIMEOUT_SECONDS = 20.0
BATCH_RECORDS = 2_000
POLL_SECONDS = 0.2
LOOK_SECONDS = 5.0
"""Seconds between two checks whether the commits topic was re-created or has got more partitions."""
LEADERLESS = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)

_json = msgspec.json.Encoder(order="deterministic").encode


class TableTopicWriter:
    """Keeps `headwater.<realm>.tables`. One at a time: a second one takes over."""

    def __init__(
        self,
        bootstrap: str,
        realm: str,
        history: History,
        *,
        client: dict[str, str] | None = None,
        schema_by_id: SchemaById | None = None,
        begins: Callable[[], int] = lambda: 1,
    ) -> None:
        """`begins`: the newest generation that started over."""
        self._realm = realm
        self._begins = begins
        self._schema_by_id = schema_by_id
        self._history = history
        self._views = TableViews(history, begins())
        self._source, self._target = commits_topic(realm), tables_topic(realm)
        self._group = f"{self._target}-keeper"
        self._common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 500,
            "log_level": 3,
            **(client or {}),
        }
        self._admin = AdminClient(self._common)
        self._partitions = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        """Runs until `stop`; errors end it, and its supervisor makes a new one."""
        self._work(until_end=False)

    def run_once(self) -> None:
        """Up to the current end."""
        self._work(until_end=True)

    def stop(self) -> None:
        self._stopping.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    def wait(self, seconds: float) -> None:
        """Unless it is stopped meanwhile."""
        self._stopping.wait(seconds)

    def forget(self) -> None:
        """After a failure: what was not committed must be read again."""
        self._views = TableViews(self._history, self._begins())

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, *, until_end: bool) -> None:
        try:
            self._partitions = self._ensure_target()
            producer = self._fence()
            self._recover()
            consumer = self._reader(self._group)
            try:
                self._follow(consumer, producer, until_end)
            finally:
                consumer.close()
        except KafkaException as error:
            raise _translated(error) from error

    def _follow(self, consumer: Consumer, producer: Producer, until_end: bool) -> None:
        source = describe_source(self._admin, self._source)
        start = find_start(consumer, self._source, source, remembers=bool(self._views.standings))
        positions, is_lost, at_end = start.positions, start.is_lost, set[int]()
        consumer.assign(list(positions.values()))
        next_look = time.monotonic() + LOOK_SECONDS
        while not self._stopping.is_set():
            moved = False
            for message in consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                partition = message.partition() or 0
                if _is_end(message):
                    at_end.add(partition)
                    continue
                at_end.discard(partition)
                self._views.apply(decode_record(_headers(message), message.value(), self._schema_by_id))
                positions[partition] = position(self._source, partition, (message.offset() or 0) + 1, source)
                moved = True
            is_at_end = len(at_end) == len(positions)
            if is_lost and is_at_end:
                self._views.catch_up()
                is_lost, moved = False, True
            if moved:
                self._commit(producer, consumer, list(positions.values()))
            if until_end and is_at_end:
                return
            if time.monotonic() > next_look:
                next_look = time.monotonic() + LOOK_SECONDS
                if describe_source(self._admin, self._source) != source:  # it starts over, with what is there now
                    self.forget()
                    return

    def _commit(self, producer: Producer, consumer: Consumer, positions: list[TopicPartition]) -> None:
        changed, moved = self._views.take()
        producer.begin_transaction()
        for (pointer, key), state in changed.items():
            self._send(producer, pointer, _json([pointer, key]), None if state is None else _json(state))
        for pointer, standing in moved.items():
            self._send(producer, pointer, _json([pointer]), None if standing is None else _json(standing))
        offsets = [one for one in positions if one.offset >= 0]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_SECONDS)
        producer.commit_transaction(TIMEOUT_SECONDS)

    def _send(self, producer: Producer, pointer: str, key: bytes, value: bytes | None) -> None:
        partition = partition_of(pointer, self._partitions)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                producer.produce(self._target, value, key, partition)
                return
            except BufferError:
                producer.poll(0.05)
                if time.monotonic() > deadline:
                    raise KafkaUnavailable("the queue to Kafka stayed full.") from None

    # ── beginning ───────────────────────────────────────────────────────────────────────────────────────────

    def _ensure_target(self) -> int:
        """As many partitions as the commits topic had when it was created."""
        there = self._count(self._target)
        if there:
            return there
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}
        wanted = NewTopic(self._target, num_partitions=self._count(self._source) or 1, replication_factor=-1, config=config)
        try:
            self._admin.create_topics([wanted])[self._target].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (there := self._count(self._target)):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(f"{self._target} was created and is not shown yet.")
            time.sleep(0.05)
        return there

    def _count(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def _fence(self) -> Producer:
        producer = Producer({**self._common, "transactional.id": self._group, "acks": "all", "compression.type": "lz4"})
        producer.init_transactions(TIMEOUT_SECONDS)
        return producer

    def _recover(self) -> None:
        reader = self._reader(f"{self._group}-recovery")
        try:
            for message in self._all(reader):
                self._remember(message)
        finally:
            reader.close()

    def _remember(self, message: Message) -> None:
        where = msgspec.json.decode(message.key() or b"[]")
        value = message.value()
        if len(where) == 1 and value is None:
            self._views.standings.pop(where[0], None)
        elif len(where) == 1:
            self._views.standings[where[0]] = msgspec.json.decode(value or b"", type=FollowedPosition)
        elif len(where) == 2:
            state = self._views.states.setdefault(where[0], {})
            if value is None:
                state.pop(tuple(where[1]), None)
            else:
                state[tuple(where[1])] = msgspec.json.decode(value, type=TableState)

    def _all(self, reader: Consumer) -> Iterator[Message]:
        """⚠ Up to the end that readers of uncommitted records see; an open transaction before it is an error."""
        ends = self._uncommitted_ends()
        reader.assign([TopicPartition(self._target, partition, OFFSET_BEGINNING) for partition in ends])
        left, deadline = {partition for partition, end in ends.items() if end > 0}, time.monotonic() + TIMEOUT_SECONDS
        while left:
            for message in reader.consume(BATCH_RECORDS, POLL_SECONDS):
                partition, ended = message.partition() or 0, _is_end(message)
                if (message.offset() or 0) + (not ended) >= ends[partition]:
                    left.discard(partition)
                if not ended:
                    deadline = time.monotonic() + TIMEOUT_SECONDS
                    yield message
            if left and time.monotonic() > deadline:
                raise HungTransaction(f"{self._target} cannot be read to its end.", remedy="Abort the open transaction.")

    def _uncommitted_ends(self) -> dict[int, int]:
        """A topic that was created a moment ago may have no leader yet: it is asked again."""
        wanted = {TopicPartition(self._target, n): OffsetSpec.latest() for n in range(self._partitions)}  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            futures = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
            try:
                return {where.partition: int(future.result(TIMEOUT_SECONDS).offset) for where, future in futures.items()}
            except KafkaException as error:
                if error.args[0].code() not in LEADERLESS or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def _reader(self, group: str) -> Consumer:
        return Consumer(
            {
                **self._common,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )


def _is_end(message: Message) -> bool:
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def _headers(message: Message) -> list[tuple[str, bytes]]:
    given = message.headers() or []
    pairs = given.items() if isinstance(given, dict) else given
    return [(name, value) for name, value in pairs if isinstance(value, bytes)]


def _translated(error: KafkaException) -> KafkaUnavailable | ShardLost:
    cause = error.args[0]
    fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
    if isinstance(cause, KafkaError) and cause.code() in fenced:
        return ShardLost("another keeper of the tables topic has taken over.")
    return KafkaUnavailable(f"{error}.")
