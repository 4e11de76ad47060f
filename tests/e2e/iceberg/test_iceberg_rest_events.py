"""`POST …/events`: each committed change once, in order, page by page, across filters and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake, table_body, view_body
from tests.support.servers.served import served

KEY = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}


def fill(lake: IcebergLake) -> dict[str, str]:
    """A namespace, two tables, a view, and what can happen to them; the uuids of the tables."""
    post = lake.http.post
    post("namespaces", json={"namespace": ["acc"], "properties": {"a": "1"}})
    post("namespaces", json={"namespace": ["accounting"]})
    post("namespaces/acc/properties", json={"updates": {"b": "2"}, "removals": ["a"]})
    uuids = {name: post("namespaces/acc/tables", json=table_body(name)).json()["metadata"]["table-uuid"] for name in ("t", "u")}
    update = [{"action": "set-properties", "updates": {"x": "y"}}]
    changes = [{"identifier": {"namespace": ["acc"], "name": name}, "requirements": [], "updates": update} for name in uuids]
    post("transactions/commit", json={"table-changes": changes})
    post("namespaces/accounting/views", json=view_body("v"))
    rename = {"source": {"namespace": ["acc"], "name": "u"}, "destination": {"namespace": ["accounting"], "name": "w"}}
    assert post("tables/rename", json=rename).status_code == 204
    assert lake.http.delete("namespaces/acc/tables/t", params={"purgeRequested": "true"}).status_code == 204
    return uuids


def types(page: dict[str, Any]) -> list[str]:
    return [event["operation"]["operation-type"] for event in page["events"]]


TOLD = [
    "x-headwater.branch-create",
    "create-namespace",
    "create-namespace",
    "update-namespace-properties",
    "create-table",
    "create-table",
    "update-table",
    "update-table",
    "create-view",
    "rename-table",
    "drop-table",
]


def test_every_change_is_delivered_once_and_in_order(lake: IcebergLake) -> None:
    uuids = fill(lake)
    page = lake.events()
    assert types(page) == TOLD
    events = page["events"]
    assert len({event["event-id"] for event in events}) == len(events)
    created, together, renamed, dropped = events[4]["operation"], events[6:8], events[9]["operation"], events[10]["operation"]
    assert created["table-uuid"] == uuids["t"]
    assert created["identifier"] == {"namespace": ["acc"], "name": "t"}
    assert {update["action"] for update in created["updates"]} >= {"add-schema", "set-location"}
    assert [event["request-event-count"] for event in together] == [2, 2]
    assert len({event["request-id"] for event in together}) == 1
    assert together[0]["operation"]["updates"] == [{"action": "set-properties", "updates": {"x": "y"}}]
    assert (renamed["source"]["name"], renamed["destination"]["name"]) == ("u", "w")
    assert dropped["purge"] is True
    assert events[3]["operation"] == {
        "operation-type": "update-namespace-properties",
        "namespace": ["acc"],
        "updated": ["b"],
        "removed": ["a"],
    }


def test_a_reader_at_the_end_gets_a_token_for_later_events(lake: IcebergLake) -> None:
    token = lake.events()["continuation-token"]
    page = lake.events(continuation_token=token)
    assert page["events"] == []
    lake.http.post("namespaces", json={"namespace": ["later"]})
    assert types(lake.events(continuation_token=page["continuation-token"])) == ["create-namespace"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_of_any_size_add_up_also_within_a_transaction(lake: IcebergLake, size: int) -> None:
    fill(lake)
    whole = lake.events()["events"]
    read: list[dict[str, Any]] = []
    page = lake.events(page_size=size)
    while page["events"]:
        assert len(page["events"]) <= size
        read += page["events"]
        page = lake.events(page_size=size, continuation_token=page["continuation-token"])
    assert read == whole


def test_filters_go_by_level_kind_and_uuid(lake: IcebergLake) -> None:
    uuids = fill(lake)
    assert types(lake.events(object_types=["view"])) == ["create-view"]
    assert types(lake.events(operation_types=["rename-table", "drop-table"])) == ["rename-table", "drop-table"]
    below = lake.events(catalog_objects_by_name=[["acc"]], object_types=["namespace"])
    assert [event["operation"]["namespace"] for event in below["events"]] == [["acc"], ["acc"]]
    assert types(lake.events(catalog_objects_by_name=[["accounting", "w"]])) == ["rename-table"]
    of_one = lake.events(catalog_objects_by_uuid=[uuids["u"]])
    assert types(of_one) == ["create-table", "update-table", "rename-table"]
    more = lake.events(continuation_token=of_one["continuation-token"])
    assert more["events"] == []
    lake.http.post("namespaces", json={"namespace": ["unrelated"]})
    assert lake.events(continuation_token=more["continuation-token"])["events"] == []
    query = {"continuation-token": of_one["continuation-token"], "object-types": ["view"]}
    lake.refused("POST", "events", 400, "BadRequestException", json=query)


def test_a_reader_can_begin_at_a_time(lake: IcebergLake) -> None:
    fill(lake)
    events = lake.events()["events"]
    since = events[8]["timestamp-ms"]
    expected = [event for event in events if event["timestamp-ms"] >= since]
    assert lake.events(since_timestamp_ms=since)["events"] == expected
    assert lake.events(since_timestamp_ms=since + 10**9)["events"] == []
    assert lake.events(since_timestamp_ms=-5)["events"] == events


@pytest.mark.parametrize(
    "body",
    [
        {"continuation-token": "zzz"},
        {"page-size": 0},
        {"page-size": "x"},
        {"object-types": ["cow"]},
        {"custom-filters": {"a": "b"}},
        {"catalog-objects-by-name": ["a"]},
    ],
    ids=str,
)
def test_invalid_queries_are_refused(lake: IcebergLake, body: dict[str, Any]) -> None:
    lake.refused("POST", "events", 400, "BadRequestException", json=body)


def test_commits_through_other_apis_are_events_too(lake: IcebergLake, branch: FeedBranch) -> None:
    branch.commit("db", "db.t")
    assert types(lake.events())[1:] == ["create-namespace", "create-table"]
    assert lake.events()["events"][-1]["operation"]["updates"] == []


def test_tokens_and_keys_outlive_a_killed_server(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/lake.db") as server:
        with iceberg_lake(server.url, "lake") as lake:
            lake.http.post("namespaces", json={"namespace": ["db"]})
            token = lake.events(page_size=1)["continuation-token"]
            first = lake.http.post("namespaces/db/tables", json=table_body("t"), headers=KEY)
            whole = lake.events()["events"]
            server.kill9()
            server.start()
        with iceberg_lake(server.url, "lake") as lake:
            assert lake.events(continuation_token=token)["events"] == whole[1:]
            again = lake.http.post("namespaces/db/tables", json=table_body("t"), headers=KEY)
            assert again.json() == first.json()
            assert lake.events()["events"] == whole
