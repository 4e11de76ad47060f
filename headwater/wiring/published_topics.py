"""Asks the brokers whether the topics of published realms are there, before a reader waits for them in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from headwater.producer.publisher.assignment.generations import Generation
from headwater.schemas.errors import KafkaUnavailable, NotFound
from headwater.wiring.kafka_client import KafkaClient

if TYPE_CHECKING:
    from headwater.streaming.spark_jobs.topic_bookmarks import TopicBounds

ANSWER_SECONDS = 10.0


def missing_topics(client: KafkaClient, generations: Iterable[Generation]) -> dict[str, str]:
    """Realm instance → a topic of its Changes that these brokers do not have, or do not show this client."""
    wanted = {generation.realm: [topic.name for topic in generation.topics.of_changes] for generation in generations}
    if not wanted:
        return {}
    there = _topics(client)
    absent = {realm: [name for name in names if name not in there] for realm, names in wanted.items()}
    return {realm: names[0] for realm, names in absent.items() if names}


def missing_error(client: KafkaClient, topic: str) -> NotFound:
    return NotFound(
        f"{client.bootstrap} has no topic {topic!r}, or shows this client none, although the store says that it was published.",
        field="kafka_bootstrap",
        remedy="Check the brokers and the rights of this client; a publisher re-creates missing topics.",
    )


def topic_bounds(client: KafkaClient, topics: Collection[str]) -> dict[str, dict[str, TopicBounds]]:
    """Topic → partition → its first offset and the next one, which lies before open transactions."""
    from headwater.streaming.spark_jobs.topic_bookmarks import TopicBounds

    admin = _admin(client)
    try:
        described = admin.list_topics(timeout=ANSWER_SECONDS).topics
        partitions = [TopicPartition(topic, number) for topic in topics for number in described[topic].partitions]
        first = _listed(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        last = _listed(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except KafkaException as error:
        raise _unavailable(client, error) from error
    except KeyError as error:
        raise missing_error(client, error.args[0]) from error
    found: dict[str, dict[str, TopicBounds]] = {topic: {} for topic in topics}
    for at in partitions:
        found[at.topic][str(at.partition)] = TopicBounds(first[at.topic, at.partition], last[at.topic, at.partition])
    return found


def _listed(admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    asked = admin.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
    )
    return {(at.topic, at.partition): future.result(ANSWER_SECONDS).offset for at, future in asked.items()}


def _topics(client: KafkaClient) -> set[str]:
    try:
        return set(_admin(client).list_topics(timeout=ANSWER_SECONDS).topics)
    except KafkaException as error:
        raise _unavailable(client, error) from error


def _admin(client: KafkaClient) -> AdminClient:
    return AdminClient({"bootstrap.servers": client.bootstrap, "log_level": 0, **client.librdkafka()})


def _unavailable(client: KafkaClient, error: KafkaException) -> KafkaUnavailable:
    return KafkaUnavailable(
        f"no broker answers at {client.bootstrap!r}: {error.args[0].str()}.",
        field="kafka_bootstrap",
        remedy="Start Kafka, or check host:port.",
    )
