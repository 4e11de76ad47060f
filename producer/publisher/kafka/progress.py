"""Reads the last published entry of every pointer of a shard from its progress partition, or the reason to stop.

⚠ To be called behind `init_transactions` alone: before it, a transaction of the last holder could still be committed behind the
end that is read here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from headwater.producer.publisher.kafka.kafka_clients import make_reader, translated
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import HungTransaction, KafkaUnavailable, LogDiverged, StoreBehindKafka
from headwater.schemas.kafka_records import GENERATION_KEY, GenerationEnd, Progress

POLL_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 0.05


class Recovered(msgspec.Struct, frozen=True):
    positions: dict[str, Progress]
    """Of this generation, by pointer."""
    ended: int
    """Up to which generation all have ended, if this is partition 0."""
    begins: int
    """Which generation started over last, if this is partition 0."""
    newest: int
    """The latest generation that the partition holds a position of."""
    end: GenerationEnd | None = None
    """The newest, if this is partition 0: it names the topics that the generation behind `ended` was to begin in."""


class ProgressReader:
    def __init__(self, admin: AdminClient, options: PublisherOptions) -> None:
        self._admin = admin
        self._options = options

    def recover(self, realm: str, topic: str, partition: int, generation: int) -> Recovered:
        """⚠ Up to the end that a reader of uncommitted records sees: it waits for transactions that are not decided yet."""
        recovered = self.read(realm, topic, partition, generation)
        if recovered.newest > generation:
            raise behind(realm, recovered.newest, generation)
        return recovered

    def read(self, realm: str, topic: str, partition: int, generation: int) -> Recovered:
        """The same, whatever later generations there are."""
        end = self._ends(topic, [partition], IsolationLevel.READ_UNCOMMITTED)[partition]
        positions: dict[str, Progress] = {}
        ended = begins = newest = 0
        last_end: GenerationEnd | None = None
        for message in self._committed(topic, partition, end) if end else ():
            key, value = message.key() or b"", message.value()
            if value is None:
                positions.pop(key.decode(), None)
            elif key == GENERATION_KEY:
                last_end = msgspec.json.decode(value, type=GenerationEnd)
                ended, begins = max(ended, last_end.ended), max(begins, last_end.begins)
            else:
                found = msgspec.json.decode(value, type=Progress)
                newest = max(newest, found.generation)
                _note(positions, found, realm, generation)
        return Recovered(positions, ended, begins, newest, last_end)

    def check_readable(self, topic: str, partitions: Iterable[int]) -> None:
        """⚠ What readers of committed records can reach must come up to what is there now: records behind something that is
        never decided would be published, and seen by nobody."""
        wanted = self._ends(topic, partitions, IsolationLevel.READ_UNCOMMITTED)
        deadline = time.monotonic() + self._options.recovery_seconds
        while True:
            reached = self._ends(topic, wanted, IsolationLevel.READ_COMMITTED)
            wanted = {partition: end for partition, end in wanted.items() if reached[partition] < end}
            if not wanted:
                return
            if time.monotonic() > deadline:
                partition, end = next(iter(wanted.items()))
                raise _hung(topic, partition, reached[partition], end)
            time.sleep(LOOK_AGAIN_SECONDS)

    def _ends(self, topic: str, partitions: Iterable[int], isolation: IsolationLevel) -> dict[int, int]:
        wanted = {TopicPartition(topic, n): OffsetSpec.latest() for n in partitions}  # type: ignore[no-untyped-call]
        timeout_seconds = self._options.kafka_timeout_seconds
        futures = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout_seconds)
        try:
            return {where.partition: int(future.result(timeout_seconds * 2).offset) for where, future in futures.items()}
        except KafkaException as error:
            raise translated(error, f"asking for the end of {topic}") from error
        except TimeoutError as error:
            raise KafkaUnavailable(f"asking for the end of {topic}: no answer.") from error

    def _committed(self, topic: str, partition: int, end: int) -> Iterator[Message]:
        consumer = make_reader(self._options)
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            yield from self._until(consumer, topic, partition, end)
        except KafkaException as error:
            raise translated(error, f"reading {topic}/{partition}") from error
        finally:
            consumer.close()

    def _until(self, consumer: Consumer, topic: str, partition: int, end: int) -> Iterator[Message]:
        position = 0
        deadline = time.monotonic() + self._options.recovery_seconds
        while position < end:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if time.monotonic() > deadline:
                    raise _hung(topic, partition, position, end)
                continue
            # The end of a partition is reported with the offset that is read next: behind markers and aborted records.
            error, offset = message.error(), message.offset() or 0
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not at_end:
                raise translated(KafkaException(error), f"reading {topic}/{partition}")
            reached = offset if at_end else offset + 1
            if reached > position:
                position, deadline = reached, time.monotonic() + self._options.recovery_seconds
            if not at_end:
                yield message


def _note(positions: dict[str, Progress], found: Progress, realm: str, generation: int) -> None:
    if found.realm != realm:
        raise LogDiverged(f"the progress topic of {realm} holds positions of {found.realm}.")
    if found.generation != generation:
        return
    before = positions.get(found.pointer)
    if before is not None and found.seq < before.seq:
        raise LogDiverged(f"{found.pointer}: its progress went back from {before.seq} to {found.seq}.")
    positions[found.pointer] = found


def behind(realm: str, found: int, generation: int) -> StoreBehindKafka:
    return StoreBehindKafka(
        f"{realm}: Kafka is in generation {found}, the store in {generation}.",
        remedy="The store was restored from a backup: begin a new generation once you know which of both is right.",
        published_generation=found,
        generation=generation,
    )


def _hung(topic: str, partition: int, position: int, end: int) -> HungTransaction:
    return HungTransaction(
        f"{topic}/{partition} can be read up to {position}, but something undecided reaches to {end}.",
        remedy="Find the open transaction (kafka-transactions.sh find-hanging) and abort it, or delete both topics.",
        topic=topic,
        partition=partition,
        position=position,
        end=end,
    )
