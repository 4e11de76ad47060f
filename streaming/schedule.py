"""A cadence enters; floors rise, purges finish and garbage goes in the background, again and again, whatever fails in between.

Of several processes that schedule the same store one works at a time: the others find the lease taken and come back later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import msgspec

from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError, MaintenanceRunning
from headwater.streaming.executors import LocalExecutor
from headwater.streaming.expire import Expiry
from headwater.streaming.identifiers import Identifiers, installed_identifiers
from headwater.streaming.policies import DEFAULT_RETENTION, Retention, parse_retention
from headwater.streaming.purge import CATALOG_AGE_SECONDS, CatalogPurge, purge_realms, purge_unlisted
from headwater.streaming.realm_sets import instances_to_maintain, realm_sets, realms_to_purge
from headwater.streaming.retained_sources import WalkedSource
from headwater.streaming.runs import Runs
from headwater.streaming.sweep import Sweep, SweepOptions

EVERY_SECONDS = 6 * 3_600.0

_log = logging.getLogger(__name__)


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = EVERY_SECONDS
    retention: str = DEFAULT_RETENTION
    sweep: SweepOptions = SweepOptions()
    threads: int = 2
    catalog_age_seconds: int = CATALOG_AGE_SECONDS


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    expired: int
    realms_purged: int
    catalogs_purged: int
    rows_purged: int
    failures: list[str]
    busy: bool = False
    """Another process is at it; nothing was done."""


def run_cycle(store: Store, options: ScheduleOptions, identifiers: Identifiers | None = None) -> CycleReport:
    """Each operation is a run of its own. Whatever fails is told and left for the next cycle."""
    identifiers = identifiers or installed_identifiers()
    rules = parse_retention(options.retention)
    runs = Runs(store.backend, store.clock)
    try:
        expired, failures = _expire(store, runs, rules)
        realms, catalogs, more = _purge(store, runs, options)
        rows, most = _sweep(store, runs, options, identifiers)
    except MaintenanceRunning as running:
        return CycleReport(expired=0, realms_purged=0, catalogs_purged=0, rows_purged=0, failures=[str(running)], busy=True)
    return CycleReport(
        expired=expired,
        realms_purged=realms,
        catalogs_purged=catalogs,
        rows_purged=rows,
        failures=[*failures, *more, *most],
    )


def _expire(store: Store, runs: Runs, rules: Sequence[Retention]) -> tuple[int, list[str]]:
    with runs.run("expire") as run:
        reports = [Expiry(store.kernel(instance), rules).run() for instance in instances_to_maintain(store)]
        run.record.failures = [f"{it.pointer}: {it.failure}" for report in reports for it in report.failures]
    return sum(report.expired for report in reports), run.record.failures


def _purge(store: Store, runs: Runs, options: ScheduleOptions) -> tuple[int, int, list[str]]:
    with runs.run("purge-realms") as run:
        purged = purge_realms(store, realms_to_purge(store), before_each=run.check)
        purged += purge_unlisted(store, before_each=run.check)
        catalogs = 0
        for realm in realm_sets(store).retain:
            try:
                done = CatalogPurge(store.kernel(realm.instance), age_seconds=options.catalog_age_seconds).run()
                catalogs += sum(not it.waiting for it in done)
            except HeadwaterError as error:
                run.record.failures = [*run.record.failures, f"catalogs of {realm.name}: {error}"]
        run.record.failures = [*run.record.failures, *(f"{it.instance}: {it.failure}" for it in purged if it.failure)]
    return sum(not it.failure for it in purged), catalogs, run.record.failures


def _sweep(store: Store, runs: Runs, options: ScheduleOptions, identifiers: Identifiers) -> tuple[int, list[str]]:
    source = WalkedSource(store.backend, identifiers)
    sweep = Sweep(store, source, LocalExecutor(store.backend, options.threads), identifiers, options.sweep)
    with runs.run("sweep") as run:
        report = sweep.run(runs, run, instances_to_maintain(store))
    return run.record.totals().purged, report.failures


class Schedule:
    """A thread beside a server's work. Stopping waits for the operation that is under way."""

    def __init__(self, store: Store, options: ScheduleOptions) -> None:
        parse_retention(options.retention)  # a rule that is none is refused at once, not at night
        self._store = store
        self._options = options
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        self.last: CycleReport | None = None

    def start(self) -> Schedule:
        self._thread.start()
        return self

    def stop(self, timeout_seconds: float = 60.0) -> None:
        self._stopping.set()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._options.every_seconds):
            try:
                self.last = run_cycle(self._store, self._options)
            except HeadwaterError as error:
                _log.warning("maintenance failed and comes back: %s", error)
            else:
                for failure in self.last.failures:
                    _log.warning("maintenance left something for the next time: %s", failure)
