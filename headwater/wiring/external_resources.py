"""What purged realms have outside of the store, ready to be removed."""

from __future__ import annotations

from headwater.persistence.store import Store
from headwater.producer.publisher.topic_removal import PublishedTopics
from headwater.settings import Settings
from headwater.streaming.purge.external_resources import ExternalResources, RetainedSets
from headwater.wiring.publishing import publisher_options


def external_resources(store: Store, settings: Settings, *, keep_topics: bool = False) -> list[ExternalResources]:
    """Topics first: they are what may be unreachable."""
    options = publisher_options(settings) if settings.kafka_bootstrap else None
    return [PublishedTopics(store, options, keep=keep_topics), RetainedSets(settings.maintenance_dir)]
