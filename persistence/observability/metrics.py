"""Prometheus metrics of the engine. Counters that the engine keeps anyway are read at each scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.lane import LaneStats
from headwater.persistence.commit.observer import Answered, outcome_of
from headwater.persistence.objects.observed_reads import Found
from headwater.persistence.store import Store
from headwater.schemas.errors import CommitConflict
from headwater.schemas.extras import needs_extra

with needs_extra("collecting metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
ENTRIES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

COUNTED: dict[str, tuple[str, Callable[[LaneStats], int]]] = {
    "headwater_commits": ("Entries that landed in a log.", lambda stats: stats.commits),
    "headwater_batches": ("Batches committed, one CAS each.", lambda stats: stats.batches),
    "headwater_commit_retries": ("Attempts that were repeated.", lambda stats: stats.retries),
    "headwater_cas_sent": ("Compare-and-swaps sent to the store.", lambda stats: stats.cas_sent),
    "headwater_cas_resent": ("Compare-and-swaps sent again to resolve an unknown outcome.", lambda stats: stats.cas_resent),
    "headwater_cas_lost": ("Attempts that another process won.", lambda stats: stats.lost),
    "headwater_cas_unknown": ("Compare-and-swaps without an answer.", lambda stats: stats.unknown),
}
"""Metric → its help and where the engine keeps it; labelled by realm."""


class Metrics:
    """An observer of one or more stores; it registers itself with the given or the default registry."""

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, clock_seconds: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock_seconds = clock_seconds
        self._stores: list[Store] = []
        labels = ["realm", "kind"]
        self._requests = Counter("headwater_commit_requests", "Requests by outcome.", [*labels, "outcome"], registry=registry)
        self._conflicts = Counter("headwater_commit_conflicts", "Requests that the head refused.", labels, registry=registry)
        self._seconds = Histogram(
            "headwater_commit_seconds", "From request to answer.", labels, buckets=SECONDS_BUCKETS, registry=registry
        )
        self._entries = Histogram(
            "headwater_batch_entries", "Entries per CAS.", ["realm"], buckets=ENTRIES_BUCKETS, registry=registry
        )
        self._read_seconds = Histogram(
            "headwater_read_seconds", "Time of a read.", ["realm", "read"], buckets=SECONDS_BUCKETS, registry=registry
        )
        self._read_rows = Counter("headwater_read_rows", "Rows and entries read.", ["realm", "read"], registry=registry)
        self._read_failures = Counter("headwater_read_failures", "Reads that failed.", ["realm", "read"], registry=registry)
        registry.register(self)

    # ── events of an observer ───────────────────────────────────────────────────────────────────────────────

    def opened(self, store: Store) -> None:
        self._stores.append(store)

    def submitted(self, realm: str, pointer: str, request: CommitRequest) -> Answered:
        kind, started = str(request.kind), self._clock_seconds()

        def answered(future: Future[CommitOutcome]) -> None:
            self._seconds.labels(realm, kind).observe(self._clock_seconds() - started)
            self._requests.labels(realm, kind, outcome_of(future)).inc()
            if not future.cancelled() and isinstance(future.exception(), CommitConflict):
                self._conflicts.labels(realm, kind).inc()

        return answered

    def landed(self, realm: str, pointer: str, entries: int) -> None:
        self._entries.labels(realm).observe(entries)

    @contextmanager
    def reading(self, realm: str, read: str) -> Iterator[Found]:
        started = self._clock_seconds()
        try:
            yield self._read_rows.labels(realm, read).inc
        except Exception:
            self._read_failures.labels(realm, read).inc()
            raise
        finally:
            self._read_seconds.labels(realm, read).observe(self._clock_seconds() - started)

    # ── what Prometheus asks for ────────────────────────────────────────────────────────────────────────────

    def collect(self) -> Iterator[Metric]:
        kernels = [kernel for store in self._stores for kernel in store.kernels]
        for name, (meaning, read) in COUNTED.items():
            counts = ((kernel.realm_name, read(kernel.committer.stats)) for kernel in kernels)
            yield _by_realm(name, meaning, counts)
        caches = [store.cache for store in self._stores]
        yield _total("headwater_cache_hits", "Objects found in the cache.", sum(cache.hits for cache in caches))
        yield _total("headwater_cache_misses", "Objects that had to be read.", sum(cache.misses for cache in caches))
        used = GaugeMetricFamily("headwater_cache_bytes", "Bytes that cached objects take.")
        used.add_metric([], sum(cache.bytes_used for cache in caches))
        yield used


def _by_realm(name: str, meaning: str, counts: Iterable[tuple[str, int]]) -> CounterMetricFamily:
    family, sums = CounterMetricFamily(name, meaning, labels=["realm"]), dict[str, int]()
    for realm, count in counts:
        sums[realm] = sums.get(realm, 0) + count
    for realm, count in sums.items():
        family.add_metric([realm], count)
    return family


def _total(name: str, meaning: str, value: int) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning)
    family.add_metric([], value)
    return family
