"""Realms that are closed are swept like open ones, stay closed, and lose nothing when they are opened again."""

from __future__ import annotations

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination.pointer_fences import fence_pointers
from headwater.persistence.coordination.realm_fence import RealmFence, read_realm_fence, take_realm_fence
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import FENCE_CLOSED
from headwater.persistence.store import Store, StoreOptions
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import RealmNotActive, RealmStateConflict
from headwater.streaming.purge.catalog_purge import CatalogPurge
from headwater.streaming.reachability.fence import fence_realm
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained, sweep_store
from tests.support.models.commit_harness import REALM
from tests.support.models.realm_cases import notes, realms_of, write_note

NAME = "shop"


@pytest.fixture
def realm() -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend)


def close(realm: Maintained) -> RealmFence:
    held = take_realm_fence(realm.backend, read_realm_fence(realm.backend, REALM), FENCE_CLOSED, realm.clock)
    assert held is not None and fence_pointers(realm.backend, held, realm.clock) > 0
    return held


def test_a_closed_realm_is_swept_keeps_its_states_and_stays_closed(realm: Maintained) -> None:
    for _ in range(30):
        realm.step()
    orphan = realm.orphan()
    realm.expire("*=3n")
    close(realm)
    realm.clock.move(4 * HOUR)
    report = realm.sweep()
    assert report.skipped == {} and report.failures == []
    assert orphan not in realm.ids() and realm.ids() == realm.reachable()
    realm.check_states()
    assert read_realm_fence(realm.backend, REALM).is_closed
    assert {realm.row(name).fence for name in realm.logs} == {FENCE_CLOSED}
    with pytest.raises(RealmNotActive):
        realm.write()


def test_a_write_after_the_sweep_of_a_closed_realm_is_newer_than_the_sweep_by_any_clock() -> None:
    clock, behind = ManualClock(), ManualClock()
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    with Store(backend, StoreOptions(), clock) as store:
        realms_of(store).create(NAME)
        realms_of(store).init(NAME)
        kernel = Realms(store).require_active(NAME)
        write_note(kernel, "catalogs", "before")
        Realms(store).deactivate(NAME)
        clock.move(30 * HOUR)
        report, _ = sweep_store(store, [kernel.realm])
        assert report.swept == [kernel.realm]
        swept_at = clock.now_micros()
    with Store(MemoryBackend(backend.store), StoreOptions(), behind) as store:
        behind.move(HOUR)
        assert behind.now_micros() < swept_at, "the clocks do not differ"
        Realms(store).activate(NAME)
        rows = backend.read_pointers(kernel.realm, backend.list_names(kernel.realm))
        assert all(row.fence >= swept_at for row in rows.values())
        write_note(store.kernel(kernel.realm), "catalogs", "after")
        assert set(notes(store.kernel(kernel.realm), "catalogs")) == {"before", "after"}


def test_opening_that_a_sweep_has_overtaken_is_refused(realm: Maintained) -> None:
    realm.write()
    seen = close(realm)
    fenced = fence_realm(realm.backend, REALM, realm.clock)
    assert fenced.spans[MAIN].seq == 1
    assert take_realm_fence(realm.backend, seen, realm.clock.now_micros(), realm.clock) is None
    with pytest.raises(RealmStateConflict):
        fence_pointers(realm.backend, seen, realm.clock)


def test_dropped_catalogs_of_a_closed_realm_wait_until_it_is_opened() -> None:
    clock, backend = ManualClock(), MemoryBackend(MemoryStore())
    backend.create_schema()
    with Store(backend, StoreOptions(), clock) as store:
        realms_of(store).create(NAME)
        realms_of(store).init(NAME)
        kernel = Realms(store).require_active(NAME)
        meta = CommitMeta("test", "")
        Catalogs(kernel).create("old", meta=meta)
        Catalogs(kernel).drop("old", meta=meta)
        Realms(store).deactivate(NAME)
        clock.move(31 * 24 * HOUR)
        before = backend.list_names(kernel.realm)
        (waits,) = CatalogPurge(kernel).run()
        assert waits.waiting == "the realm is closed" and backend.list_names(kernel.realm) == before
        Realms(store).activate(NAME)
        (gone,) = CatalogPurge(kernel).run()
        assert not gone.waiting and len(backend.list_names(kernel.realm)) < len(before)
