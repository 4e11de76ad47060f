"""Views through the Iceberg API, and references of every kind in the name of the warehouse."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import ViewVersion

from headwater.embedded import CatalogHandle
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake, table_body, view_body, view_version


def operations(branch: FeedBranch) -> list[dict[str, Any]]:
    return [one for change in branch.changes(limit=1000)["changes"] for one in change["operations"]]


def test_views_are_created_listed_and_dropped(lake: IcebergLake, branch: FeedBranch) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    version = ViewVersion.model_validate(view_version(1, 1, "select 1"))
    catalog.create_view("db.v", Schema(NestedField(1, "id", LongType(), required=False)), version)
    assert catalog.list_views("db") == [("db", "v")]
    assert catalog.list_tables("db") == []
    assert catalog.view_exists("db.v")
    assert catalog.load_view("db.v").metadata.current_version_id == 1
    catalog.drop_view("db.v")
    assert not catalog.view_exists("db.v")
    told = [one for one in operations(branch) if one["type"] == "ICEBERG_VIEW"]
    assert [(one["op"], (one["after"] or {}).get("version_id")) for one in told] == [("put", 1), ("delete", None)]


def test_a_view_is_replaced_and_renamed(lake: IcebergLake) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]})
    made = lake.http.post("namespaces/db/views", json=view_body("v")).json()
    uuid = made["metadata"]["view-uuid"]
    schema = {"type": "struct", "fields": [{"id": 1, "name": "other", "type": "string", "required": False}]}
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": view_version(2, -1, "select 2")},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    body = {"requirements": [{"type": "assert-view-uuid", "uuid": uuid}], "updates": updates}
    replaced = lake.http.post("namespaces/db/views/v", json=body).json()["metadata"]
    assert replaced["current-version-id"] == 2
    assert [one["schema-id"] for one in replaced["versions"]] == [0, 1]
    wrong = {**body, "requirements": [{"type": "assert-view-uuid", "uuid": "0" * 8 + uuid[8:]}]}
    lake.refused("POST", "namespaces/db/views/v", 409, "CommitFailedException", json=wrong)
    rename = {"source": {"namespace": ["db"], "name": "v"}, "destination": {"namespace": ["db"], "name": "w"}}
    assert lake.http.post("views/rename", json=rename).status_code == 204
    assert lake.http.get("namespaces/db/views/w").json()["metadata"] == replaced
    lake.refused("GET", "namespaces/db/tables/w", 404, "NoSuchTableException")
    lake.refused("POST", "namespaces/db/tables", 409, "AlreadyExistsException", json=table_body("w"))


@pytest.mark.parametrize("kind", ["tag", "commit"])
def test_a_tag_and_a_commit_are_read_and_not_written(
    lake: IcebergLake, branch: FeedBranch, shared_lake: CatalogHandle, kind: str
) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
    made = lake.http.post("namespaces/db/tables", json=table_body("t")).json()
    commit_id = branch.handle.info().commit_id
    if kind == "tag":
        shared_lake.create_tag(f"tag-{branch.name}", branch.name)
    warehouse = f"lake@tag-{branch.name}" if kind == "tag" else f"lake@{branch.name}@{commit_id}"
    lake.http.delete("namespaces/db/tables/t").raise_for_status()
    seq = branch.handle.info().seq
    with iceberg_lake(branch.server.url, warehouse) as past:
        assert past.http.get("namespaces/db/tables/t").json()["metadata"] == made["metadata"]
        assert past.http.get("namespaces/db/tables").json()["identifiers"] == [{"namespace": ["db"], "name": "t"}]
        for method, path, body in (
            ("POST", "namespaces/db/tables", table_body("u")),
            ("POST", "namespaces/db/tables/t", {"requirements": [], "updates": []}),
            ("DELETE", "namespaces/db/tables/t?purgeRequested=true", None),
            ("POST", "namespaces/db/views", view_body("v")),
        ):
            refused = past.http.request(method, path, **({} if body is None else {"json": body}))
            assert 400 <= refused.status_code < 500, refused.text
            assert refused.json()["error"]["message"]
        assert past.http.get("namespaces/db/tables/t").json()["metadata"] == made["metadata"]
    assert branch.handle.info().seq == seq


def test_the_name_of_a_branch_may_hold_a_slash(branch: FeedBranch, shared_lake: CatalogHandle) -> None:
    name = f"feature/{branch.name}"
    shared_lake.create_branch(name, "empty")
    with iceberg_lake(branch.server.url, f"lake@{name}") as lake:
        assert str(lake.http.base_url).endswith(f"lake@feature:{branch.name}/")
        lake.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        assert lake.catalog().list_namespaces() == [("db",)]
    assert httpx.get(f"{lake.url}/v1/lake@{branch.name}/namespaces").json()["namespaces"] == []
