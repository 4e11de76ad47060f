"""Sends records in one Kafka transaction at a time, committed or not at all. Any error ends the sender's life."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message

from headwater.producer.publisher.kafka.kafka_clients import discard, make_producer, translated
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import KafkaUnavailable

QUEUE_FULL_SECONDS = 0.05


class _Reports:
    """Only failures are reported. Apart from the sender, whose producer would else be kept alive by its own reports."""

    def __init__(self) -> None:
        self.failure: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = error


class Sender:
    """One transactional producer. ⚠ Creating it fences the previous owner of its transactional id."""

    def __init__(self, options: PublisherOptions, transactional_id: str) -> None:
        self._options = options
        self._id = transactional_id
        self._timeout_seconds = options.kafka_timeout_seconds
        self._reports = _Reports()
        self._producer = make_producer(options, transactional_id)
        try:
            self._producer.init_transactions(self._timeout_seconds)
        except KafkaException as error:
            self.discard()
            raise translated(error, f"fencing {transactional_id}") from error

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise translated(error, "beginning a transaction") from error

    def send(self, records: Iterable[KafkaRecord]) -> None:
        """Queue them; what cannot be delivered fails the commit."""
        produce = self._producer.produce
        for topic, partition, key, value, headers in records:
            try:
                produce(topic, value, key, partition, self._reports.delivered, headers=headers)
            except BufferError:
                self._wait_for_room(KafkaRecord(topic, partition, key, value, headers))
            except KafkaException as error:
                raise translated(error, f"sending to {topic}") from error
        self._producer.poll(0)

    def flush(self) -> None:
        """⚠ Every record has its delivery report before the lease is looked at for the last time."""
        left = self._producer.flush(self._timeout_seconds)
        if self._reports.failure is not None:
            raise translated(KafkaException(self._reports.failure), "delivering records")
        if left:
            raise KafkaUnavailable(f"{left} records were not acknowledged in {self._timeout_seconds:g} s.")

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(self._timeout_seconds)
        except KafkaException as error:
            raise translated(error, "committing a transaction") from error

    def discard(self) -> None:
        """⚠ With its connections: nothing of it may reach a broker after the next fence."""
        discard(self._producer)
        del self._producer

    def _wait_for_room(self, record: KafkaRecord) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while time.monotonic() < deadline:
            self._producer.poll(QUEUE_FULL_SECONDS)
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, record.partition, self._reports.delivered, headers=record.headers
                )
            except BufferError:
                continue
            except KafkaException as error:
                raise translated(error, f"sending to {record.topic}") from error
            return
        raise KafkaUnavailable(f"the queue to Kafka stayed full for {self._timeout_seconds:g} s.")
