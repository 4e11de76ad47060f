"""Metrics of the publisher that runs beside the feed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher


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
