"""The catalog setting `table_overlap`: no table is created, registered or moved onto another table's files."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake, table_body
from tests.support.servers.feed_server import FeedServer

_numbers = itertools.count(1)
TABLES = "namespaces/db/tables"


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"file://{tmp_path}"


@pytest.fixture
def lake(shared_feed: FeedServer, root: str) -> Iterator[IcebergLake]:
    name = f"overlap{next(_numbers)}"
    made = httpx.post(f"{shared_feed.url}/manage/v1/default/catalogs", json={"name": name, "storage_root": root}, timeout=30)
    assert made.status_code == 201, made.text
    with iceberg_lake(shared_feed.url, name) as opened:
        opened.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        opened.http.post(TABLES, json=table_body("a", location=f"{root}/places/a")).raise_for_status()
        yield opened


def move(location: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-location", "location": location}]}


OVERLAPPING = ["places/a", "places/a/", "places//a", "places/a/below", "places", "db"]


@pytest.mark.parametrize("place", OVERLAPPING)
def test_no_table_is_created_staged_or_moved_onto_another(lake: IcebergLake, root: str, place: str) -> None:
    location = f"{root}/{place}"
    lake.http.post(TABLES, json=table_body("b")).raise_for_status()
    for body in (
        table_body("c", location=location),
        table_body("c", location=location, **{"stage-create": True}),
        table_body("c", properties={"write.data.path": location}),
    ):
        assert "another table" in lake.refused("POST", TABLES, 400, "BadRequestException", json=body)
    assert "another table" in lake.refused("POST", f"{TABLES}/b", 400, "BadRequestException", json=move(location))
    assert lake.http.head(f"{TABLES}/c").status_code == 404


@pytest.mark.parametrize(
    ("place", "properties"),
    [
        ("apart/data", {"write.data.path": "apart/data"}),
        ("apart/data/below", {"write.object-storage.path": "apart/data"}),
        ("apart/home", {"write.metadata.path": "apart/meta/metadata"}),
        ("apart/home/data", {"write.metadata.path": "apart/home/deep/metadata"}),
        ("apart/meta", {"write.metadata.path": "apart/meta/metadata"}),
    ],
)
@pytest.mark.parametrize("way", ["created", "updated", "committed"])
def test_files_that_a_table_keeps_apart_from_its_metadata_are_its_own(
    lake: IcebergLake, shared_feed: FeedServer, root: str, tmp_path: Path, place: str, properties: dict[str, str], way: str
) -> None:
    properties = {name: f"{root}/{path}" for name, path in properties.items()}
    body = table_body("b", location=f"{root}/apart/home")
    if way == "created":
        lake.http.post(TABLES, json={**body, "properties": properties}).raise_for_status()
    elif way == "updated":
        lake.http.post(TABLES, json=body).raise_for_status()
        updates = [{"action": "set-properties", "updates": properties}]
        lake.http.post(f"{TABLES}/b", json={"requirements": [], "updates": updates}).raise_for_status()
    else:  # with metadata of another writer
        staged = lake.http.post(TABLES, json={**body, "properties": properties, "stage-create": True}).json()["metadata"]
        file = Path(
            properties.get("write.metadata.path", f"{root}/apart/home/metadata").removeprefix("file://"), "00001-x.json"
        )
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(staged))
        put = {"op": "put", "key": ["db", "b"], "type": "ICEBERG_TABLE", "content": {"metadata_location": file.as_uri()}}
        commit = {"catalog": lake.warehouse, "operations": [put]}
        httpx.post(f"{shared_feed.feed}/commit", json=commit, timeout=30).raise_for_status()
    location = f"{root}/{place}"
    assert "another table" in lake.refused("POST", TABLES, 400, "BadRequestException", json=table_body("c", location=location))
    lake.http.post(TABLES, json=table_body("c", location=f"{root}/apart/free")).raise_for_status()


def test_neighbours_and_a_tables_own_place_are_free(lake: IcebergLake, root: str) -> None:
    for name, place in (("b", "places/a2"), ("c", "places/b/c"), ("d", "db/d")):
        lake.http.post(TABLES, json=table_body(name, location=f"{root}/{place}")).raise_for_status()
    lake.http.post(f"{TABLES}/a", json=move(f"{root}/places/a")).raise_for_status()
    lake.http.post(f"{TABLES}/a", json=move(f"{root}/places/a/deeper")).raise_for_status()


def test_a_place_is_free_again_after_a_drop_and_follows_a_rename(lake: IcebergLake, root: str) -> None:
    renaming = {name: {"namespace": ["db"], "name": table} for name, table in (("source", "a"), ("destination", "z"))}
    lake.http.post("tables/rename", json=renaming).raise_for_status()
    body = table_body("a", location=f"{root}/places/a")
    lake.refused("POST", TABLES, 400, "BadRequestException", json=body)
    lake.http.delete(f"{TABLES}/z").raise_for_status()
    lake.http.post(TABLES, json=body).raise_for_status()


def test_a_table_is_not_registered_twice(lake: IcebergLake) -> None:
    location = lake.http.get(f"{TABLES}/a").json()["metadata-location"]
    registration = {"name": "again", "metadata-location": location}
    lake.refused("POST", "namespaces/db/register", 400, "BadRequestException", json=registration)
    lake.http.delete(f"{TABLES}/a").raise_for_status()
    lake.http.post("namespaces/db/register", json=registration).raise_for_status()


def test_tables_of_one_transaction_are_compared_with_each_other(lake: IcebergLake, root: str) -> None:
    lake.http.post(TABLES, json=table_body("b")).raise_for_status()
    changes = [
        {"identifier": {"namespace": ["db"], "name": name}, **move(f"{root}/new/{place}")}
        for name, place in (("a", "x"), ("b", "x/y"))
    ]
    lake.refused("POST", "transactions/commit", 400, "BadRequestException", json={"table-changes": changes})


def test_a_branch_that_was_assigned_elsewhere_is_read_again(lake: IcebergLake, shared_feed: FeedServer, root: str) -> None:
    references = f"{shared_feed.url}/manage/v1/default/catalogs/{lake.warehouse}/references"
    assert httpx.post(references, json={"name": "old", "type": "branch"}, timeout=30).status_code == 201
    with iceberg_lake(shared_feed.url, f"{lake.warehouse}@old") as old:
        old.http.post(TABLES, json=table_body("b", location=f"{root}/places/b")).raise_for_status()
        old.http.delete(f"{TABLES}/a").raise_for_status()
        old.http.post(TABLES, json=table_body("c", location=f"{root}/places/a/c")).raise_for_status()
    lake.refused("POST", TABLES, 400, "BadRequestException", json=table_body("c", location=f"{root}/places/a/c"))


def test_of_two_at_the_same_moment_one_is_refused(lake: IcebergLake, root: str) -> None:
    for turn in range(5):
        statuses: list[int] = []

        def create(name: str, place: str, statuses: list[int] = statuses) -> None:
            statuses.append(lake.http.post(TABLES, json=table_body(name, location=f"{root}/{place}")).status_code)

        threads = [
            threading.Thread(target=create, args=(f"t{turn}_{one}", f"at-once/{turn}{'/below' * one}")) for one in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 400, 400]


def test_a_catalog_may_allow_it(lake: IcebergLake, shared_feed: FeedServer, root: str) -> None:
    catalog = f"{shared_feed.url}/manage/v1/default/catalogs/{lake.warehouse}"
    body = table_body("b", location=f"{root}/places/a")
    lake.refused("POST", TABLES, 400, "BadRequestException", json=body)
    assert httpx.patch(catalog, json={"properties": {"table_overlap": "allow"}}, timeout=30).status_code == 200
    lake.http.post(TABLES, json=body).raise_for_status()
    lake.refused("POST", TABLES, 409, "AlreadyExistsException", json=body)
