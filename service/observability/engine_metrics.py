"""Metrics of what the engine counts anyway, read at each scrape. Commits pay nothing for it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.persistence.commit.draft import Draft
from headwater.persistence.observability.metrics import COUNTED, ENTRIES_BUCKETS
from headwater.persistence.store import Store


class CommitCounts:
    """Notified of commits by the committer."""

    def __init__(self) -> None:
        self.conflicts: dict[str, int] = {}
        self.batches = [0] * (len(ENTRIES_BUCKETS) + 1)
        self.entries = 0

    def conflict(self, realm: str) -> None:
        self.conflicts[realm] = self.conflicts.get(realm, 0) + 1

    def landed(self, pointer: str, draft: Draft) -> None:
        """One batch that landed by one CAS."""
        self.batches[bisect.bisect_left(ENTRIES_BUCKETS, len(draft.entries))] += 1
        self.entries += len(draft.entries)


class EngineCollector(Collector):
    def __init__(self, store: Store, counts: CommitCounts) -> None:
        self._store = store
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        for name, (meaning, read) in COUNTED.items():
            sums: dict[str, int] = {}
            for kernel in self._store.kernels:
                sums[kernel.realm_name] = sums.get(kernel.realm_name, 0) + read(kernel.committer.stats)
            yield _by_realm(name, meaning, sums)
        yield _by_realm("headwater_commit_conflicts", "Requests that the head refused.", dict(self._counts.conflicts))
        yield self._batch_sizes()
        cache = self._store.cache
        yield CounterMetricFamily("headwater_cache_hits", "Objects found in the cache.", value=cache.hits)
        yield CounterMetricFamily("headwater_cache_misses", "Objects that had to be read.", value=cache.misses)
        yield GaugeMetricFamily("headwater_cache_bytes", "Bytes that cached objects take.", value=cache.bytes_used)

    def _batch_sizes(self) -> Metric:
        buckets, total = [], 0
        for bound, count in zip((*map(str, ENTRIES_BUCKETS), "+Inf"), self._counts.batches, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return HistogramMetricFamily(
            "headwater_batch_entries", "Entries per CAS.", buckets=buckets, sum_value=self._counts.entries
        )


def _by_realm(name: str, meaning: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["realm"])
    for realm, count in counts.items():
        family.add_metric([realm], count)
    return family
