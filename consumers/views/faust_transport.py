"""Faust's Kafka transport, set to read committed records only; its default also reads aborted ones."""

from __future__ import annotations

from typing import Any

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

READ_COMMITTED = "read_committed"


class CommittedThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_isolation_level"):
            raise RuntimeError("this version of aiokafka keeps its isolation level elsewhere")
        consumer._isolation_level = READ_COMMITTED  # read when it starts; faust has no setting for it
        return consumer


class CommittedConsumer(Consumer):
    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(Transport):
    Consumer = CommittedConsumer
