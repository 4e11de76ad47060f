"""Prometheus gauges of rows and bytes by realm and type."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.service.usage.usage_records import UsageRecord, all_usage

READ_AGAIN_SECONDS = 30.0
REALMS_MAX = 500
"""More would make more series than anybody wants: the largest are shown."""

_log = logging.getLogger(__name__)


class UsageCollector(Collector):
    def __init__(self, store: Store, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now_seconds = now_seconds
        self._read_at: float | None = None
        self._shown: list[tuple[str, UsageRecord]] = []
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        """Nothing is read from the store while a server starts."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        names = ["realm", "table", "type"]
        rows = GaugeMetricFamily("headwater_storage_rows", "Rows that a realm takes in the store.", labels=names)
        size = GaugeMetricFamily("headwater_storage_bytes", "Bytes of payload that a realm takes, estimated.", labels=names)
        for instance, record in self._usage():
            realm = realm_name_of(instance)
            for one in record.types:
                rows.add_metric([realm, one.table, one.type], one.rows)
                size.add_metric([realm, one.table, one.type], one.bytes)
        yield rows
        yield size

    def _usage(self) -> list[tuple[str, UsageRecord]]:
        with self._lock:
            now = self._now_seconds()
            if self._read_at is None or now - self._read_at > READ_AGAIN_SECONDS:
                self._read_at = now
                try:
                    found = sorted(all_usage(self._store), key=lambda one: -sum(type.bytes for type in one[1].types))
                    self._shown = found[:REALMS_MAX]
                except HeadwaterError as error:  # the other numbers are still reported
                    _log.warning("usage cannot be read: %s", error.code)
            return self._shown
