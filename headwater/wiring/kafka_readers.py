"""What readers of Kafka are opened with: the same client configuration as the publisher, checked against the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.extras import needs_extra
from headwater.settings import Settings
from headwater.wiring.kafka_client import KafkaClient, kafka_client

if TYPE_CHECKING:
    from headwater.schemas.kafka_records import SchemaById


def checked_client(settings: Settings, bootstrap: str | None = None) -> KafkaClient:
    """`KafkaRefused` or `KafkaUnavailable` within seconds, before anything waits for brokers."""
    client = kafka_client(settings, bootstrap)
    with needs_extra("reading Kafka", "kafka"):
        from headwater.producer.publisher.kafka.broker_check import check_brokers
    check_brokers(client.bootstrap, client.librdkafka())
    return client


def kafka_source(
    settings: Settings,
    bootstrap: str | None,
    *,
    realm: str,
    instance: str = "",
    pointers: tuple[str, ...] = (),
    group: str | None = None,
    from_commit: str | None = None,
    access: bool = False,
) -> KafkaSource:
    client = checked_client(settings, bootstrap)
    return KafkaSource(
        bootstrap=client.bootstrap,
        realm=realm,
        instance=instance,
        pointers=pointers,
        group=group,
        from_commit=from_commit,
        access=access,
        client=client.aiokafka(),
    )


def registry_schemas(settings: Settings) -> SchemaById | None:
    """Writers' schemas by their registry ids, if a registry is set."""
    if not settings.kafka_registry_url:
        return None
    from headwater.producer.publisher.kafka.schema_registry import SchemaRegistry

    return SchemaRegistry(settings.kafka_registry_url).schema
