"""The maintenance part of the demo: a quarter's history is streamed, expired and swept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.consumers.audit.store_history import StoreHistory
from headwater.demo import maintenance_checks
from headwater.demo.backdated_history import DAYS, BackdatedHistory, write_backdated_history
from headwater.demo.checks import Check
from headwater.demo.spark_startup import SparkStartup
from headwater.persistence.rows import ScannedRow, Table
from headwater.persistence.store import Store, open_store
from headwater.settings import Settings
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Identifiers, installed_identifiers
from headwater.streaming.retained.retained_sources import Retained, RetainedSource, WalkedSource
from headwater.streaming.runs.runs import Runs
from headwater.streaming.schedule import SweepBackend
from headwater.streaming.sweep.sweep import Sweep, SweepOptions
from headwater.streaming.sweep.verify import verify_realm
from headwater.wiring.sweeps import SweepPlan, spark_sweep_backend, sweep_backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETAINED_FOLDER = "retained"
KEPT_DAYS = 30
THREADS = 2

Say = Callable[[str], None]
States = dict[tuple[str, int], object]


class MaintenanceResult(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    days: int
    kept_days: int
    changes: int
    expired: int
    """Entries that left the feed."""
    streamed: int
    """Changes that went through Spark; 0 if Spark was left out."""
    without_spark: str
    """Why Spark was left out, in one sentence; empty if it was there."""
    before: dict[str, int]
    """Rows by object type."""
    after: dict[str, int]
    purged: int
    seconds: float
    checks: list[Check]


def run_maintenance(folder: Path, say: Say, *, days: int = DAYS, use_spark: bool = True) -> MaintenanceResult:
    started = time.monotonic()
    spark = SparkStartup(folder, wanted=use_spark)
    try:
        say(f"the history of {days} days is written by a clock that was set back, with all the garbage of such a time")
        past = write_backdated_history(folder, days=days, at_first=_seeding(folder))
        return _Maintenance(past, folder, spark, say).run(started)
    finally:
        spark.stop()


def _seeding(folder: Path) -> Callable[[Store, str], None]:
    """The retained set is created with the realm, so that all of its history arrives through the stream."""

    def begin(store: Store, realm: str) -> None:
        try:
            from headwater.streaming.retained.retained_seed import seed
            from headwater.streaming.retained.retained_store import RetainedStore
        except ImportError:  # without Spark there is no stream either
            return
        seed(store.backend, RetainedStore(str(folder / RETAINED_FOLDER), realm))

    return begin


class _Maintenance:
    def __init__(self, past: BackdatedHistory, folder: Path, spark: SparkStartup, say: Say) -> None:
        self._past = past
        self._folder = folder
        self._spark = spark
        self._say = say
        self._identifiers: Identifiers = installed_identifiers()
        self._checks: list[Check] = []

    def run(self, started: float) -> MaintenanceResult:
        past = self._past
        with open_store(past.url) as store:
            before = _rows_by_type(store, past.instance)
            session = self._spark.session()
            streamed = 0 if session is None else self._stream(store, session)
            if session is None:
                self._say(f"Spark is left out, and what must stay is found by walking. {self._spark.why_not}")
            expired = self._expire(store)
            states = _kept_states(past)
            purged = self._sweep(store, self._backend(store, session))
        after = self._look_again(states, before, purged)
        return MaintenanceResult(
            store=past.url,
            days=past.days,
            kept_days=KEPT_DAYS,
            changes=past.changes,
            expired=expired,
            streamed=streamed,
            without_spark="" if session else self._spark.why_not,
            before=before,
            after=after,
            purged=purged,
            seconds=round(time.monotonic() - started, 1),
            checks=self._checks,
        )

    def _stream(self, store: Store, session: SparkSession) -> int:
        from headwater.streaming.retained.retained_store import RetainedStore
        from headwater.streaming.spark_jobs.retained_job import RetainedJob

        self._say('spark.readStream.format("headwater"): which objects each change added and released')
        changes = 0

        def count(progress: dict[str, Any]) -> None:
            nonlocal changes
            changes += int(progress["numInputRows"])

        retained = RetainedStore(str(self._folder / RETAINED_FOLDER), self._past.instance)
        RetainedJob(session, store, self._past.url, retained).run(report=count)
        return changes

    def _backend(self, store: Store, session: SparkSession | None) -> SweepBackend:
        settings = Settings(store=self._past.url, maintenance_dir=str(self._folder / RETAINED_FOLDER))
        plan = SweepPlan(by_stream=session is not None, threads=THREADS)
        if session is None:
            return sweep_backend(settings, plan, store, self._identifiers)
        backend = spark_sweep_backend(settings, plan, store, session)
        walked = WalkedSource(store.backend, self._identifiers)
        return backend._replace(source=_Compared(backend.source, walked, self._checks))

    def _expire(self, store: Store) -> int:
        self._say(f"expire: what is older than {KEPT_DAYS} days leaves the feed")
        with Runs(store.backend, store.clock).run("expire"):
            return Expiry(store.kernel(self._past.instance), parse_retention(f"*={KEPT_DAYS}d")).run().expired

    def _sweep(self, store: Store, backend: SweepBackend) -> int:
        self._say("sweep: what no kept state reaches is deleted")
        runs = Runs(store.backend, store.clock)
        sweep = Sweep(store, backend.source, backend.executor, self._identifiers, SweepOptions(), on_swept=backend.on_swept)
        with runs.run("sweep") as run:
            sweep.run(runs, run, [self._past.instance])
        return run.record.totals().purged

    def _look_again(self, states: States, before: dict[str, int], purged: int) -> dict[str, int]:
        """Opens the store again, so that it is read from disk."""
        past = self._past
        with open_store(past.url) as store:
            after = _rows_by_type(store, past.instance)
            there = {row.id for row in _scanned(store, past.instance)}
            found = verify_realm(store.backend, past.instance, store.clock, self._identifiers)
        self._checks += [
            maintenance_checks.kept_states_are_whole(states, _kept_states(past)),
            maintenance_checks.garbage_is_gone(found.unreached, found.missing_count, past.abandoned, there),
            maintenance_checks.counters_are_true(purged, before, after),
        ]
        return after


class _Compared:
    """The set that the sweep uses, after it was compared with a walk from the same heads."""

    def __init__(self, streamed: RetainedSource, walked: RetainedSource, checks: list[Check]) -> None:
        self._streamed = streamed
        self._walked = walked
        self._checks = checks

    def retained(self, fenced: FencedRealm) -> Retained:
        found = self._streamed.retained(fenced)
        by_stream, by_walk = found.ids.local(), self._walked.retained(fenced).ids.local()
        self._checks.append(maintenance_checks.stream_is_the_walk(len(by_walk), len(by_stream), by_walk == by_stream))
        return found


def _rows_by_type(store: Store, realm: str) -> dict[str, int]:
    return dict(sorted(Counter(row.type for row in _scanned(store, realm)).items()))


def _scanned(store: Store, realm: str) -> list[ScannedRow]:
    return [row for split in store.backend.splits(Table.OBJECTS, 1) for row in store.backend.scan(split, realm=realm)]


def _kept_states(past: BackdatedHistory) -> States:
    with open_store(past.url) as store:
        history = StoreHistory(store.kernel(past.instance))
        found: States = {}
        for pointer in history.pointers():
            oldest, newest = history.range(pointer)
            for seq in range(oldest, newest + 1):
                found[pointer, seq] = history.stored_state(pointer, seq)
    return found
