"""Lists that are longer than a page of records are read to their end."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.realms.realms import Realms
from headwater.persistence.records import records
from headwater.persistence.store import RealmKernel, Store, open_store
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs import catalog_updates
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.runs.realm_sets import realm_sets
from tests.support.models.realm_cases import CHEAP

META = WriteMeta("test")
NAMES = [f"c{number}" for number in range(5)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(records, "PAGE_RECORDS_MAX", 2)
    with open_store(f"memory://lists-{secrets.token_hex(6)}", create=True) as opened:
        yield opened


def _realm(store: Store, name: str) -> RealmKernel:
    realms = Realms(store, secret_cost=CHEAP)
    realms.create(name)
    realms.init(name)
    return store.kernel(realms.get(name).instance)


def test_all_realms_of_a_store_are_found(store: Store) -> None:
    for name in NAMES:
        _realm(store, name)
    assert [realm.name for realm in Realms(store).all()] == NAMES
    assert [realm.name for realm in realm_sets(store).retain] == NAMES


def test_all_catalogs_of_a_realm_are_found_with_their_storage_roots(store: Store) -> None:
    kernel = _realm(store, "r")
    for name in NAMES:
        catalog_updates.create_catalog(kernel, name, storage_root=f"s3://lake/{name}", meta=META)
    assert [catalog.name for catalog in Catalogs(kernel).list()] == NAMES
    assert [read.catalog.name for read in Catalogs(kernel).read_all(after="c1")] == NAMES[2:]
    assert [root.catalog for root in roots_of(store, [kernel.realm])] == NAMES


def test_all_dropped_catalogs_are_found(store: Store) -> None:
    kernel = _realm(store, "r")
    for name in NAMES:
        catalog_updates.create_catalog(kernel, name, storage_root="", meta=META)
        catalog_updates.drop_catalog(kernel, name, purge=True, meta=META)
    assert sorted(catalog.name for catalog in Catalogs(kernel).dropped()) == NAMES
    assert Catalogs(kernel).list() == []
