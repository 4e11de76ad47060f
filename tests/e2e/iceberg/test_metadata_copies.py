"""A cold server loads tables and views from the store's copies of their metadata, without object storage."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.persistence.rows import Table
from headwater.persistence.store import open_store
from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake, table_body, view_body
from tests.support.servers.feed_server import feed_server
from tests.support.servers.moto_server import BUCKET, MotoServer, moto_server

ROOT = f"s3://{BUCKET}/warehouse"
WAIT_SECONDS = 60.0
LOADED = ("tables/orders", "tables/returns", "views/totals")


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        yield server


class Store:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/lake.db"
        with headwater.open(self.url, create=True) as engine:
            engine.ensure_realm().create_catalog("remote", storage_root=ROOT)

    def settings(self, moto: MotoServer | None, **more: str) -> dict[str, str]:
        options = {"s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1"} if moto is None else {}
        known = (moto or MotoServer("")).options | options
        return {"storage_options": shlex.join(f"{name}={value}" for name, value in known.items()), **more}

    def copies(self) -> int:
        with open_store(self.url) as store:
            rows = (row for split in store.backend.splits(Table.OBJECTS, 1) for row in store.backend.scan(split))
            return sum(row.type == "metadata-copy" for row in rows)

    def wait_for_copies(self, count: int) -> None:
        """They are written behind the requests."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.copies()) != count:
            assert time.monotonic() < deadline, f"{found} copies, not {count}"
            time.sleep(0.1)


def fill(lake: IcebergLake) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
    for name in ("orders", "returns", "gone"):
        lake.http.post("namespaces/db/tables", json=table_body(name)).raise_for_status()
    lake.http.post("namespaces/db/views", json=view_body("totals")).raise_for_status()
    lake.http.delete("namespaces/db/tables/gone").raise_for_status()
    set_property(lake, "orders", "1")


def set_property(lake: IcebergLake, table: str, value: str) -> None:
    updates = [{"action": "set-properties", "updates": {"n": value}}]
    lake.http.post(f"namespaces/db/tables/{table}", json={"requirements": [], "updates": updates}).raise_for_status()


def loaded(lake: IcebergLake) -> dict[str, Any]:
    answers = {path: lake.http.get(f"namespaces/db/{path}") for path in LOADED}
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(LOADED, 200)
    return {path: answer.json()["metadata"] for path, answer in answers.items()}


def test_a_cold_server_loads_what_was_committed_without_object_storage(moto: MotoServer, tmp_path: Path) -> None:
    """One copy for each table and view as it is now: those that were replaced or dropped have gone."""
    store = Store(tmp_path)
    with feed_server(store.url, settings=store.settings(moto)) as server, iceberg_lake(server.url, "remote") as lake:
        fill(lake)
        before = loaded(lake)
        store.wait_for_copies(3)
    with feed_server(store.url, settings=store.settings(None)) as cold, iceberg_lake(cold.url, "remote") as lake:
        assert loaded(lake) == before
        assert before["tables/orders"]["properties"]["n"] == "1"


def test_metadata_without_a_copy_is_read_from_its_file_and_copied(moto: MotoServer, tmp_path: Path) -> None:
    store = Store(tmp_path)
    off = store.settings(moto, metadata_copy_bytes_max="0")
    with feed_server(store.url, settings=off) as server, iceberg_lake(server.url, "remote") as lake:
        fill(lake)
        before = loaded(lake)
    assert store.copies() == 0
    with feed_server(store.url, settings=store.settings(None)) as cold, iceberg_lake(cold.url, "remote") as lake:
        assert lake.http.get("namespaces/db/tables/orders").status_code == 503, "without a copy its file is needed"
    with feed_server(store.url, settings=store.settings(moto)) as server, iceberg_lake(server.url, "remote") as lake:
        assert loaded(lake) == before
        store.wait_for_copies(3)
    with feed_server(store.url, settings=store.settings(None)) as cold, iceberg_lake(cold.url, "remote") as lake:
        assert loaded(lake) == before
