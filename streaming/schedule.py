"""The maintenance cycle in the background: expire, purge, sweep, and the tables' files, whatever fails in between.

Of several processes that maintain the same store one has the turn of each step (`schedule_turns`), `headwater stream` among
them, and one works at a time (`runs`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import msgspec

from headwater.persistence.realms.realm_purge import DeleteByScan, delete_by_scan
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError, MaintenanceRunning, MaintenanceStopped, MaintenanceSuperseded
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import DEFAULT_RETENTION, parse_retention
from headwater.streaming.files.upkeep import FileUpkeep, upkeep_files
from headwater.streaming.purge.catalog_purge import CATALOG_AGE_SECONDS
from headwater.streaming.purge.external_resources import ExternalResources
from headwater.streaming.purge.purge import purge_all
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Identifiers, installed_identifiers
from headwater.streaming.retained.retained_sources import RetainedSource, WalkedSource
from headwater.streaming.runs.realm_sets import instances_to_maintain, purged_by_sweeps
from headwater.streaming.runs.runs import Run, Runs
from headwater.streaming.runs.schedule_turns import ScheduleTurns
from headwater.streaming.sweep.executors import LocalExecutor, SweepExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions

EVERY_SECONDS = 6 * 3_600.0
FILES_SECONDS = 24 * 3_600.0
"""A file is deleted by the second run that finds it unused, a day later: running more often gains nothing."""
COME_BACK_SECONDS = 300.0
"""The delay after a turn that could not be used: another run was at work, or the store was unavailable."""
LOOK_SECONDS_MAX = 60.0

_log = logging.getLogger(__name__)


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = EVERY_SECONDS
    files_seconds: float = FILES_SECONDS
    retention: str = DEFAULT_RETENTION
    sweep: SweepOptions = SweepOptions()
    catalog_age_seconds: int = CATALOG_AGE_SECONDS


class SweepBackend(NamedTuple):
    """What a sweep works with."""

    source: RetainedSource
    executor: SweepExecutor
    on_swept: Callable[[FencedRealm], None] = lambda _: None
    close: Callable[[], None] = lambda: None
    """Called when the sweep has ended, so that nothing large stays in memory until the next cycle."""


def local_sweep_backend(store: Store, identifiers: Identifiers) -> SweepBackend:
    """One thread of this process, so that maintenance does not take over a machine that also serves."""
    return SweepBackend(WalkedSource(store.backend, identifiers), LocalExecutor(store.backend, 1))


class CycleTools(NamedTuple):
    """What a cycle works with besides the store."""

    identifiers: Identifiers | None = None
    """All that are installed, if left out."""
    external_resources: Sequence[ExternalResources] = ()
    sweep_backend: Callable[[Store, Identifiers], SweepBackend] = local_sweep_backend
    purge_scan: Callable[[Run], AbstractContextManager[DeleteByScan]] = lambda _: nullcontext(delete_by_scan)
    """Deletes realms where the database does not do so by itself."""
    files: FileUpkeep | None = None
    """None leaves the tables' files alone."""
    is_stopping: Callable[[], bool] = lambda: False


class CycleReport(msgspec.Struct, kw_only=True):
    expired: int = 0
    realms_purged: int = 0
    catalogs_purged: int = 0
    rows_purged: int = 0
    files_purged: int = 0
    failures: list[str] = []
    busy: bool = False
    """Another process is running it; the rest is left for a later turn."""


FILES = "files"
STEPS = ("expire", "purge", "sweep", FILES)
"""The steps of a cycle, in order."""


class StepTurns:
    """The turn of each step, by the keys that `headwater stream` uses too: the two never do the same work twice."""

    def __init__(self, store: Store, options: ScheduleOptions) -> None:
        seconds = dict.fromkeys(STEPS, options.every_seconds) | {FILES: max(options.files_seconds, options.every_seconds)}
        self._turns = {step: ScheduleTurns(store.backend, store.clock, seconds[step], key=step) for step in STEPS}

    def take(self) -> tuple[list[str], float]:
        """The steps whose turn is ours now; if there are none, the number of seconds to wait."""
        waits = {step: turns.take() for step, turns in self._turns.items()}
        due = [step for step, seconds in waits.items() if seconds == 0]
        return due, 0.0 if due else min(waits.values())

    def come_back(self, steps: Sequence[str], seconds: float) -> None:
        for step in steps:
            self._turns[step].come_back(seconds)


def run_cycle(
    store: Store, options: ScheduleOptions, tools: CycleTools | None = None, *, steps: Sequence[str] = STEPS
) -> CycleReport:
    """Each operation is a run of its own. If one fails, the failure is reported, the operation waits for the next cycle, and
    the others continue."""
    cycle = _Cycle(store, options, tools or CycleTools())
    known = {"expire": cycle.expire, "purge": cycle.purge, "sweep": cycle.sweep, FILES: cycle.files}
    try:
        for step in steps:
            try:
                known[step]()
            except (MaintenanceRunning, MaintenanceStopped, MaintenanceSuperseded):
                raise
            except HeadwaterError as error:
                cycle.report.failures.append(str(error))
    except (MaintenanceRunning, MaintenanceSuperseded) as running:
        cycle.report.failures.append(str(running))
        cycle.report.busy = True
    return cycle.report


class _Cycle:
    def __init__(self, store: Store, options: ScheduleOptions, tools: CycleTools) -> None:
        self._store = store
        self._options = options
        self._tools = tools
        self._runs = Runs(store.backend, store.clock, is_stopping=tools.is_stopping)
        self.report = CycleReport(failures=[])

    def expire(self) -> None:
        rules = parse_retention(self._options.retention)
        with self._runs.run("expire") as run:
            reports = expire_realms(self._store, run, instances_to_maintain(self._store), rules)
            self.report.expired = sum(report.expired for report in reports)
            self.report.failures += run.record.failures

    def purge(self) -> None:
        with self._runs.run("purge-realms") as run, self._tools.purge_scan(run) as scan:
            done = purge_all(
                self._store,
                run,
                belongings=self._tools.external_resources,
                catalog_age_seconds=self._options.catalog_age_seconds,
                scan=scan,
            )
            self.report.realms_purged = sum(not it.failure for it in done.realms)
            self.report.catalogs_purged = sum(not it.waiting for it in done.catalogs)
            self.report.failures += run.record.failures

    def sweep(self) -> None:
        identifiers = self._tools.identifiers or installed_identifiers()
        means = self._tools.sweep_backend(self._store, identifiers)
        sweep = Sweep(self._store, means.source, means.executor, identifiers, self._options.sweep, on_swept=means.on_swept)
        try:
            with self._runs.run("sweep") as run:
                report = sweep.run(self._runs, run, instances_to_maintain(self._store), purged_by_sweeps(self._store))
                self.report.rows_purged = run.record.totals().purged
                self.report.failures += report.failures
        finally:
            means.close()

    def files(self) -> None:
        """Holds a lease of its own, so that hours of deletion do not keep history from expiring."""
        if self._tools.files is None:
            return
        done = upkeep_files(self._store, self._tools.files, self._tools.is_stopping)
        self.report.files_purged = done.purged
        self.report.failures += done.failures


class Schedule:
    """A thread. Stopping ends the operation that is under way before its next batch."""

    def __init__(self, store: Store, options: ScheduleOptions, tools: CycleTools | None = None) -> None:
        parse_retention(options.retention)  # an invalid rule is refused at once, not at night
        self._store = store
        self._options = options
        self._stopping = threading.Event()
        self._tools = (tools or CycleTools())._replace(is_stopping=self._stopping.is_set)
        self._turns = StepTurns(store, options)
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        self.last: CycleReport | None = None

    def start(self) -> Schedule:
        self._thread.start()
        return self

    def stop(self, timeout_seconds: float = 60.0) -> bool:
        """Whether the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self._turn())

    def _turn(self) -> float:
        """Seconds until the next look."""
        steps: Sequence[str] = STEPS
        try:
            steps, wait_seconds = self._turns.take()
            if not steps:
                return min(wait_seconds, LOOK_SECONDS_MAX)
            self.last = run_cycle(self._store, self._options, self._tools, steps=steps)
            for failure in self.last.failures:
                _log.warning("maintenance left something for the next time: %s", failure)
            if self.last.busy:
                self._come_back(steps)
        except MaintenanceStopped as stopped:
            _log.info("%s", stopped)
        except HeadwaterError as error:
            _log.warning("maintenance failed and comes back: %s", error)
            return self._come_back(steps)
        return 0.0

    def _come_back(self, steps: Sequence[str]) -> float:
        seconds = min(COME_BACK_SECONDS, self._options.every_seconds)
        try:
            self._turns.come_back(steps, seconds)
        except HeadwaterError as error:
            _log.debug("the turn could not be given back: %s", error)
        return min(seconds, LOOK_SECONDS_MAX)
