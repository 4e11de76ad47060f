"""Realms that are given up, instances that nobody lists, and dropped catalogs leave no row behind; what lives is untouched."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.log.purged_pointers import purged_pointer
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.realms.realm_purge import rows_of
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.rows import FENCE_CLOSED, ObjectRow, Table
from headwater.persistence.store import Store, open_store
from headwater.producer.access.roles import catalog_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import (
    CatalogNotFound,
    PointerNotFound,
    PointerPurged,
    RealmNotActive,
    RealmNotFound,
    RealmStateConflict,
)
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.purge.catalog_purge import CatalogPurge
from headwater.streaming.purge.purge import PurgedRealm, purge_all, purge_realms, purge_unlisted, unlisted_instances
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.realm_sets import instances_to_maintain, purged_by_sweeps, realm_sets, realms_to_purge
from headwater.streaming.runs.runs import Runs
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions
from tests.support.faults.manual_clock import ManualClock
from tests.support.faults.scan_only import ScanOnly, as_scan_only, purging
from tests.support.fixtures.catalog_lake import META, Lake
from tests.support.fixtures.maintained import HOUR, sweep_store
from tests.support.models.realm_cases import realms_of, store_over, write_note

DAY = 86_400
MAIN, DEV = "cat/1/heads/main", "cat/1/heads/dev"


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory://{secrets.token_hex(6)}", create=True, clock=ManualClock()) as opened:
        yield opened


def test_only_active_and_inactive_realms_are_maintained_and_only_purging_ones_purged(store: Store) -> None:
    realms = realms_of(store)
    for name in ("created", "active", "inactive", "purging"):
        realms.create(name)
    for name in ("active", "inactive", "purging"):
        realms.init(name)
    for name in ("inactive", "purging"):
        realms.deactivate(name)
    realms.purge("purging")
    sets = realm_sets(store)
    assert [realm.name for realm in sets.retain] == ["active", "inactive"]
    assert [realm.name for realm in sets.purge] == ["purging"]
    assert instances_to_maintain(store)[0] == "::system::" and len(instances_to_maintain(store)) == 3
    with pytest.raises(RealmStateConflict, match="PURGING"):
        instances_to_maintain(store, ["purging"])
    with pytest.raises(RealmStateConflict, match="ACTIVE"):
        realms_to_purge(store, ["active"])
    with pytest.raises(RealmNotFound):
        realms_to_purge(store, ["nobody"])


def test_a_purged_realm_has_no_row_left_and_the_others_have_all(store: Store) -> None:
    realms = realms_of(store)
    instances = {}
    for name in ("gone", "stays"):
        instances[name] = realms.create(name).instance
        realms.init(name)
        write_note(store.kernel(instances[name]), "principals", "key")
    before = list(rows_of(store.backend, instances["stays"]))
    realms.deactivate("gone")
    realms.purge("gone")
    (purged,) = purge_realms(store, realms_to_purge(store))
    assert not purged.failure and realms.get("gone").status is RealmStatus.PURGED
    assert list(rows_of(store.backend, instances["gone"])) == []
    assert list(rows_of(store.backend, instances["stays"])) == before
    with pytest.raises(RealmNotActive):
        write_note(store.kernel(instances["gone"]), "principals", "late")


def test_rows_of_an_instance_that_is_not_listed_any_more_go_too(store: Store) -> None:
    realms = realms_of(store)
    old = realms.create("name").instance
    realms.init("name")
    realms.deactivate("name")
    realms.purge("name")
    purge_realms(store, realms_to_purge(store))
    realms.delete("name")
    new = realms.create("name").instance
    realms.init("name")
    store.backend.write_objects(old, [ObjectRow(7, "content", 1, b"left by a writer that slept")])
    assert unlisted_instances(store) == [old]
    count = len(list(rows_of(store.backend, new)))
    (purged,) = purge_unlisted(store)
    assert purged.instance == old and not purged.listed and not purged.failure
    assert list(rows_of(store.backend, old)) == [] and len(list(rows_of(store.backend, new))) == count


def test_a_dropped_catalog_is_purged_when_its_history_is_old_enough_and_swept_next(store: Store) -> None:
    lake = Lake(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    kept = lake.catalogs.ensure("kept", meta=META)
    for number in range(40):
        lake.put(f"t{number}")
    lake.refs.create("dev", meta=META)
    lake.catalogs.drop("lake", meta=META)
    (waiting,) = CatalogPurge(lake.kernel).run()
    assert waiting.waiting and waiting.pointers == 2
    clock.move(31 * DAY)
    (would,) = CatalogPurge(lake.kernel).run(dry_run=True)
    assert not would.waiting and store.backend.list_names(lake.kernel.realm, prefix="cat/1/")
    (purged,) = CatalogPurge(lake.kernel).run()
    assert (purged.name, purged.catalog_id, purged.waiting) == ("lake", lake.catalog.id, "")
    assert store.backend.list_names(lake.kernel.realm, prefix=f"cat/{lake.catalog.id}/") == []
    assert Catalogs(lake.kernel).dropped() == [] and CatalogPurge(lake.kernel).run() == []
    clock.move(4 * HOUR)
    report, _ = sweep_store(store, [lake.kernel.realm])
    assert report.counts[lake.kernel.realm]["entry"].purged >= 40
    assert lake.catalogs.get("kept") == kept
    with pytest.raises(CatalogNotFound):
        lake.catalogs.get("lake")


def test_a_catalog_dropped_with_purge_is_removed_at_once_with_its_pointers_names_and_objects(store: Store) -> None:
    lake = Lake(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    other = lake.catalogs.ensure("other", meta=META)
    for number in range(20):
        lake.put(f"t{number}")
    lake.refs.create("dev", meta=META)
    lake.catalogs.drop("lake", purge=True, meta=META)
    clock.move(1)
    (purged,) = CatalogPurge(lake.kernel).run()
    assert (purged.name, purged.waiting, purged.pointers) == ("lake", "", 2)
    assert store.backend.list_names(lake.kernel.realm, prefix=f"cat/{lake.catalog.id}/") == []
    assert Catalogs(lake.kernel).dropped() == [] and lake.catalogs.get("other") == other
    clock.move(4 * HOUR)
    report, _ = sweep_store(store, [lake.kernel.realm])
    assert report.counts[lake.kernel.realm]["entry"].purged >= 20 and not report.failures


def test_every_pointer_of_a_dropped_catalog_ends_with_a_delete_entry(store: Store) -> None:
    """Roles and grants too: whoever reads them learns that they are gone."""
    lake = Lake(store)
    lake.put("t")
    lake.refs.create("dev", meta=META)
    catalog_roles(lake.kernel, lake.catalog.id).create("reader", meta=WriteMeta("ada"))
    lake.catalogs.drop("lake", purge=True, meta=META)
    names = store.backend.list_names(lake.kernel.realm, prefix="cat/1/")
    assert names == ["cat/1/heads/dev", "cat/1/heads/main", "cat/1/roles"]
    assert {str(PointerLog(lake.kernel, name).head().newest.entry.kind) for name in names} == {"delete"}


def test_a_purged_pointer_is_known_by_its_last_entry(store: Store) -> None:
    lake = Lake(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    lake.put("t")
    lake.catalogs.drop("lake", purge=True, meta=META)
    last = PointerLog(lake.kernel, MAIN).head()
    clock.move(1)
    (purged,) = CatalogPurge(lake.kernel).run()
    assert purged.waiting == ""
    end = purged_pointer(store.backend, lake.kernel.realm, MAIN)
    assert end is not None and (end.seq, end.entry_id) == (last.seq, last.row.head)
    with pytest.raises(PointerPurged) as raised:
        PointerLog(lake.kernel, MAIN).head()
    assert raised.value.facts["seq"] == last.seq
    with pytest.raises(PointerNotFound) as never:
        PointerLog(lake.kernel, "cat/1/heads/never").head()
    assert not isinstance(never.value, PointerPurged)


def test_a_catalog_stays_until_every_pin_has_passed_its_delete_entries_or_is_too_old(store: Store) -> None:
    lake = Lake(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    lake.put("t")
    lake.refs.create("dev", meta=META)
    seq, of_dev = (PointerLog(lake.kernel, name).head().seq for name in (MAIN, DEV))
    readers = RegisteredReaders(store.backend, lake.kernel.realm, clock)
    lake.catalogs.drop("lake", purge=True, meta=META)
    passed = {MAIN: seq + 1, DEV: of_dev + 1}
    for archive, other, waits in (
        ({MAIN: seq, DEV: of_dev + 1}, passed, True),
        ({MAIN: seq + 1, DEV: of_dev}, passed, True),
        (passed, {MAIN: seq + 1}, True),
        (passed, passed, False),
    ):
        readers.save("archive", archive, pin_seconds=DAY)
        readers.save("other", other, pin_seconds=DAY)
        clock.move(1)
        (found,) = CatalogPurge(lake.kernel).run(dry_run=True)
        assert bool(found.waiting) is waits, (archive, other, found.waiting)
    readers.save("archive", {**passed, MAIN: seq}, pin_seconds=DAY)
    (waiting,) = CatalogPurge(lake.kernel).run()
    assert waiting.waiting == f"reader archive has read {MAIN} up to entry {seq} of {seq + 1}"
    clock.move(DAY + 1)
    (purged,) = CatalogPurge(lake.kernel).run()
    assert not purged.waiting


def test_a_pointer_created_late_in_a_purged_catalog_is_removed_by_the_next_purge(store: Store) -> None:
    lake = Lake(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    lake.catalogs.drop("lake", meta=META)
    clock.move(31 * DAY)
    CatalogPurge(lake.kernel).run()
    lake.refs.create("late", None, meta=META)
    assert store.backend.list_names(lake.kernel.realm, prefix="cat/1/") != []
    (young,) = CatalogPurge(lake.kernel).run()
    assert young.waiting
    clock.move(31 * DAY)
    (orphan,) = CatalogPurge(lake.kernel).run()
    assert orphan.name == "" and not orphan.waiting
    assert store.backend.list_names(lake.kernel.realm, prefix="cat/1/") == []


def test_pointers_under_an_id_that_no_catalog_ever_had_are_left_alone(store: Store) -> None:
    lake = Lake(store)
    lake.refs.create("here", None, meta=META)
    write_note(lake.kernel, "cat/77/notes", "key")
    clock = store.clock
    assert isinstance(clock, ManualClock)
    clock.move(400 * DAY)
    assert CatalogPurge(lake.kernel).run() == []
    assert store.backend.list_names(lake.kernel.realm, prefix="cat/77/") == ["cat/77/notes"]


def test_fences_of_purged_realms_stay_closed(store: Store) -> None:
    from headwater.persistence.coordination.realm_fence import read_realm_fence

    realms = realms_of(store)
    instance = realms.create("gone").instance
    realms.init("gone")
    realms.deactivate("gone")
    realms.purge("gone")
    purge_realms(store, realms_to_purge(store))
    realms.delete("gone")
    purge_unlisted(store)
    assert read_realm_fence(store.backend, instance).fence == FENCE_CLOSED


# ── databases that cannot delete by realm ───────────────────────────────────────────────────────────────────


@pytest.fixture
def scanned() -> Iterator[Store]:
    url = f"memory://{secrets.token_hex(6)}"
    with open_store(url, create=True), store_over(url, ScanOnly, ManualClock()) as store:
        yield store


def purged_of(store: Store) -> list[PurgedRealm]:
    with Runs(store.backend, store.clock).run("purge-realms") as run:
        return purge_all(store, run, catalogs=False).realms


def test_all_realms_and_forgotten_instances_go_by_the_same_scans(scanned: Store) -> None:
    backend = as_scan_only(scanned)
    instances = purging(scanned, "a", "b", "c")
    stays = realms_of(scanned).create("stays").instance
    realms_of(scanned).init("stays")
    forgotten = "nobody#0123456789abcdef"
    backend.write_objects(forgotten, [ObjectRow(7, "content", 1, b"left by a writer that slept")])
    kept = list(rows_of(scanned.backend, stays))
    backend.scans.clear()
    done = {it.instance: it for it in purged_of(scanned)}
    assert done.keys() == {*instances.values(), forgotten} and not any(it.failure for it in done.values())
    assert done[forgotten].deleted == 1 and not done[forgotten].listed
    assert set(backend.scans.values()) == {3}, (
        "one that deletes, one that confirms and deletes the forgotten, one that confirms these"
    )
    assert all(realms_of(scanned).get(name).status is RealmStatus.PURGED for name in instances)
    assert not any(list(rows_of(scanned.backend, it)) for it in done) and list(rows_of(scanned.backend, stays)) == kept
    backend.scans.clear()
    assert purged_of(scanned) == [] and set(backend.scans.values()) == {1}


def test_a_realm_is_purged_only_when_a_scan_has_found_nothing(scanned: Store) -> None:
    backend = as_scan_only(scanned)
    instances = purging(scanned, "quiet", "late")
    ids = iter(range(100, 200))

    def write_late(table: Table) -> None:
        if table is Table.MUTABLE:  # behind the scan of the objects
            backend.write_objects(instances["late"], [ObjectRow(next(ids), "content", 1, b"of a writer that is under way")])

    backend.before_scan = write_late
    done = {it.realm: it for it in purged_of(scanned)}
    assert not done["quiet"].failure and realms_of(scanned).get("quiet").status is RealmStatus.PURGED
    assert "still has rows" in done["late"].failure and realms_of(scanned).get("late").status is RealmStatus.PURGING
    backend.before_scan = lambda _: None
    assert [it.failure for it in purged_of(scanned)] == [""]
    assert realms_of(scanned).get("late").status is RealmStatus.PURGED


def test_a_sweep_deletes_the_objects_of_realms_that_go_by_its_own_scan(scanned: Store) -> None:
    instances = purging(scanned, "gone")
    stays = realms_of(scanned).create("stays").instance
    realms_of(scanned).init("stays")
    kept = [row for row in rows_of(scanned.backend, stays) if row.table is Table.OBJECTS]
    assert purged_by_sweeps(scanned) == list(instances.values())
    known = Identifiers()
    sweep = Sweep(scanned, WalkedSource(scanned.backend, known), LocalExecutor(scanned.backend), known, SweepOptions())
    runs = Runs(scanned.backend, scanned.clock)
    with runs.run("sweep") as run:
        report = sweep.run(runs, run, instances_to_maintain(scanned), purged_by_sweeps(scanned))
    assert not report.failures and sum(one.purged for one in report.counts[instances["gone"]].values()) > 3
    left = {row.table for row in rows_of(scanned.backend, instances["gone"])}
    assert Table.OBJECTS not in left and Table.POINTERS in left, "topics are found by other rows than objects"
    assert [row for row in rows_of(scanned.backend, stays) if row.table is Table.OBJECTS] == kept
    assert [it.failure for it in purged_of(scanned)] == [""]
    assert realms_of(scanned).get("gone").status is RealmStatus.PURGED
