"""Makes Kafka clients with every setting that correctness rests on, and translates their errors."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import HeadwaterError, KafkaUnavailable, ShardLost

_log = logging.getLogger(__name__)
_quiet = logging.getLogger(__name__ + ".librdkafka")
_quiet.setLevel(logging.CRITICAL)  # what it reports comes to us as errors, with less noise while a broker is away

FENCED_CODES = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.PRODUCER_FENCED,
    }
)
RECONNECT_MS_MAX = 500
PURGE_SECONDS = 1.0


def make_producer(options: PublisherOptions, transactional_id: str) -> Producer:
    timeout_ms = int(options.kafka_timeout_seconds * 1_000)
    return Producer(
        {
            **_common(options),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 2,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": max(100_000, 4 * options.batch_changes),
            "queue.buffering.max.kbytes": max(64 * 1024, 4 * options.batch_bytes // 1024),
            "message.max.bytes": max(1_000_000, options.record_bytes_max + 65_536),
            **options.client,
        },
        logger=_quiet,
    )


def make_reader(options: PublisherOptions) -> Consumer:
    """Reads one partition to its end; belongs to no group and commits no offset."""
    return Consumer(
        {
            **_common(options),
            "group.id": "headwater-publisher",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            **options.client,
        },
        logger=_quiet,
    )


def make_admin(options: PublisherOptions) -> AdminClient:
    return AdminClient({**_common(options), **options.client}, logger=_quiet)


def translated(error: KafkaException, what: str) -> HeadwaterError:
    """Fenced means the lease is lost; everything else begins again at the lease."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, KafkaError) and cause.code() in FENCED_CODES:
        return ShardLost(f"{what}: another publisher has taken over ({cause.str()}).")
    text = cause.str() if isinstance(cause, KafkaError) else str(error)
    return KafkaUnavailable(f"{what}: {text}.", remedy="Look at the brokers; publishing continues by itself.")


def discard(producer: Producer) -> None:
    """Without a word to the broker: the next `init_transactions` decides what becomes of an open transaction."""
    try:
        producer.purge(in_queue=True, in_flight=True)
        producer.flush(PURGE_SECONDS)  # serves the reports of what was purged: they keep the producer alive
    except KafkaException as error:
        _log.debug("a producer was discarded with %s", error)


def _common(options: PublisherOptions) -> dict[str, Any]:
    return {
        "bootstrap.servers": options.bootstrap,
        "client.id": "headwater-publisher",
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "socket.connection.setup.timeout.ms": 5_000,
        "log_level": 3,
    }
