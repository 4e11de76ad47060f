"""PyIceberg against a real server: tables and views live their life, and the feed tells each change once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, NamespaceNotEmptyError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.types import StringType

import headwater
from headwater.persistence.coordination.location_reservations import LocationReservations
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake, table_body
from tests.support.servers.feed_server import FeedServer


def operations(branch: FeedBranch) -> list[dict[str, Any]]:
    return [one for change in branch.changes(limit=1000)["changes"] for one in change["operations"]]


def test_namespaces_nest_and_keep_their_properties(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db", {"owner": "ann"})
    catalog.create_namespace(("db", "a/b c"))
    assert catalog.list_namespaces() == [("db",)]
    assert catalog.list_namespaces("db") == [("db", "a/b c")]
    summary = catalog.update_namespace_properties("db", {"owner", "none"}, {"team": "x"})
    assert (summary.removed, summary.updated, summary.missing) == (["owner"], ["team"], ["none"])
    assert catalog.load_namespace_properties("db") == {"team": "x"}
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("db")
    catalog.drop_namespace(("db", "a/b c"))
    catalog.drop_namespace("db")
    assert not catalog.namespace_exists("db")


def test_listings_come_in_pages_of_one_state(lake: IcebergLake) -> None:
    for name in ("a", "b", "c"):
        assert lake.http.post("namespaces", json={"namespace": [name]}).status_code == 200
    page = lake.http.get("namespaces", params={"pageSize": 2, "pageToken": ""}).json()
    assert page["namespaces"] == [["a"], ["b"]]
    lake.http.delete("namespaces/c")
    page = lake.http.get("namespaces", params={"pageSize": 2, "pageToken": page["next-page-token"]}).json()
    assert page == {"namespaces": [["c"]], "next-page-token": None}


def test_a_table_is_created_evolved_filled_read_as_of_the_past_renamed_and_dropped(
    lake: IcebergLake, branch: FeedBranch
) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", ROWS.schema)
    table.append(ROWS)
    first = table.current_snapshot()
    assert first is not None
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(pa.table({"id": pa.array([4], pa.int64()), "name": ["d"], "note": ["new"]}))
    table.delete("id = 1")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]
    assert sorted(table.scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(first.snapshot_id, "start").create_branch(first.snapshot_id, "audit")
    catalog.rename_table("db.orders", "db.sales")
    loaded = catalog.load_table("db.sales")
    assert not catalog.table_exists("db.orders")
    assert (loaded.metadata, loaded.metadata_location) == (table.metadata, table.metadata_location)
    assert loaded.refs().keys() == {"main", "start", "audit"}
    assert catalog.list_tables("db") == [("db", "sales")]
    catalog.drop_table("db.sales")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.sales")

    told = [one for one in operations(branch) if one["type"] == "ICEBERG_TABLE"]
    assert [one["op"] for one in told] == ["put"] * 6 + ["rename", "delete"]
    assert len({one["content_id"] for one in told}) == 1
    locations = [one["after"]["metadata_location"] for one in told if one["op"] == "put"]
    assert len(set(locations)) == 6
    written = [json.loads(Path(urlparse(location).path).read_bytes()) for location in locations]
    snapshots = [one["after"].get("snapshot_id") for one in told if one["op"] == "put"]
    assert snapshots == [one.get("current-snapshot-id") for one in written] and snapshots[1] == first.snapshot_id
    assert len(set(snapshots)) == 4, "none, two appends and a delete"
    assert told[-1]["before"]["metadata_location"] == loaded.metadata_location


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_every_format_version_is_kept(lake: IcebergLake, version: str) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": version})
    assert table.format_version == int(version)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    if version != "3":  # PyIceberg does not write manifests of format 3
        table.append(ROWS)
    assert catalog.load_table("db.t").metadata == table.metadata
    assert version != "3" or lake.http.get("namespaces/db/tables/t").json()["metadata"]["next-row-id"] == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_is_upgraded_to_format_3(lake: IcebergLake, version: int) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})
    lake.http.post("namespaces/db/tables", json=table_body("t", properties={"format-version": str(version)}))
    body = {"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 3}]}
    metadata = lake.http.post("namespaces/db/tables/t", json=body).json()["metadata"]
    assert (metadata["format-version"], metadata["next-row-id"], len(metadata["metadata-log"])) == (3, 0, 1)
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    again = lake.http.post("namespaces/db/tables/t", json=body).json()["metadata"]
    assert (again["format-version"], again["next-row-id"], len(again["metadata-log"])) == (3, 0, 2)


def test_a_table_of_format_3_is_created_by_a_transaction(lake: IcebergLake) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})
    staged = lake.http.post("namespaces/db/tables", json=table_body("t", **{"stage-create": True})).json()["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    made = lake.http.post("namespaces/db/tables/t", json=body)
    assert made.status_code == 200, made.text
    assert (made.json()["metadata"]["format-version"], made.json()["metadata"]["next-row-id"]) == (3, 0)
    assert made.json()["metadata"]["table-uuid"] == staged["table-uuid"]


def test_the_places_of_a_staged_table_are_reserved(lake: IcebergLake, shared_feed: FeedServer) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})

    def reserved() -> set[str]:
        with headwater.open(shared_feed.store_url) as engine:
            return {one.location for one in LocationReservations(engine.store.backend, engine.store.clock).all()}

    staged = lake.http.post("namespaces/db/tables", json=table_body("t", **{"stage-create": True})).json()["metadata"]
    assert staged["location"] in reserved()
    made = lake.http.post("namespaces/db/tables", json=table_body("made")).json()["metadata"]
    assert made["location"] not in reserved()


def test_a_staged_table_is_there_with_its_transaction_and_not_before(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    transaction = catalog.create_table_transaction("db.t", ROWS.schema)
    assert not catalog.table_exists("db.t")
    other = catalog.create_table_transaction("db.t", ROWS.schema)
    transaction.set_properties(made="so").commit_transaction()
    assert catalog.load_table("db.t").properties["made"] == "so"
    with pytest.raises(CommitFailedException):
        other.commit_transaction()
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", ROWS.schema)


def test_a_dropped_table_can_be_registered_again(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    catalog.purge_table("db.t")
    again = catalog.register_table("db.u", table.metadata_location)
    assert len(again.scan().to_arrow()) == 3
    assert again.metadata.table_uuid == table.metadata.table_uuid


def test_loads_know_etags_and_can_leave_out_old_snapshots(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    loaded = lake.http.get("namespaces/db/tables/t")
    assert len(loaded.json()["metadata"]["snapshots"]) == 2
    again = lake.http.get("namespaces/db/tables/t", headers={"If-None-Match": loaded.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    refs = lake.http.get(
        "namespaces/db/tables/t", params={"snapshots": "refs"}, headers={"If-None-Match": loaded.headers["etag"]}
    )
    assert [one["snapshot-id"] for one in refs.json()["metadata"]["snapshots"]] == [table.metadata.current_snapshot_id]
    table.append(ROWS)
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    updated = lake.http.post("namespaces/db/tables/t", json=body)
    known = lake.http.get("namespaces/db/tables/t", headers={"If-None-Match": updated.headers["etag"]})
    assert known.status_code == 304
    changed = lake.http.get("namespaces/db/tables/t", headers={"If-None-Match": loaded.headers["etag"]})
    assert changed.status_code == 200


def test_writers_that_race_for_one_table_lose_no_append(
    lake: IcebergLake, branch: FeedBranch, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    refused: list[int] = []
    broken: list[BaseException] = []
    together = threading.Barrier(2)

    def write(writer: int) -> None:
        mine = lake.catalog().load_table("db.t")
        try:
            for number in range(6):
                row = pa.table({"id": pa.array([writer * 100 + number], pa.int64()), "name": ["x"]})
                together.wait(60)
                for _ in range(50):
                    try:
                        mine.append(row)
                        break
                    except CommitFailedException:
                        refused.append(writer)
                        mine.refresh()
                else:
                    raise AssertionError("it never got through")
        except BaseException as error:
            broken.append(error)
            together.abort()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken
    assert refused or "concurrent update" in caplog.text, "the writers never met"
    ids = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    assert ids == sorted(writer * 100 + number for writer in (1, 2) for number in range(6))
    told = [one for one in operations(branch) if one["type"] == "ICEBERG_TABLE"]
    assert len(told) == 13
    named = {Path(urlparse(one["after"]["metadata_location"]).path) for one in told}
    assert set(next(iter(named)).parent.glob("*.metadata.json")) == named, "a lost race left its metadata file"


def test_tables_of_one_transaction_change_together_in_one_change(lake: IcebergLake, branch: FeedBranch) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})
    uuids = {}
    for name in ("a", "b"):
        created = lake.http.post("namespaces/db/tables", json=table_body(name)).json()
        uuids[name] = created["metadata"]["table-uuid"]

    def change(name: str, uuid: str) -> dict[str, Any]:
        return {
            "identifier": {"namespace": ["db"], "name": name},
            "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
            "updates": [{"action": "set-properties", "updates": {"together": "yes"}}],
        }

    wrong = [change("a", uuids["a"]), change("b", uuids["a"])]
    lake.refused("POST", "transactions/commit", 409, "CommitFailedException", json={"table-changes": wrong})
    seq = branch.changes(limit=1000)["changes"][-1]["seq"]
    right = [change("a", uuids["a"]), change("b", uuids["b"])]
    assert lake.http.post("transactions/commit", json={"table-changes": right}).status_code == 204
    (told,) = branch.changes(after=seq)["changes"]
    assert [one["key"] for one in told["operations"]] == [["db", "a"], ["db", "b"]]
    assert lake.http.get("namespaces/db/tables/b").json()["metadata"]["properties"] == {
        "together": "yes",
        "gc.enabled": "false",
    }


def test_the_same_key_is_answered_as_the_first_time(lake: IcebergLake, branch: FeedBranch) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})
    key = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
    first = lake.http.post("namespaces/db/tables", json=table_body("t"), headers=key)
    again = lake.http.post("namespaces/db/tables", json=table_body("t"), headers=key)
    assert first.json() == again.json()
    assert len(operations(branch)) == 2
    lake.refused("POST", "namespaces/db/tables", 422, "UnprocessableEntityException", json=table_body("u"), headers=key)


def test_a_correlation_id_is_found_in_the_commit(lake: IcebergLake, branch: FeedBranch) -> None:
    made = lake.http.post("namespaces", json={"namespace": ["traced"]}, headers={"X-Correlation-ID": "job-9"})
    assert made.status_code == 200 and made.headers["x-correlation-id"] == "job-9", made.text
    assert branch.changes()["changes"][-1]["headers"]["x-correlation-id"] == "job-9"
