"""A backup is put back between the plan of a commit and its write: nothing is written that refers to what the backup lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.store import RealmKernel, Store, StoreOptions
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.named_merges import merge_request, transplant_request
from headwater.producer.references.references import References
from headwater.schemas.errors import ReferenceNotFound
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.sweep.verify import verify_realm
from tests.support.faults.faulty_backend import FaultyBackend, first
from tests.support.fixtures.publisher_runs import instance_of
from tests.support.fixtures.restorable_stores import RestorableStore, noticed_by_another_thread, restorable_store

META = CommitMeta("test")
Requested = Callable[[RealmKernel, References], CommitRequest]


@pytest.fixture(params=["sqlite", "sqlite moved", "postgresql", "postgresql in place"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RestorableStore:
    return restorable_store(request, tmp_path)


class Bringing:
    """Brings the newest commit of `dev` to main. A store of its own, as that of another process."""

    def __init__(self, store: RestorableStore, requested: Requested) -> None:
        with headwater.open(store.url) as engine:
            lake = engine.realm().catalog("lake")
            self.main, instance = lake.branch().pointer, instance_of(engine, "default")
        self.backend = FaultyBackend(open_backend(store.url))
        self.store = Store(self.backend, StoreOptions(), SystemClock())
        self.kernel = self.store.kernel(instance)
        self.request = requested(self.kernel, References(self.kernel, lake.info.id))

    def commit(self) -> None:
        self.kernel.committer.commit(self.main, self.request)


def merged(kernel: RealmKernel, references: References) -> CommitRequest:
    request = merge_request(kernel, references, "dev", META)
    request.prepare(references.get("main").pointer)
    return request


def transplanted(kernel: RealmKernel, references: References) -> CommitRequest:
    return transplant_request(kernel, references, ["dev"], META)


@pytest.fixture(params=[merged, transplanted])
def bringing(store: RestorableStore, request: pytest.FixtureRequest) -> Iterator[Bringing]:
    """The backup lacks the newest commit of `dev`, and main has not moved since."""
    with headwater.open(store.url, create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([Put(("kept",), IcebergTable("s3://lake/kept"))])
        dev = lake.create_branch("dev")
        dev.commit([Put(("kept too",), IcebergTable("s3://lake/kept-too"))])
        store.back_up()
        dev.commit([Put(("lost",), IcebergTable("s3://lake/lost"))])
    bringing = Bringing(store, request.param)
    yield bringing
    bringing.store.close()


def require_whole(store: RestorableStore) -> None:
    with headwater.open(store.url) as fresh:
        assert verify_realm(fresh.store.backend, instance_of(fresh, "default"), SystemClock(), Identifiers()).holds
        keys = {entry.key for entry in fresh.realm().catalog("lake").branch().snapshot()}
        assert ("kept",) in keys and ("lost",) not in keys


def test_a_commit_planned_before_a_restore_is_not_written_after_it(store: RestorableStore, bringing: Bringing) -> None:
    fault = bringing.backend.arm(first("commit", noticed_by_another_thread(store, bringing.backend.inner)))
    with pytest.raises(ReferenceNotFound):
        bringing.commit()
    assert fault.fired == 1
    require_whole(store)


def test_sources_looked_up_before_a_restore_are_looked_up_again(store: RestorableStore, bringing: Bringing) -> None:
    """⚠ Main is where it was when the request was made, so what was prepared for it seems to hold."""
    store.restore()
    bringing.store.restores.check()
    with pytest.raises(ReferenceNotFound):
        bringing.commit()
    require_whole(store)


def test_a_merge_after_a_restore_brings_what_the_backup_contains(store: RestorableStore, bringing: Bringing) -> None:
    store.back_up()
    fault = bringing.backend.arm(first("commit", noticed_by_another_thread(store, bringing.backend.inner)))
    bringing.commit()
    assert fault.fired == 1
    with headwater.open(store.url) as fresh:
        assert ("lost",) in {entry.key for entry in fresh.realm().catalog("lake").branch().snapshot()}
        assert verify_realm(fresh.store.backend, instance_of(fresh, "default"), SystemClock(), Identifiers()).holds
