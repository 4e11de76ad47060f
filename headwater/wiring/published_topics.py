"""Asks the brokers whether the topics of published realms are there, before a reader waits for them in vain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.producer.publisher.assignment.generations import Generation
from headwater.schemas.errors import KafkaUnavailable, NotFound
from headwater.wiring.kafka_client import KafkaClient

ANSWER_SECONDS = 10.0


def missing_topics(client: KafkaClient, generations: Iterable[Generation]) -> dict[str, str]:
    """Realm instance → a topic of its Changes that these brokers do not have, or do not show this client."""
    wanted = {generation.realm: [topic.name for topic in generation.topics.of_changes] for generation in generations}
    if not wanted:
        return {}
    there = _topics(client)
    absent = {realm: [name for name in names if name not in there] for realm, names in wanted.items()}
    return {realm: names[0] for realm, names in absent.items() if names}


def require_topics(client: KafkaClient, generations: Sequence[Generation]) -> None:
    for topic in missing_topics(client, generations).values():
        raise missing_error(client, topic)


def missing_error(client: KafkaClient, topic: str) -> NotFound:
    return NotFound(
        f"{client.bootstrap} has no topic {topic!r}, or shows this client none, although the store says that it was published.",
        field="kafka_bootstrap",
        remedy="Check the brokers and the rights of this client; a publisher re-creates missing topics.",
    )


def _topics(client: KafkaClient) -> set[str]:
    admin = AdminClient({"bootstrap.servers": client.bootstrap, "log_level": 0, **client.librdkafka()})
    try:
        return set(admin.list_topics(timeout=ANSWER_SECONDS).topics)
    except KafkaException as error:
        raise KafkaUnavailable(
            f"no broker answers at {client.bootstrap!r}: {error.args[0].str()}.",
            field="kafka_bootstrap",
            remedy="Start Kafka, or check host:port.",
        ) from error
