"""Metrics of the publisher that runs beside the feed, and of what the store knows of all publishers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.alarms import Alarm, Alarms
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.assignment.shard_leases import Leases
from headwater.producer.publisher.publish_lag import ShardLag, published_in_store, shard_lags
from headwater.service.observability.read_again import ReadAgain

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher


LAG_SECONDS = 15.0
"""Between two readings of every pointer."""


class _Published(msgspec.Struct, frozen=True):
    publishers: int
    alarms: list[Alarm]
    lags: list[ShardLag]


class KafkaLagCollector(Collector):
    """How far Kafka is behind the store, from any server: also where no publisher lives."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read = ReadAgain(self._look, LAG_SECONDS)

    def describe(self) -> list[Metric]:
        """Nothing is read from the store while a server starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        found = self._read.newest()
        if found is None or not (found.lags or found.publishers):
            return
        yield GaugeMetricFamily("headwater_kafka_publishers", "Publishers that live.", value=found.publishers)
        alarms = GaugeMetricFamily("headwater_kafka_alarms", "Shards that stopped with an alarm.", labels=["realm", "alarm"])
        commits = GaugeMetricFamily("headwater_kafka_lag_commits", "Entries that are not in Kafka.", labels=["realm"])
        seconds = GaugeMetricFamily("headwater_kafka_lag_seconds", "Age of the oldest of them.", labels=["realm"])
        for realm in dict.fromkeys(realm_name_of(lag.realm) for lag in found.lags):
            shards = [lag for lag in found.lags if realm_name_of(lag.realm) == realm]
            commits.add_metric([realm], sum(lag.commits for lag in shards))
            seconds.add_metric([realm], max(lag.seconds for lag in shards))
        for realm, code in sorted({(realm_name_of(alarm.realm), alarm.code) for alarm in found.alarms}):
            count = sum((realm_name_of(alarm.realm), alarm.code) == (realm, code) for alarm in found.alarms)
            alarms.add_metric([realm, code], count)
        yield from (alarms, commits, seconds)

    def _look(self) -> _Published:
        store = self._store
        backend, clock = store.backend, store.clock
        lags = [
            lag
            for generation in Generations(backend, clock).list()
            for lag in shard_lags(store, generation, published_in_store(store, generation))
        ]
        return _Published(len(Leases(backend, clock, 0.0).members()), Alarms(backend, clock).list(), lags)


class PublisherCollector(Collector):
    """Shards of this worker, by state, and how far they are behind."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def collect(self) -> Iterator[Metric]:
        shards = self._publisher.status()
        states = GaugeMetricFamily(
            "headwater_publisher_shards", "Shards that this worker publishes, by state.", labels=["state"]
        )
        for state in sorted({str(shard.state) for shard in shards}):
            states.add_metric([state], sum(str(shard.state) == state for shard in shards))
        yield states
        lag_commits = sum(shard.lag_commits for shard in shards)
        lag_seconds = max((shard.lag_seconds for shard in shards), default=0.0)
        yield GaugeMetricFamily("headwater_publisher_lag_commits", "Entries that are not in Kafka yet.", value=lag_commits)
        yield GaugeMetricFamily("headwater_publisher_lag_seconds", "Since nothing was missing in Kafka.", value=lag_seconds)
        published = sum(shard.changes for shard in shards)
        yield CounterMetricFamily("headwater_publisher_changes", "Changes that this worker has published.", value=published)
        failures = sum(shard.failures for shard in shards)
        yield CounterMetricFamily("headwater_publisher_failures", "Times a shard had to begin again.", value=failures)
