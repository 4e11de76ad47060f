"""Catalogs that are made, updated and dropped under a request id, and purged at once where that was asked for."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import RealmKernel, open_store
from headwater.producer.access.roles import catalog_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalog_updates import create_catalog, drop_catalog, update_catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import Namespace
from headwater.producer.pointer_names import ReferenceType, branch_pointer
from headwater.schemas.errors import CatalogExists, CatalogNotEmpty, CatalogNotFound, RecordChanged
from headwater.streaming.purge.catalog_purge import CatalogPurge
from tests.support.faults.manual_clock import ManualClock

ANN = WriteMeta("ann")


def under(request_id: str) -> WriteMeta:
    return WriteMeta("ann", request_id=request_id)


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with open_store(f"memory://{secrets.token_hex(6)}", create=True, clock=ManualClock()) as store:
        realms = Realms(store, secret_cost=ScryptCost(n=2, r=1, p=1))
        realms.create("r")
        realms.init("r")
        yield realms.require_active("r")


def put(kernel: RealmKernel, catalog: str, branch: str = "main") -> None:
    pointer = branch_pointer(Catalogs(kernel).get(catalog).id, branch)
    kernel.committer.commit(pointer, CatalogCommit(kernel, [Put(("db",), Namespace())], CommitMeta("ann")))


def test_the_same_request_makes_changes_and_drops_once(kernel: RealmKernel) -> None:
    first, again = (create_catalog(kernel, "c", meta=under("make")) for _ in range(2))
    assert again.value.catalog == first.value.catalog and (first.outcome.replayed, again.outcome.replayed) == (False, True)
    assert first.outcome.logged and again.outcome.logged
    assert again.outcome.logged.entry_id == first.outcome.logged.entry_id
    with pytest.raises(CatalogExists):
        create_catalog(kernel, "c", meta=under("other"))
    updates = [
        update_catalog(kernel, "c", properties={"a": "1"}, version=first.value.version, meta=under("change")) for _ in range(2)
    ]
    assert updates[1].outcome.replayed and updates[0].value.version == updates[1].value.version
    with pytest.raises(RecordChanged):
        update_catalog(kernel, "c", properties={}, version=first.value.version, meta=ANN)
    gone, still_gone = (drop_catalog(kernel, "c", version=updates[0].value.version, meta=under("drop")) for _ in range(2))
    assert still_gone.replayed and still_gone.logged and gone.logged
    assert still_gone.logged.entry_id == gone.logged.entry_id
    with pytest.raises(CatalogNotFound):
        drop_catalog(kernel, "c", meta=under("another"))


def test_content_on_any_branch_or_tag_keeps_a_catalog_and_its_storage_root(kernel: RealmKernel) -> None:
    made = create_catalog(kernel, "c", storage_root="file:///a", meta=ANN).value.catalog
    assert update_catalog(kernel, "c", storage_root="file:///b", meta=ANN).value.catalog.storage_root == "file:///b"
    Catalogs(kernel).references(made).create("dev", meta=CommitMeta("ann"))
    put(kernel, "c", "dev")
    with pytest.raises(CatalogNotEmpty) as inside:
        drop_catalog(kernel, "c", meta=ANN)
    assert inside.value.facts == {"reference": "dev", "key": ["db"]}
    with pytest.raises(CatalogNotEmpty):
        update_catalog(kernel, "c", storage_root="file:///c", meta=ANN)
    assert update_catalog(kernel, "c", properties={"x": "y"}, meta=ANN).value.catalog.properties == {"x": "y"}
    references = Catalogs(kernel).references(made)
    references.create("v1", "dev", type=ReferenceType.TAG, meta=CommitMeta("ann"))
    references.delete("dev", meta=CommitMeta("ann"))
    with pytest.raises(CatalogNotEmpty) as tagged:
        drop_catalog(kernel, "c", meta=ANN)
    assert tagged.value.facts == {"reference": "v1", "key": ["db"]}
    assert drop_catalog(kernel, "c", require_empty=False, meta=ANN).changed


def test_a_catalog_dropped_with_purge_is_removed_with_its_roles_by_the_next_maintenance(kernel: RealmKernel) -> None:
    for name in ("kept", "purged"):
        made = create_catalog(kernel, name, meta=ANN).value.catalog
        catalog_roles(kernel, made.id).create("reader", meta=ANN)
        put(kernel, name)
    drop_catalog(kernel, "kept", require_empty=False, meta=ANN)
    drop_catalog(kernel, "purged", require_empty=False, purge=True, meta=ANN)
    clock = kernel.store.clock
    assert isinstance(clock, ManualClock)
    clock.move(1)
    purged = {one.name: one.waiting for one in CatalogPurge(kernel).run()}
    assert purged["purged"] == "" and purged["kept"].startswith("dropped less than")
    assert [one.name for one in Catalogs(kernel).dropped()] == ["kept"]
