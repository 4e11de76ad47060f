"""A publisher to Kafka from settings, for `headwater publish` and for the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.persistence.store import Store
    from headwater.producer.publisher.publisher import Publisher

_PASSED_ON = {
    "kafka_security_protocol": "security.protocol",
    "kafka_sasl_mechanism": "sasl.mechanism",
    "kafka_sasl_username": "sasl.username",
    "kafka_sasl_password": "sasl.password",
    "kafka_ssl_ca_location": "ssl.ca.location",
    "kafka_ssl_certificate_location": "ssl.certificate.location",
    "kafka_ssl_key_location": "ssl.key.location",
    "kafka_ssl_key_password": "ssl.key.password",
}
OURS = frozenset(
    {"transactional.id", "enable.idempotence", "acks", "isolation.level", "enable.auto.commit", "enable.partition.eof"}
)
"""What nobody may set otherwise: records would be lost or doubled."""


def publisher_options(settings: Settings, bootstrap: str | None = None) -> PublisherOptions:
    brokers = bootstrap or settings.kafka_bootstrap
    if not brokers:
        raise InvalidInput("no brokers are named.", field="kafka_bootstrap", remedy="Use --kafka HOST:PORT.")
    return PublisherOptions(
        bootstrap=brokers,
        client=client_settings(settings),
        partitions=settings.kafka_partitions,
        shards=settings.kafka_shards,
        replication_factor=settings.kafka_replication_factor,
        retention_ms=-1 if settings.kafka_retention_hours < 0 else settings.kafka_retention_hours * 3_600_000,
        batch_changes=settings.kafka_batch_changes,
        record_bytes_max=settings.kafka_record_bytes_max,
        dataref_base=settings.kafka_dataref_base,
        registry_url=settings.kafka_registry_url,
        lease_seconds=settings.kafka_lease_seconds,
        pin_max_age_seconds=settings.kafka_pin_hours * 3_600,
    )


def client_settings(settings: Settings) -> dict[str, str]:
    """What every Kafka client of ours is given, as librdkafka spells it."""
    given = {name: str(value) for field, name in _PASSED_ON.items() if (value := getattr(settings, field))}
    for part in filter(None, (part.strip() for part in settings.kafka_client.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or name.strip() in OURS:
            raise InvalidInput(
                f"{name!r} cannot be set.", field="kafka_client", remedy="Use name=value;name=value, without what we rely on."
            )
        given[name.strip()] = value.strip()
    return given


def start_publisher(store: Store, settings: Settings, bootstrap: str | None = None, *, realms: Sequence[str] = ()) -> Publisher:
    """In the background of this process, until its `close()`, which comes before the store's. `status()` tells how it goes."""
    from headwater.producer.publisher import factory

    return factory.start_publisher(store, publisher_options(settings, bootstrap), realms=realms)
