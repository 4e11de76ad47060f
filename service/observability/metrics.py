"""The metrics of all workers together, in Prometheus' text format.

A scrape reaches one worker of several. Each worker writes its numbers to a file in a folder they share, and the scraped one
adds them up: counters never run backwards from one scrape to the next, and those of a worker that died stay.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
GAUGES_OUTLIVE_SECONDS = 15.0
"""Gauges of a worker whose file is older than this are left out."""
SUMMED_GAUGES = frozenset({"headwater_streams", "headwater_entry_cache_bytes", "headwater_cache_bytes"})
"""Added up over workers; of other gauges the largest counts."""
STORED = "headwater_maintenance_"
"""What begins so is read from the store by every worker: the newest counts, not the sum."""


class RequestCounts(Collector):
    """Requests by route, method and status, and how long they took. Counting must cost next to nothing: polls are many."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        buckets = self._seconds.get(route)
        if buckets is None:
            buckets = self._seconds[route] = [0] * (len(SECONDS_BOUNDS) + 1)
            self._sums[route] = 0.0
        buckets[bisect.bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self._sums[route] += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("headwater_http_requests", "HTTP requests.", labels=["route", "method", "status"])
        for (route, method, status), count in list(self._counts.items()):
            requests.add_metric([route, method, str(status)], count)
        yield requests
        taken = HistogramMetricFamily("headwater_http_request_seconds", "Time to answer a request.", labels=["route"])
        for route, buckets in list(self._seconds.items()):
            total, summed = 0, []
            for bound, count in zip((*map(str, SECONDS_BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                summed.append((bound, float(total)))
            taken.add_metric([route], summed, self._sums[route])
        yield taken


class WrittenSample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: dict[str, str]
    value: float


class WrittenMetric(msgspec.Struct, frozen=True, array_like=True):
    name: str
    help: str
    type: str
    samples: list[WrittenSample]


class WrittenMetrics(msgspec.Struct, frozen=True, array_like=True):
    """What one worker's file holds."""

    written_at: float
    metrics: list[WrittenMetric]


class WorkerMetrics:
    """The registry of this worker, and the folder where the numbers of the others are."""

    def __init__(self, folder: Path | None = None) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestCounts()
        self.registry.register(self.requests)
        self._folder = folder
        self._file = None if folder is None else folder / f"{os.getpid()}.msgpack"

    def write(self) -> None:
        """Where the other workers find it; whole or not at all."""
        if self._file is None:
            return
        unfinished = self._file.with_suffix(".new")
        with contextlib.suppress(OSError):  # a lost file of counts must not end a worker
            unfinished.write_bytes(msgspec.msgpack.encode(self._own()))
            unfinished.replace(self._file)

    def text(self) -> bytes:
        merged = CollectorRegistry()
        merged.register(_Merged([self._own(), *self._others()]))
        return generate_latest(merged)

    def _own(self) -> WrittenMetrics:
        metrics = [
            WrittenMetric(
                metric.name,
                metric.documentation,
                metric.type,
                [
                    WrittenSample(sample.name, dict(sample.labels), float(sample.value))
                    for sample in metric.samples
                    if not sample.name.endswith("_created")
                ],
            )
            for metric in self.registry.collect()
        ]
        return WrittenMetrics(time.time(), metrics)

    def _others(self) -> Iterator[WrittenMetrics]:
        for file in self._folder.glob("*.msgpack") if self._folder is not None else ():
            if file != self._file:
                with contextlib.suppress(OSError, msgspec.DecodeError):
                    yield msgspec.msgpack.decode(file.read_bytes(), type=WrittenMetrics)


class _Merged(Collector):
    def __init__(self, workers: Iterable[WrittenMetrics]) -> None:
        self._workers = list(workers)

    def collect(self) -> Iterator[Metric]:
        now = time.time()
        families: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for worker in self._workers:
            for metric in worker.metrics:
                if metric.type == "gauge" and now - worker.written_at > GAUGES_OUTLIVE_SECONDS:
                    continue
                families.setdefault(metric.name, Metric(metric.name, metric.help, metric.type))
                found = values.setdefault(metric.name, {})
                for sample in metric.samples:
                    key = (sample.name, tuple(sample.labels.items()))
                    found[key] = _merge(metric, found.get(key), sample.value)
        for name, family in families.items():
            for (sample_name, labels), value in values[name].items():
                family.add_sample(sample_name, dict(labels), value)
            yield family


def _merge(metric: WrittenMetric, known: float | None, value: float) -> float:
    if known is None:
        return value
    is_one_number = metric.name.startswith(STORED) or (metric.type == "gauge" and metric.name not in SUMMED_GAUGES)
    return max(known, value) if is_one_number else known + value
