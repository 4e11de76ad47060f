"""A maintenance run loses its lease between two of its own writes: the next write does not happen, whatever it would change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination.work_leases import LeaseClaim
from headwater.persistence.rows import Table
from headwater.persistence.store import Store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import MaintenanceSuperseded
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.purge.catalog_purge import CatalogPurge
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_filter import ExactFilter
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import LEASE_KEY, Run, Runs
from headwater.streaming.sweep import sweep_task
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions
from headwater.streaming.sweep.sweep_task import RealmToSweep, SplitResult, SplitSweep, SweepPlan
from headwater.streaming.transfer.export_pin import export_pin
from tests.support.faults.faulty_backend import FaultyBackend, first, unavailable
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import META, Lake
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained
from tests.support.models.commit_harness import store_on

DAY = 86_400


@pytest.fixture
def realm() -> Maintained:
    inner = MemoryBackend(MemoryStore())
    inner.create_schema()
    return Maintained(FaultyBackend(inner))


def faulty(realm: Maintained) -> FaultyBackend:
    assert isinstance(realm.backend, FaultyBackend)
    return realm.backend


def other_process(realm: Maintained) -> Store:
    return store_on(faulty(realm).inner, clock=realm.clock)


def floors(realm: Maintained) -> dict[str, int]:
    return {name: row.floor for name, row in faulty(realm).inner.all_pointers(realm.realm)}


# ── expiry ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("raised_before", [0, 1, 2])
def test_a_floor_that_was_about_to_rise_when_an_export_took_over_stays(realm: Maintained, raised_before: int) -> None:
    """The export pins everything after the expiry asked for its lease and before its CAS."""
    for number in range(24):
        realm.write(("cat/1/heads/a", "cat/1/heads/b", "cat/1/heads/c", "principals")[number % 4])
    runs = Runs(realm.backend, realm.clock)
    pinned: list[dict[str, int]] = []

    def exported() -> None:
        with export_pin(other_process(realm), realm.realm, supersede=run.record.id):
            pinned.append(floors(realm))

    fault = faulty(realm).arm(first("cas_pointer", exported, skip=raised_before))
    with pytest.raises(MaintenanceSuperseded), runs.run("expire") as run:
        expire_realms(realm.store, run, [realm.realm], parse_retention("*=1n"))
    assert fault.fired == 1 and floors(realm) == pinned[0]
    assert sum(floor > 1 for floor in pinned[0].values()) == raised_before


def test_a_reader_that_lost_its_right_moves_no_pin(realm: Maintained) -> None:
    readers = RegisteredReaders(realm.backend, realm.realm, realm.clock)
    readers.save("archive", {MAIN: 3})
    lost: list[bool] = []

    def may_write() -> None:
        if lost:
            raise MaintenanceSuperseded("taken over.")

    def taken_over() -> None:
        lost.append(True)
        readers.save("archive", {})  # the successor began with an empty archive

    fault = faulty(realm).arm(first("update_mutable", taken_over))
    with pytest.raises(MaintenanceSuperseded):
        readers.save("archive", {MAIN: 9}, may_write=may_write)
    assert fault.fired == 1 and readers.list()[0].positions == {}


# ── sweep ───────────────────────────────────────────────────────────────────────────────────────────────────


def garbage(realm: Maintained, count: int) -> set[int]:
    orphans = {realm.orphan() for _ in range(count)}
    realm.clock.move(4 * HOUR)
    return orphans


def superseded_by_name(realm: Maintained, run: Run) -> Callable[[], None]:
    def supersede() -> None:
        store = other_process(realm)
        with Runs(store.backend, store.clock).run("export", supersede=run.record.id):
            pass

    return supersede


def test_a_sweep_that_is_superseded_between_two_batches_deletes_no_more(
    realm: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_task, "DELETE_BATCH_ROWS", 2)
    realm.write()
    orphans = garbage(realm, 9)
    known = Identifiers()
    sweep = Sweep(
        realm.store, WalkedSource(realm.backend, known), LocalExecutor(realm.backend, 1), known, SweepOptions(splits=1)
    )
    runs = Runs(realm.backend, realm.clock)
    with pytest.raises(MaintenanceSuperseded), runs.run("sweep") as run:
        fault = faulty(realm).arm(first("delete_scanned", superseded_by_name(realm, run), skip=1))
        sweep.run(runs, run, [realm.realm])
    assert fault.fired == 1
    assert len(orphans & realm.ids()) == 9 - 4, "one batch before the fault, and the one that was under way"
    realm.check_states()


def test_a_worker_that_has_only_the_plan_checks_the_store_before_each_batch(
    realm: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_task, "DELETE_BATCH_ROWS", 2)
    orphans = garbage(realm, 9)
    known = Identifiers()
    runs = Runs(realm.backend, realm.clock)
    with pytest.raises(MaintenanceSuperseded), runs.run("sweep") as run:
        to_sweep = RealmToSweep(created_before=realm.clock.now_micros(), types=known.purgeable_types())
        plan = SweepPlan(realms={realm.realm: to_sweep}, claim=run.lease.claim)
        fault = faulty(realm).arm(first("delete_scanned", superseded_by_name(realm, run)))
        worker = SplitSweep(realm.backend, plan, ExactFilter({realm.realm: known.retained(realm.backend, realm.realm, {})}))
        for split in realm.backend.splits(Table.OBJECTS, 1):
            worker.run(split)
    assert fault.fired == 1 and len(orphans & realm.ids()) == 9 - 2


def test_a_batch_is_spared_while_the_store_does_not_say_whose_the_lease_is(realm: Maintained) -> None:
    orphans = garbage(realm, 3)
    known = Identifiers()
    to_sweep = RealmToSweep(created_before=realm.clock.now_micros(), types=known.purgeable_types())
    plan = SweepPlan(realms={realm.realm: to_sweep}, claim=LeaseClaim(LEASE_KEY, "nobody"))
    fault = faulty(realm).arm(unavailable("read_mutable"))
    worker = SplitSweep(realm.backend, plan, ExactFilter({realm.realm: known.retained(realm.backend, realm.realm, {})}))
    (split,) = realm.backend.splits(Table.OBJECTS, 1)
    result = worker.run(split)
    assert fault.fired == 1 and orphans <= realm.ids()
    assert "lease" in result.failures[0] and _failed(result) == 3


def _failed(result: SplitResult) -> int:
    return sum(counts.failed for by_type in result.counts.values() for counts in by_type.values())


# ── purge ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lake() -> Lake:
    inner = MemoryBackend(MemoryStore())
    inner.create_schema()
    return Lake(store_on(FaultyBackend(inner), clock=ManualClock()))


def dropped(lake: Lake) -> None:
    lake.put("t")
    for name in ("dev", "test"):
        lake.refs.create(name, meta=META)
    Catalogs(lake.kernel).drop(lake.catalog.name, meta=META)
    assert isinstance(lake.store.clock, ManualClock)
    lake.store.clock.move(40 * DAY)


def pointers_of_catalogs(lake: Lake) -> set[str]:
    return {name for name, _ in lake.store.backend.all_pointers(lake.kernel.realm) if name.startswith("cat/")}


def test_a_purge_that_is_superseded_between_two_pointers_removes_no_more(lake: Lake) -> None:
    dropped(lake)
    backend, clock = lake.store.backend, lake.store.clock
    assert isinstance(backend, FaultyBackend)

    def supersede() -> None:
        with Runs(backend.inner, clock).run("expire", supersede=run.record.id):
            pass

    with pytest.raises(MaintenanceSuperseded), Runs(backend, clock).run("purge-realms") as run:
        fault = backend.arm(first("delete_pointer", supersede))
        CatalogPurge(lake.kernel, before_each=run.check).run()
    assert fault.fired == 1 and len(pointers_of_catalogs(lake)) == 3 - 1, "only the one that was under way"


@pytest.mark.parametrize("removed_before", [0, 1])
def test_a_pointer_about_to_be_removed_when_an_export_took_over_stays(lake: Lake, removed_before: int) -> None:
    dropped(lake)
    backend, clock = lake.store.backend, lake.store.clock
    assert isinstance(backend, FaultyBackend)

    def exported() -> None:
        with export_pin(store_on(backend.inner, clock=clock), lake.kernel.realm, supersede=run.record.id):
            pass

    with pytest.raises(MaintenanceSuperseded), Runs(backend, clock).run("purge-realms") as run:
        fault = backend.arm(first("delete_pointer", exported, skip=removed_before))
        CatalogPurge(lake.kernel, before_each=run.check).run()
    assert fault.fired == 1 and len(pointers_of_catalogs(lake)) == 3 - removed_before
