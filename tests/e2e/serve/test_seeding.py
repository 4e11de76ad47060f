"""`serve --seed` creates demo data with real tables once, even if several servers seed at once or one dies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import httpx
import pytest

import headwater
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import Store, open_store
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import RealmNotFound
from headwater.service import seeding
from headwater.service.seeding import TABLES, seed
from tests.support.fixtures.publisher_runs import wait_until
from tests.support.servers.feed_server import feed_server
from tests.support.servers.ports import free_port

ENTRIES = 1 + 1 + len(TABLES) + 2
"""The branch, a namespace, the tables, rows in one of them, and a view."""


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
    assert entries(store) == ENTRIES
    assert not seed(store, url, "default") and entries(store) == ENTRIES


def test_seeding_completes_after_a_crash_and_does_not_restore_dropped_objects(store: Store, url: str) -> None:
    died = RuntimeError("died here")
    with mock.patch.object(seeding, "_let_in", side_effect=died), pytest.raises(RuntimeError, match="died here"):
        seed(store, url, "default")
    assert seed(store, url, "default") and entries(store) == ENTRIES
    kernel = Realms(store).require_active("default")
    Connectors(kernel, {}).delete("partner", meta=WriteMeta("test"))
    Catalogs(kernel).drop("lake", meta=CommitMeta("test"))
    assert seed(store, url, "default"), "another catalog of that name is filled anew"


def test_a_missing_realm_is_not_created_implicitly(store: Store, url: str) -> None:
    with pytest.raises(RealmNotFound):
        seed(store, url, "none")


def test_a_seeded_server_serves_real_tables(url: str) -> None:
    with feed_server(url, "--seed", settings={"grpc_port": (grpc_port := free_port())}) as server:
        tables = httpx.get(f"{server.url}/iceberg/v1/lake/namespaces/demo/tables", timeout=30).json()
        assert sorted(one["name"] for one in tables["identifiers"]) == sorted(TABLES)
        orders = httpx.get(f"{server.url}/iceberg/v1/lake/namespaces/demo/tables/orders", timeout=30).json()
        columns = [field["name"] for field in orders["metadata"]["schemas"][0]["fields"]]
        assert columns == list(TABLES["orders"])
        policies = httpx.get(f"{server.url}/manage/v1/default/policies", timeout=30).json()["policies"]
        assert [one["name"] for one in policies] == ["demo-retention"]
        manage = f"{server.url}/manage/v1/default"
        (connector,) = httpx.get(f"{manage}/connectors", timeout=30).json()["connectors"]
        assert (connector["name"], connector["status"], connector["path"]) == ("partner", "PAUSED", ["partner"])
        statistics = f"{manage}/catalogs/lake/namespaces/demo/tables/orders/snapshots/current/statistics"
        totals = httpx.get(statistics, timeout=30).json()
        assert (totals["source"], totals["table"]["row_count"]) == ("published", 12), totals
        columns = httpx.get(f"{statistics}/columns", timeout=30).json()["columns"]
        assert [one["distinct"]["count"] for one in columns] == [12, 4]
        view = httpx.get(f"{server.url}/iceberg/v1/lake/namespaces/demo/views/revenue", timeout=30).json()
        assert "FROM orders" in view["metadata"]["versions"][0]["representations"][0]["sql"]
        with headwater.connect(f"grpc://127.0.0.1:{grpc_port}") as remote:
            kinds = {one.key: one.type for one in remote.realm("default").catalog("lake").branch("main").snapshot()}
        assert kinds[("demo", "orders")] == "ICEBERG_TABLE" and kinds[("demo", "revenue")] == "ICEBERG_VIEW"

        assert httpx.put(f"{manage}/connectors/partner", json={"status": "ACTIVE"}, timeout=30).is_success
        job = httpx.post(f"{manage}/connectors/partner/jobs", json={}, timeout=30).json()
        state = f"{manage}/connectors/partner/jobs/{job['id']}"
        wait_until(lambda: httpx.get(state, timeout=30).json()["state"] == "SUCCEEDED", "the connector follows its source")
        snapshot = httpx.get(f"{server.feed}/snapshot", params={"catalog": "lake", "branch": "main"}, timeout=30).json()
        assert ["partner", "sales", "leads"] in [one["key"] for one in snapshot["entries"]]
