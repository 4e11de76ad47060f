"""Options of the publisher and its Kafka clients."""

from __future__ import annotations

import msgspec

from headwater.schemas.value_format import ValueFormat


class PublisherOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    client: dict[str, str] = {}
    """Passed to every Kafka client as it is: SASL, TLS and whatever else librdkafka knows."""

    # ── topics, when they are created ───────────────────────────────────────────────────────────────────────
    partitions: int = 4
    """Partitions of the commits topic."""
    shards: int = 4
    """Partitions of the progress topic: as many publishers can share a realm."""
    replication_factor: int = -1
    """-1 is what the brokers are set to."""
    retention_ms: int = 30 * 24 * 3_600 * 1_000
    topic_config: dict[str, str] = {}
    """Overrides of the commits topic's settings."""

    access_topic: bool = False
    """Whether realms that are published for the first time, or again, keep access records in a topic of their own."""

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────
    batch_changes: int = 5_000
    batch_bytes: int = 16 * 1024 * 1024
    record_bytes_max: int = 900_000
    """A Change over this is sent as a claim check."""
    dataref_base: str = ""
    """What claim checks begin with, e.g. https://catalog.example.com; relative to the server without it."""
    registry_url: str = ""
    value_format: ValueFormat = ValueFormat.AVRO

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────
    lease_seconds: float = 10.0
    poll_seconds: float = 0.04
    """How often the store is polled for moves of other processes."""
    topic_check_seconds: float = 2.0
    realm_check_seconds: float = 2.0
    kafka_timeout_seconds: float = 20.0
    """Of one call to Kafka; also how long a record may wait for its acknowledgement."""
    recovery_seconds: float = 30.0
    """How long the progress partition may stand still before its end is read: longer is a hung transaction."""
    readable_check_seconds: float = 30.0
    """How often an idle shard looks whether all that was committed can be read."""
    retry_seconds_max: float = 5.0
    alarm_retry_seconds: float = 30.0
    pin_max_age_seconds: float = 7 * 24 * 3_600.0
    """How long history is kept for Kafka when nothing can be published."""
    pin_write_seconds: float = 10.0
