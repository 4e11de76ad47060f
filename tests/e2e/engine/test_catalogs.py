"""Catalogs of a realm: created whole or completed later, listed, dropped, on the embedded backends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.persistence.store import RealmKernel, open_store
from headwater.producer.catalogs.catalog_records import CatalogStatus
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import (
    CatalogExists,
    CatalogNotFound,
    InvalidInput,
    InvalidName,
    ReferenceNotFound,
    StoreUnavailable,
)
from tests.support.fixtures.catalog_lake import EMBEDDED, META, embedded_url, open_lake


@pytest.fixture(params=EMBEDDED)
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealmKernel]:
    with open_store(embedded_url(request.param, tmp_path), create=True) as store:
        yield store.kernel("test#01")


def test_a_catalog_is_created_with_its_default_branch(kernel: RealmKernel) -> None:
    catalogs = Catalogs(kernel)
    lake = catalogs.create("lake", storage_root="s3://lake", meta=CommitMeta("ada"))
    assert (lake.id, lake.status, lake.created_by, lake.storage_root) == (1, "ACTIVE", "ada", "s3://lake")
    assert catalogs.get("lake") == lake
    assert catalogs.references(lake).get("main").pointer == "cat/1/heads/main"
    second = catalogs.create("second", default_branch="trunk", meta=META)
    assert second.id == 2
    assert catalogs.references(second).get("-").pointer == "cat/2/heads/trunk"
    assert [catalog.name for catalog in catalogs.list()] == ["lake", "second"]
    assert [read.catalog.name for read in catalogs.read_all(after="lake")] == ["second"]


def test_a_catalog_that_is_there_is_not_created_again(kernel: RealmKernel) -> None:
    catalogs = Catalogs(kernel)
    lake = catalogs.create("lake", meta=META)
    with pytest.raises(CatalogExists):
        catalogs.create("lake", meta=META)
    assert catalogs.ensure("lake", meta=META) == lake


@pytest.mark.parametrize("crash_at", ["before the branch", "before it is opened"])
def test_creating_a_catalog_again_completes_what_a_crash_left(
    kernel: RealmKernel, crash_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogs = Catalogs(kernel)
    crashed = []

    def crash(*_: object, **__: object) -> None:
        crashed.append(crash_at)
        raise StoreUnavailable("crash")

    with monkeypatch.context() as patch:
        patch.setattr(Catalogs, "_complete" if crash_at == "before the branch" else "_write", crash)
        with pytest.raises(StoreUnavailable):
            catalogs.create("lake", storage_root="s3://lake", meta=META)
    assert crashed
    with pytest.raises(CatalogNotFound):
        catalogs.get("lake")
    assert [catalog.status for catalog in catalogs.list()] == [CatalogStatus.CREATING]
    with pytest.raises(CatalogExists):
        catalogs.create("lake", storage_root="s3://elsewhere", meta=META)
    lake = catalogs.create("lake", storage_root="s3://lake", meta=META)
    assert (lake.id, lake.status) == (1, CatalogStatus.ACTIVE)
    assert catalogs.references(lake).get("main").seq == 1


def test_many_that_create_one_catalog_at_once_agree_on_it(kernel: RealmKernel) -> None:
    catalogs = Catalogs(kernel)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: catalogs.ensure("lake", meta=META), range(8)))
    assert {(catalog.id, catalog.status) for catalog in made} == {(1, CatalogStatus.ACTIVE)}
    assert catalogs.references(made[0]).get("main").seq == 1


def test_a_dropped_catalog_accepts_no_commits_and_its_name_is_free(tmp_path: Path) -> None:
    with open_lake(embedded_url("sqlite", tmp_path)) as lake:
        lake.put("t")
        lake.refs.create("dev", meta=META)
        dropped = lake.catalogs.drop("lake", meta=META)
        assert (dropped.id, dropped.status) == (1, CatalogStatus.DROPPED)
        for branch in ("main", "dev"):
            with pytest.raises(ReferenceNotFound):
                lake.put("u", on=branch)
        for gone in (lambda: lake.catalogs.get("lake"), lambda: lake.catalogs.drop("lake", meta=META)):
            with pytest.raises(CatalogNotFound):
                gone()
        assert lake.catalogs.dropped() == [dropped]
        again = lake.catalogs.create("lake", meta=META)
        assert again.id == 2
        assert lake.catalogs.references(again).get("main").commit_id == lake.refs.get("main", deleted_ok=True).commit_id


def test_a_drop_that_crashed_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_lake(embedded_url("memory", tmp_path)) as lake:
        with monkeypatch.context() as patch:
            patch.setattr(Catalogs, "finish_drop", lambda *_, **__: 0)
            dropped = lake.catalogs.drop("lake", meta=META)
        assert not lake.refs.get("main").deleted
        assert lake.catalogs.finish_drop(dropped, meta=META) == 1
        assert lake.catalogs.finish_drop(dropped, meta=META) == 0


def test_bad_input_is_refused_before_anything_is_written(kernel: RealmKernel) -> None:
    catalogs = Catalogs(kernel)
    with pytest.raises(InvalidName):
        catalogs.create("a/b", meta=META)
    with pytest.raises(InvalidName):
        catalogs.create("lake", default_branch="a..b", meta=META)
    with pytest.raises(InvalidInput):
        catalogs.create("lake", meta=CommitMeta(""))
    with pytest.raises(InvalidInput):
        catalogs.create("lake", properties={"a": 7}, meta=META)  # type: ignore[dict-item]
    assert kernel.store.backend.list_names(kernel.realm) == []
