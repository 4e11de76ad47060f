"""Settings and a store enter; what purged realms have outside of it leaves, ready to be removed."""

from __future__ import annotations

from headwater.persistence.store import Store
from headwater.producer.publisher.published_topics import PublishedTopics
from headwater.publishing import publisher_options
from headwater.settings import Settings
from headwater.streaming.realm_belongings import Belongings, RetainedSets


def realm_belongings(store: Store, settings: Settings, *, keep_topics: bool = False) -> list[Belongings]:
    """Topics first: they are what can be out of reach."""
    options = publisher_options(settings) if settings.kafka_bootstrap else None
    return [PublishedTopics(store, options, keep=keep_topics), RetainedSets(settings.maintenance_dir)]
