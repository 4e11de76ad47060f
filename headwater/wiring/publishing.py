"""A publisher to Kafka from settings, for `headwater publish` and for the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import InvalidInput
from headwater.schemas.value_format import ValueFormat
from headwater.settings import Settings
from headwater.wiring.kafka_client import kafka_client

if TYPE_CHECKING:
    from headwater.persistence.store import Store
    from headwater.producer.publisher.publisher import Publisher


def publisher_options(settings: Settings, bootstrap: str | None = None) -> PublisherOptions:
    client = kafka_client(settings, bootstrap)
    if settings.kafka_value_format == "json" and settings.kafka_registry_url:
        raise InvalidInput(
            "JSON values carry no schema id, so a registry has no use.",
            field="kafka_value_format",
            remedy="Use avro, or leave kafka_registry_url empty.",
        )
    return PublisherOptions(
        bootstrap=client.bootstrap,
        client=client.librdkafka(),
        partitions=settings.kafka_partitions,
        shards=settings.kafka_shards,
        access_topic=settings.kafka_access_topic,
        replication_factor=settings.kafka_replication_factor,
        retention_ms=-1 if settings.kafka_retention_hours < 0 else settings.kafka_retention_hours * 3_600_000,
        batch_changes=settings.kafka_batch_changes,
        record_bytes_max=settings.kafka_record_bytes_max,
        dataref_base=settings.kafka_dataref_base,
        registry_url=settings.kafka_registry_url,
        value_format=ValueFormat(settings.kafka_value_format),
        lease_seconds=settings.kafka_lease_seconds,
        pin_max_age_seconds=settings.kafka_pin_hours * 3_600,
    )


def start_publisher(store: Store, settings: Settings, bootstrap: str | None = None, *, realms: Sequence[str] = ()) -> Publisher:
    """Runs in the background of this process until its `close()`, which comes before the store's. `status()` shows its
    progress."""
    from headwater.producer.publisher import factory

    return factory.start_publisher(store, publisher_options(settings, bootstrap), realms=realms)
