"""Metrics of what maintenance recorded in the store, the same from every worker and server.

Nothing is counted here: the sums are rows of the store, to which every run adds, also those of the command.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.realm_fence import RealmFence, list_realm_fences
from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.service.observability.read_again import ReadAgain
from headwater.streaming.runs.run_counts import FileCounts
from headwater.streaming.runs.run_totals import RunTotals, Totals
from headwater.streaming.runs.runs import LEASE_KEY

FILES_COUNTED = ("listed", "kept", "deleted", "missing", "failed", "refused")
BYTES_COUNTED = ("listed", "kept", "deleted", "refused")
COUNTED = ("scanned", "retained", "newer", "purged", "failed")


class _Read(msgspec.Struct, frozen=True):
    totals: Totals
    fences: list[RealmFence]
    is_running: bool


class MaintenanceCollector(Collector):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._read = ReadAgain(self._look)

    def describe(self) -> list[Metric]:
        """Nothing is read from the store while a server starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        found = self._read.newest()
        if found is None:
            return
        yield from _of_runs(found.totals)
        yield _rows(found.totals)
        yield from _files(found.totals)
        yield GaugeMetricFamily("headwater_maintenance_running", "1 while a run holds the lease.", value=found.is_running)
        yield from self._ages(found)

    def _look(self) -> _Read:
        backend, clock = self._store.backend, self._store.clock
        running = WorkLeases(backend, clock).look(LEASE_KEY).is_held
        return _Read(RunTotals(backend, clock).read(), list_realm_fences(backend), running)

    def _ages(self, found: _Read) -> Iterator[Metric]:
        now = self._store.clock.now_micros()
        fences = GaugeMetricFamily(
            "headwater_maintenance_fence_age_seconds", "Since a sweep has fenced the realm.", labels=["realm"]
        )
        floors = GaugeMetricFamily(
            "headwater_maintenance_floor_age_seconds", "How far back the realm's feed reaches.", labels=["realm"]
        )
        closed = {fence.realm for fence in found.fences if fence.is_closed}
        for fence in found.fences:
            if not fence.is_closed and fence.fence:
                fences.add_metric([realm_name_of(fence.realm)], max(0, now - fence.fence) / MICROS)
        for realm, since in found.totals.kept_since.items():
            if realm not in closed:
                floors.add_metric([realm_name_of(realm)], max(0, now - since) / MICROS)
        yield from (fences, floors)


def _of_runs(totals: Totals) -> Iterator[Metric]:
    runs = CounterMetricFamily("headwater_maintenance_runs", "Runs that ended.", labels=["operation", "status"])
    seconds = CounterMetricFamily("headwater_maintenance_seconds", "Time that runs took.", labels=["operation"])
    last = GaugeMetricFamily("headwater_maintenance_last_seconds", "Time that the last run took.", labels=["operation"])
    success = GaugeMetricFamily(
        "headwater_maintenance_last_success_timestamp_seconds",
        "When the last run ended that did all it had to, since 1970.",
        labels=["operation"],
    )
    for operation, sums in totals.operations.items():
        for status, count in sums.runs.items():
            runs.add_metric([operation, status.lower()], count)
        seconds.add_metric([operation], sums.seconds)
        last.add_metric([operation], sums.last_seconds)
        if sums.last_success_at:
            success.add_metric([operation], sums.last_success_at / MICROS)
    yield from (runs, seconds, last, success)


def _rows(totals: Totals) -> Metric:
    """Two instances of one name, one after the other, are one realm to who looks on."""
    sums: dict[tuple[str, str, str, str], int] = {}
    for operation, found in totals.operations.items():
        for realm, by_type in found.counts.items():
            for type_name, counts in by_type.items():
                for result in COUNTED:
                    key = (operation, realm_name_of(realm), type_name, result)
                    sums[key] = sums.get(key, 0) + getattr(counts, result)
    rows = CounterMetricFamily(
        "headwater_maintenance_rows",
        "Rows that runs have looked at, by what became of them.",
        labels=["operation", "realm", "type", "result"],
    )
    for labels, count in sums.items():
        rows.add_metric(list(labels), count)
    return rows


def _files(totals: Totals) -> Iterator[Metric]:
    """As `_rows`."""
    sums: dict[tuple[str, str], FileCounts] = {}
    for operation, found in totals.operations.items():
        for realm, counts in found.files.items():
            sums.setdefault((operation, realm_name_of(realm)), FileCounts()).add(counts)
    labels = ["operation", "realm", "result"]
    files = CounterMetricFamily(
        "headwater_maintenance_files", "Files of tables that runs have looked at, by what became of them.", labels=labels
    )
    sizes = CounterMetricFamily("headwater_maintenance_file_bytes", "Bytes of those whose size is known.", labels=labels)
    refusals = CounterMetricFamily(
        "headwater_maintenance_file_refusals",
        "Roots and dropped tables that were refused.",
        labels=["operation", "realm"],
    )
    for key, counts in sums.items():
        for result in FILES_COUNTED:
            files.add_metric([*key, result], getattr(counts, result))
        for result in BYTES_COUNTED:
            sizes.add_metric([*key, result], getattr(counts, f"{result}_bytes"))
        refusals.add_metric(list(key), counts.refusals)
    yield from (files, sizes, refusals)
