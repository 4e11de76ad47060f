"""Realms on every backend: the whole life, isolation, a name used again, and what an interrupted step leaves."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.coordination.pointer_fences import fence_pointers
from headwater.persistence.coordination.realm_fence import read_realm_fence, take_realm_fence
from headwater.persistence.realms.realm_init import REALM_POINTERS
from headwater.persistence.realms.realm_purge import rows_of
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import PRINCIPALS_POINTER, has_secret
from headwater.persistence.records.records import head_records
from headwater.persistence.rows import FENCE_CLOSED, Table
from headwater.persistence.store import Store
from headwater.schemas.errors import (
    RealmExists,
    RealmNotActive,
    RealmNotFound,
    RealmStateConflict,
    StoreUnavailable,
)
from tests.support.models.realm_cases import notes, realms_of, store_over, write_note


@pytest.fixture(scope="module")
def store(store_url: str) -> Iterator[Store]:
    with store_over(store_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def realms(store: Store) -> Realms:
    return realms_of(store)


@pytest.fixture
def name() -> str:
    return f"r-{secrets.token_hex(6)}"


def test_a_realm_lives_from_created_to_deleted(store: Store, realms: Realms, name: str) -> None:
    created = realms.create(name)
    assert created.status == "CREATED" and created.instance.startswith(f"{name}#") and len(created.instance) == len(name) + 17
    assert next(rows_of(store.backend, created.instance), None) is None
    assert realms.init(name).realm.status == "ACTIVE"
    kernel = realms.require_active(name)
    assert kernel.realm == created.instance
    write_note(kernel, "catalogs", "lake", "acknowledged")
    assert realms.deactivate(name).status == "INACTIVE"
    with pytest.raises(RealmNotActive):
        write_note(kernel, "catalogs", "late")
    assert realms.activate(name).status == "ACTIVE"
    write_note(kernel, "catalogs", "again")
    assert set(notes(kernel, "catalogs")) == {"lake", "again"}
    realms.deactivate(name)
    assert realms.purge(name).status == "PURGING"
    assert {row.table for row in rows_of(store.backend, created.instance)} >= {Table.OBJECTS, Table.POINTERS, Table.NAMES}
    purged, counts = realms.finish_purge(name)
    assert (purged.status, counts.rounds) == ("PURGED", 1)
    assert next(rows_of(store.backend, created.instance), None) is None
    realms.delete(name)
    with pytest.raises(RealmNotFound):
        realms.get(name)


def test_initializing_writes_what_a_realm_needs(store: Store, realms: Realms, name: str) -> None:
    realms.create(name)
    done = realms.init(name)
    report = realms.show(name)
    assert [pointer.name for pointer in report.pointers] == sorted(REALM_POINTERS)
    assert all(pointer.seq > 0 and not pointer.closed for pointer in report.pointers)
    kernel = realms.require_active(name)
    root = head_records(kernel, "root").get(("root",))
    assert root is not None and root.value["instance"] == done.realm.instance
    principal = head_records(kernel, PRINCIPALS_POINTER).get(("root",))
    assert principal is not None and principal.value["client_id"] == done.client_id
    assert has_secret(kernel, principal.value, done.client_secret) and not has_secret(kernel, principal.value, "other")


def test_a_name_that_is_used_again_starts_empty(store: Store, realms: Realms, name: str) -> None:
    realms.create(name)
    first = realms.init(name)
    old = realms.require_active(name)
    write_note(old, "catalogs", "old")
    write_note(old, "cat/1/heads/main", "old")
    realms.deactivate(name)
    realms.purge(name)
    realms.finish_purge(name)
    realms.delete(name)
    realms.create(name)
    second = realms.init(name)
    assert second.realm.instance != first.realm.instance and second.client_id != first.client_id
    new = realms.require_active(name)
    assert notes(new, "catalogs") == notes(new, "cat/1/heads/main") == {}
    for pointer in ("catalogs", "cat/1/heads/main", "never-there"):
        with pytest.raises(RealmNotActive):  # a server that slept through all of it
            write_note(old, pointer, "late")
    left = {row.table for row in rows_of(store.backend, first.realm.instance)}
    # Without a transaction its objects come before the CAS that is refused: nothing refers to them.
    assert left <= (set() if store.backend.abilities.commits_in_one_transaction else {Table.OBJECTS})
    assert notes(new, "catalogs") == {}


def test_two_realms_with_the_same_names_inside_do_not_meet(realms: Realms, name: str) -> None:
    kernels = []
    for realm in (f"{name}.a", f"{name}.b"):
        realms.create(realm)
        realms.init(realm)
        kernels.append(realms.require_active(realm))
    for kernel in kernels:
        write_note(kernel, "cat/1/heads/main", "table", kernel.realm)
    assert [notes(kernel, "cat/1/heads/main") for kernel in kernels] == [{"table": kernel.realm} for kernel in kernels]
    realms.deactivate(f"{name}.a")
    realms.purge(f"{name}.a")
    realms.finish_purge(f"{name}.a")
    write_note(kernels[1], "cat/1/heads/main", "more")
    assert set(notes(kernels[1], "cat/1/heads/main")) == {"table", "more"}


def test_an_inactive_realm_refuses_every_request_with_its_status(realms: Realms, name: str) -> None:
    with pytest.raises(RealmNotFound):
        realms.require_active(name)
    realms.create(name)
    with pytest.raises(RealmNotActive) as refused:
        realms.require_active(name)
    assert refused.value.facts["status"] == "CREATED" and "init" in (refused.value.remedy or "")
    with pytest.raises(RealmExists):
        realms.create(name)
    with pytest.raises(RealmStateConflict):
        realms.activate(name)
    realms.delete(name)


def test_a_crash_while_initializing_is_repaired_by_initializing_again(
    store_url: str, realms: Realms, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    realms.create(name)
    with store_over(store_url) as crashing:
        secret_written: list[object] = []

        def crash(*arguments: object) -> None:
            secret_written.append(arguments)
            raise StoreUnavailable("the process dies here")

        monkeypatch.setattr("headwater.persistence.realms.realms.check_first_records", crash)
        with pytest.raises(StoreUnavailable):
            realms_of(crashing).init(name)
        assert secret_written, "the fault never fired"
        monkeypatch.undo()
    assert realms.get(name).status == "INITIALIZING"
    with pytest.raises(RealmNotActive):
        realms.require_active(name)
    done = realms.init(name)
    kernel = realms.require_active(name)
    principals = list(head_records(kernel, PRINCIPALS_POINTER).all())
    assert len(principals) == 1 and has_secret(kernel, principals[0].value, done.client_secret)


def test_a_failed_initialization_can_be_purged_and_the_sleeper_lands_nothing(store: Store, realms: Realms, name: str) -> None:
    realms.create(name)
    kernel = store.kernel(realms.get(name).instance)
    realms.start_loading(name)
    write_note(kernel, "catalogs", "half")
    realms.purge(name)
    assert read_realm_fence(store.backend, kernel.realm).is_closed
    for pointer in ("catalogs", "grants"):
        with pytest.raises(RealmNotActive):
            write_note(kernel, pointer, "late")
    realms.finish_purge(name)
    realms.delete(name)


def test_a_loaded_realm_can_start_closed(realms: Realms, name: str) -> None:
    realms.create(name)
    kernel = realms.start_loading(name)
    write_note(kernel, "catalogs", "imported")
    assert realms.finish_loading(name, active=False).status == "INACTIVE"
    with pytest.raises(RealmNotActive):
        write_note(kernel, "catalogs", "late")
    realms.activate(name)
    assert notes(realms.require_active(name), "catalogs") == {"imported": ""}


def test_a_realm_whose_deactivation_was_cut_short_is_opened_by_activating_it(store: Store, realms: Realms, name: str) -> None:
    realms.create(name)
    realms.init(name)
    kernel = realms.require_active(name)
    with pytest.raises(RealmStateConflict):
        realms.activate(name)
    held = take_realm_fence(store.backend, read_realm_fence(store.backend, kernel.realm), FENCE_CLOSED, store.clock)
    assert held is not None
    fence_pointers(store.backend, held, store.clock)
    with pytest.raises(RealmNotActive):
        write_note(kernel, "catalogs", "closed")
    assert realms.activate(name).status == "ACTIVE"
    write_note(kernel, "catalogs", "open")
    assert set(notes(kernel, "catalogs")) == {"open"}


def test_realms_are_listed_in_order_of_name(realms: Realms, name: str) -> None:
    wanted = [f"{name}-{n}" for n in range(5)]
    for realm in reversed(wanted):
        realms.create(realm)
    assert [realm.name for realm in realms.list(after=name, limit=3)] == wanted[:3]
    assert [realm.name for realm in realms.list(after=wanted[2], limit=2)] == wanted[3:]
