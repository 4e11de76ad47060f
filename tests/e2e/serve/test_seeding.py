"""`serve --seed` creates demo data with real tables once, even if several servers seed at once or one dies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import httpx
import pytest

from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import Store, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import RealmNotFound
from headwater.service import seeding
from headwater.service.seeding import TABLES, seed
from tests.support.servers.feed_server import feed_server


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url, create=True) as opened:
        realms = Realms(opened, secret_cost=ScryptCost(n=2, r=1, p=1))
        realms.create("default")
        realms.init("default")
        yield opened


def entries(store: Store) -> int:
    kernel = Realms(store).require_active("default")
    row = store.backend.read_pointer(kernel.realm, branch_pointer(Catalogs(kernel).get("lake").id, "main"))
    assert row is not None
    return row.seq


def test_seeding_at_once_and_again_is_seeding_once(store: Store, url: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        assert any(threads.map(lambda _: seed(store, url, "default"), range(3)))
    assert entries(store) == 1 + 1 + len(TABLES)
    assert not seed(store, url, "default") and entries(store) == 1 + 1 + len(TABLES)


def test_what_a_crash_left_is_completed_and_what_was_dropped_stays_dropped(store: Store, url: str) -> None:
    died = RuntimeError("died here")
    with mock.patch.object(seeding, "_let_in", side_effect=died), pytest.raises(RuntimeError, match="died here"):
        seed(store, url, "default")
    assert seed(store, url, "default") and entries(store) == 1 + 1 + len(TABLES)
    Catalogs(Realms(store).require_active("default")).drop("lake", meta=CommitMeta("test"))
    assert seed(store, url, "default"), "another catalog of that name is filled anew"


def test_a_realm_that_is_not_there_is_not_made_by_the_way(store: Store, url: str) -> None:
    with pytest.raises(RealmNotFound):
        seed(store, url, "none")


def test_a_seeded_server_serves_real_tables(url: str) -> None:
    with feed_server(url, "--seed") as server:
        tables = httpx.get(f"{server.url}/iceberg/v1/lake/namespaces/demo/tables", timeout=30).json()
        assert sorted(one["name"] for one in tables["identifiers"]) == sorted(TABLES)
        orders = httpx.get(f"{server.url}/iceberg/v1/lake/namespaces/demo/tables/orders", timeout=30).json()
        columns = [field["name"] for field in orders["metadata"]["schemas"][0]["fields"]]
        assert columns == list(TABLES["orders"])
        policies = httpx.get(f"{server.url}/manage/v1/default/policies", timeout=30).json()["policies"]
        assert [one["name"] for one in policies] == ["demo-retention"]
