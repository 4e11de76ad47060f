"""Removes the topics of a purged realm instance, and the publisher's rows about them.

A realm was published if the store knows a generation of it. Others are not asked for at the brokers, which may be away or not
there at all. ⚠ The generation's row goes last: a purge that was cut short finds it and continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.assignment.shard_leases import Leases
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.producer.publisher.kafka.topics import Topics


class PublishedTopics:
    """`options` name the brokers; with `keep` topics stay until their own retention ends."""

    def __init__(self, store: Store, options: PublisherOptions | None, *, keep: bool = False) -> None:
        self._store = store
        self._options = options
        self._keep = keep
        self._generations = Generations(store.backend, store.clock)

    def check(self, instances: Sequence[str]) -> None:
        """`InvalidInput` without brokers, `KafkaUnavailable` where they do not answer; only if one was published."""
        published = [instance for instance in instances if self._generations.read(instance) is not None]
        if published and not self._keep:
            self._topics(published[0]).find(dict.fromkeys(published, False))

    def remove(self, instance: str) -> None:
        if self._generations.read(instance) is None:
            return
        if not self._keep:
            self._topics(instance).delete(instance)
        Leases(self._store.backend, self._store.clock, 0.0).forget(f"{instance}/")
        Alarms(self._store.backend, self._store.clock).forget(f"{instance}/")
        self._generations.forget(instance)

    def _topics(self, instance: str) -> Topics:
        if self._options is None:
            raise InvalidInput(
                f"{instance} was published to Kafka, and no brokers are named to delete its topics there.",
                field="kafka_bootstrap",
                remedy="Set kafka_bootstrap to host:port, or leave the topics with --keep-topics.",
            )
        with needs_extra("deleting topics", "kafka"):
            from headwater.producer.publisher.kafka.kafka_clients import make_admin
            from headwater.producer.publisher.kafka.topics import Topics
        return Topics(make_admin(self._options), self._options)
