"""Counts calls by method and status, how long they took, and the streams that are open."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.service.observability.metrics import SECONDS_BOUNDS


class GrpcCounts(Collector):
    def __init__(self) -> None:
        self.streams = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, method: str, status: str, seconds: float) -> None:
        self._counts[method, status] = self._counts.get((method, status), 0) + 1
        buckets = self._buckets.setdefault(method, [0] * (len(SECONDS_BOUNDS) + 1))
        buckets[bisect.bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self._sums[method] = self._sums.get(method, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("headwater_grpc_requests", "gRPC calls.", labels=["method", "status"])
        for (method, status), count in list(self._counts.items()):
            requests.add_metric([method, status], count)
        yield requests
        taken = HistogramMetricFamily("headwater_grpc_request_seconds", "Time to answer a gRPC call.", labels=["method"])
        for method, buckets in list(self._buckets.items()):
            sums = [sum(buckets[: end + 1]) for end in range(len(buckets))]
            bounds = (*map(str, SECONDS_BOUNDS), "+Inf")
            taken.add_metric(
                [method], [(bound, float(total)) for bound, total in zip(bounds, sums, strict=True)], self._sums[method]
            )
        yield taken
        streams = GaugeMetricFamily("headwater_grpc_streams", "Open gRPC streams.")
        streams.add_metric([], self.streams)
        yield streams
