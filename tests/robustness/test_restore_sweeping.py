"""A backup is put back while a sweep deletes: what the restored log refers to stays, and the next sweep deletes garbage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater import Delete, IcebergTable, Put
from headwater.embedded import Headwater
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, StoreOptions
from headwater.schemas.errors import MaintenanceSuperseded, StoreRestored
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import Run, Runs
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions, SweepReport
from headwater.streaming.sweep.verify import verify_realm
from tests.support.faults.faulty_backend import FaultyBackend, first, unknown
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.publisher_runs import instance_of
from tests.support.fixtures.restorable_stores import RestorableStore, noticed_by_another_thread, restorable_store

DAY = 86_400
TABLES = [f"t{number}" for number in range(4)]


@pytest.fixture(params=["sqlite", "sqlite moved", "postgresql", "postgresql in place"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RestorableStore:
    return restorable_store(request, tmp_path)


class Kept:
    """A lake whose clock the test moves, with tables that a tag alone keeps."""

    def __init__(self, engine: Headwater, clock: ManualClock) -> None:
        self.clock = clock
        self.lake = engine.ensure_realm().ensure_catalog("lake")
        self.instance = instance_of(engine, "default")
        self.open(engine)
        main = self.lake.branch()
        main.commit([Put((name,), IcebergTable(f"s3://lake/{name}")) for name in TABLES])
        self.lake.create_tag("kept")
        main.commit([Delete((name,)) for name in TABLES])
        self.expire_alone()

    def open(self, engine: Headwater) -> None:
        self.engine = engine
        self.runs = Runs(engine.store.backend, self.clock)
        self.backend = FaultyBackend(engine.store.backend)

    def expire_alone(self) -> None:
        with self.runs.run("expire") as run:
            self.expire(run)

    def expire(self, run: Run) -> None:
        self.clock.move(DAY)
        expire_realms(self.engine.store, run, [self.instance], parse_retention("*=1n"))
        self.clock.move(DAY)

    def sweep(self, run: Run) -> SweepReport:
        known = Identifiers()
        source, executor = WalkedSource(self.engine.store.backend, known), LocalExecutor(self.backend, threads=1)
        return Sweep(self.engine.store, source, executor, known, SweepOptions(splits=1)).run(self.runs, run, [self.instance])


@pytest.fixture
def kept(store: RestorableStore) -> Iterator[Kept]:
    clock = ManualClock()
    with headwater.open(store.url, create=True, clock=clock) as engine:
        yield Kept(engine, clock)


@pytest.mark.parametrize("backed_up", ["before the run", "during the run"])
def test_a_sweep_that_meets_a_restore_deletes_nothing_that_is_needed_again(
    store: RestorableStore, kept: Kept, backed_up: str
) -> None:
    """The tag is dropped, so what it kept is garbage; the backup, in which it lives, is put back under the first deletion."""
    if backed_up == "before the run":
        store.back_up()
        kept.lake.tag("kept").delete()
        kept.expire_alone()
    fault = kept.backend.arm(unknown("delete_scanned", landed=False, then=store.restore))
    with pytest.raises((MaintenanceSuperseded, StoreRestored)), kept.runs.run("sweep") as run:
        if backed_up == "during the run":  # the backup holds this run's lease
            store.back_up()
            kept.lake.tag("kept").delete()
            kept.expire(run)
        kept.sweep(run)
    assert fault.fired == 1
    with headwater.open(store.url, clock=kept.clock) as fresh:
        assert {entry.key for entry in fresh.realm().catalog("lake").tag("kept").snapshot()} == {(name,) for name in TABLES}
        assert verify_realm(fresh.store.backend, kept.instance, kept.clock, Identifiers()).holds


def test_a_batch_allowed_before_a_restore_is_not_deleted_after_it(store: RestorableStore, kept: Kept) -> None:
    store.back_up()
    kept.lake.tag("kept").delete()
    kept.expire_alone()
    fault = kept.backend.arm(first("delete_scanned", noticed_by_another_thread(store, kept.backend.inner)))
    with pytest.raises((MaintenanceSuperseded, StoreRestored)), kept.runs.run("sweep") as run:
        kept.sweep(run)
    assert fault.fired == 1
    with headwater.open(store.url, clock=kept.clock) as fresh:
        assert {entry.key for entry in fresh.realm().catalog("lake").tag("kept").snapshot()} == {(name,) for name in TABLES}
        assert verify_realm(fresh.store.backend, kept.instance, kept.clock, Identifiers()).holds


def test_a_realm_purged_before_a_restore_is_not_deleted_after_it(store: RestorableStore, kept: Kept) -> None:
    guest = kept.engine.ensure_realm("guest").ensure_catalog("lake").branch()
    guest.commit([Put((name,), IcebergTable(f"s3://lake/{name}")) for name in TABLES])
    store.back_up()
    realms = Realms(Store(kept.backend, StoreOptions(), kept.clock))
    realms.deactivate("guest")
    realms.purge("guest")
    fault = kept.backend.arm(first("delete_realms", noticed_by_another_thread(store, kept.backend.inner)))
    with pytest.raises(StoreRestored):
        realms.finish_purge("guest")
    assert fault.fired == 1
    with headwater.open(store.url, clock=kept.clock) as fresh:
        assert {entry.key for entry in fresh.realm("guest").catalog("lake").branch().snapshot()} == {(name,) for name in TABLES}


def test_a_sweep_after_a_restore_deletes_what_is_garbage_in_the_restored_log(store: RestorableStore, kept: Kept) -> None:
    store.back_up()
    kept.lake.branch().commit([Put(("lost",), IcebergTable("s3://lake/lost"))])
    store.restore()
    with headwater.open(store.url, clock=kept.clock) as fresh:
        restored = fresh.realm().catalog("lake")
        restored.tag("kept").delete()
        kept.open(fresh)
        kept.expire_alone()
        with kept.runs.run("sweep") as run:
            report = kept.sweep(run)
        purged = sum(one.purged for by_type in report.counts.values() for one in by_type.values())
        assert purged > len(TABLES) and not report.failures
        assert verify_realm(fresh.store.backend, kept.instance, kept.clock, Identifiers()).holds
        assert list(restored.branch().snapshot()) == []
