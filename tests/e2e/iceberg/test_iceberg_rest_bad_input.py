"""Malformed, forbidden and unsupported requests: refused in the specification's error shape, with nothing written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import pytest

from headwater import IcebergTable, IcebergView, Put
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, table_body, view_body

BAD = "BadRequestException"


@pytest.fixture
def table(lake: IcebergLake) -> dict[str, Any]:
    assert lake.http.post("namespaces", json={"namespace": ["db"]}).status_code == 200
    made: dict[str, Any] = lake.http.post("namespaces/db/tables", json=table_body("t")).json()
    return made


def head(branch: FeedBranch) -> int:
    seq: int = branch.handle.info().seq
    return seq


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"namespace": "x"}',
        b'{"namespace": []}',
        b'{"namespace": [""]}',
        b"\xff",
        b'{"a":' * 50_000,
        b"[" * 900,
    ],
    ids=["empty", "cut", "array", "no list", "no level", "empty level", "no utf-8", "deep object", "deep array"],
)
def test_bodies_that_are_no_request_are_refused(lake: IcebergLake, branch: FeedBranch, content: bytes) -> None:
    before = head(branch)
    lake.refused("POST", "namespaces", 400, BAD, content=content)
    assert head(branch) == before


def test_a_body_that_is_too_large_is_refused(lake: IcebergLake) -> None:
    lake.refused("POST", "namespaces", 413, BAD, content=b" " * 2_000_000)


@pytest.mark.parametrize(
    ("method", "path", "status", "type"),
    [
        ("GET", "namespaces/none", 404, "NoSuchNamespaceException"),
        ("DELETE", "namespaces/none", 404, "NoSuchNamespaceException"),
        ("GET", "namespaces/none/tables", 404, "NoSuchNamespaceException"),
        ("GET", "namespaces?parent=none", 404, "NoSuchNamespaceException"),
        ("GET", "namespaces/db/tables/none", 404, "NoSuchTableException"),
        ("DELETE", "namespaces/db/tables/none", 404, "NoSuchTableException"),
        ("GET", "namespaces/db/views/t", 404, "NoSuchViewException"),
        ("GET", "namespaces/db/tables/t?snapshots=some", 400, BAD),
        ("GET", "namespaces?pageToken=zzz", 400, BAD),
        ("GET", "namespaces?pageSize=-1", 400, BAD),
        ("GET", "namespaces?pageSize=0", 400, BAD),
        ("GET", "namespaces/%ff", 400, BAD),
        ("GET", "namespaces/a%1F%1Fb", 400, BAD),
        ("DELETE", "namespaces/db/tables/t?purgeRequested=maybe", 400, BAD),
        ("GET", "nothing/here/at/all", 404, "NotFoundException"),
        ("PUT", "namespaces", 405, "NotFoundException"),
        ("DELETE", "namespaces/db", 409, "NamespaceNotEmptyException"),
    ],
)
def test_what_is_missing_or_invalid_is_refused(
    lake: IcebergLake, branch: FeedBranch, table: dict[str, Any], method: str, path: str, status: int, type: str
) -> None:
    before = head(branch)
    lake.refused(method, path, status, type)
    assert head(branch) == before


def test_head_requests_for_missing_objects_have_no_body(lake: IcebergLake, table: dict[str, Any]) -> None:
    for path in ("namespaces/none", "namespaces/db/tables/none", "namespaces/db/views/t"):
        answer = lake.http.head(path)
        assert (answer.status_code, answer.content) == (404, b"")
    assert lake.http.head("namespaces/db/tables/t").status_code == 204


@pytest.mark.parametrize("warehouse", ["none", "lake@none", "@", "lake@..", "lake@a b"])
def test_warehouses_that_are_not_there_are_refused(lake: IcebergLake, warehouse: str) -> None:
    answer = httpx.get(f"{lake.url}/v1/config", params={"warehouse": warehouse})
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["code"] == answer.status_code


@pytest.mark.parametrize("update", [{"action": "fly"}, {}, {"action": "add-view-version"}, {"action": None}])
def test_unknown_updates_are_refused(lake: IcebergLake, table: dict[str, Any], update: dict[str, Any]) -> None:
    lake.refused("POST", "namespaces/db/tables/t", 400, BAD, json={"requirements": [], "updates": [update]})


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-current-schema", "schema-id": 77},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-default-spec", "spec-id": 77},
        {"action": "set-default-sort-order", "sort-order-id": 77},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "upgrade-format-version", "format-version": 99},
        {"action": "assign-uuid", "uuid": "12345678-1234-1234-1234-123456789abc"},
        {"action": "assign-uuid", "uuid": "no"},
        {"action": "add-schema", "schema": {"type": "struct", "fields": [{"id": "x"}]}},
        {"action": "add-snapshot", "snapshot": {}},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
        {"action": "set-statistics"},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-statistics", "snapshot-id": 4},
    ],
    ids=str,
)
def test_updates_that_contradict_the_table_are_refused(
    lake: IcebergLake, branch: FeedBranch, table: dict[str, Any], update: dict[str, Any]
) -> None:
    before = head(branch)
    lake.refused("POST", "namespaces/db/tables/t", 400, BAD, json={"requirements": [], "updates": [update]})
    assert head(branch) == before
    folder = Path(urlparse(table["metadata-location"]).path).parent
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc",
        "/etc/x",
        "s3://bucket/x",
        "{root}/../x",
        "{root}/a/../../x",
        "{root}/%2e%2e/x",
        "{root}x/y",
        "{root}",
        "{root}/a\\..\\b",
        "{root}/a\u0000b",
        "{root}/link/x",
        "{root}/" + "x" * 5_000,
    ],
)
def test_no_location_leads_out_of_the_warehouse(
    lake: IcebergLake, branch: FeedBranch, table: dict[str, Any], tmp_path: Path, location: str
) -> None:
    root = table["metadata"]["location"].rpartition("/db/")[0]
    link = Path(urlparse(root).path) / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path)
    wanted = location.format(root=root)
    before = head(branch)
    lake.refused("POST", "namespaces/db/tables", 400, BAD, json=table_body("u", location=wanted))
    lake.refused("POST", "namespaces/db/views", 400, BAD, json=view_body("u", location=wanted))
    registration = {"name": "u", "metadata-location": f"{wanted}/00000-x.metadata.json"}
    refusal = (404, "NotFoundException") if location == "{root}" else (400, BAD)  # a file there is inside, and missing
    lake.refused("POST", "namespaces/db/register", *refusal, json=registration)
    for update in (
        {"action": "set-location", "location": wanted},
        {"action": "set-properties", "updates": {"write.metadata.path": wanted}},
        {"action": "set-properties", "updates": {"write.data.path": wanted}},
    ):
        lake.refused("POST", "namespaces/db/tables/t", 400, BAD, json={"requirements": [], "updates": [update]})
    assert head(branch) == before
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_none_cannot_be_registered(lake: IcebergLake, table: dict[str, Any]) -> None:
    folder = Path(urlparse(table["metadata-location"]).path).parent
    for number, content in enumerate((b"", b"{}", b"[1]", b'{"format-version": 7}', b"\xff\xfe", b'{"a":' * 20_000)):
        file = folder / f"0000{number}-bad.metadata.json"
        file.write_bytes(content)
        lake.refused("POST", "namespaces/db/register", 400, BAD, json={"name": "u", "metadata-location": file.as_uri()})


def test_a_property_that_is_set_and_removed_at_once_is_refused(lake: IcebergLake, table: dict[str, Any]) -> None:
    body = {"updates": {"a": "1"}, "removals": ["a"]}
    lake.refused("POST", "namespaces/db/properties", 422, "UnprocessableEntityException", json=body)


def test_names_from_outside_become_harmless_folders(lake: IcebergLake) -> None:
    assert lake.http.post("namespaces", json={"namespace": ["../.."]}).status_code == 200
    made = lake.http.post("namespaces/..%2F../tables", json=table_body("../../x")).json()
    assert ".." not in made["metadata"]["location"]
    assert lake.http.get("namespaces/..%2F../tables/..%2F..%2Fx").json()["metadata"] == made["metadata"]


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"y": value}
    return value


@pytest.mark.parametrize("depth", [90, 300, 480, 900, 990])
def test_deep_nesting_is_kept_or_refused_and_never_a_fault(lake: IcebergLake, table: dict[str, Any], depth: int) -> None:
    """Unknown fields are kept as they are: so they must also be written again."""
    snapshot = {"snapshot-id": 1, "timestamp-ms": 1, "sequence-number": 1, "summary": {"operation": "append"}}
    snapshot |= {"manifest-list": f"{table['metadata']['location']}/m.avro", "x-deep": nested(depth)}
    view = view_body("v")
    view["view-version"]["x-deep"] = nested(depth)
    version = [{"action": "set-properties", "updates": {"a": "b"}}]
    field = {"id": 1, "name": "id", "required": False, "type": "long"}
    for _ in range(depth // 2):
        field = {"id": 1, "name": "id", "required": False, "type": {"type": "struct", "fields": [field]}}
    answers = [
        lake.http.post(
            "namespaces/db/tables/t", content=as_json({"updates": [{"action": "add-snapshot", "snapshot": snapshot}]})
        ),
        lake.http.post("namespaces/db/tables/t", content=as_json({"updates": version})),
        lake.http.post("namespaces/db/views", content=as_json(view)),
        lake.http.post("namespaces/db/views/v", content=as_json({"updates": version})),
        lake.http.post("namespaces/db/tables", content=as_json({**table_body("u"), "schema": {"fields": [field]}})),
    ]
    for answer in answers:
        assert answer.status_code in (200, 400, 404), answer.text[:500]
    assert answers[0].status_code == answers[1].status_code == 200 or depth >= 900


def as_json(value: Any) -> bytes:
    """Python's own way has less patience with nesting than the server."""
    with_depth = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(value).encode()
    finally:
        sys.setrecursionlimit(with_depth)


@pytest.mark.parametrize("outside", ["file:///etc/x", "s3://bucket/x", "{root}/../x"])
def test_no_file_that_an_update_names_lies_outside(
    lake: IcebergLake, branch: FeedBranch, table: dict[str, Any], outside: str
) -> None:
    place = outside.format(root=table["metadata"]["location"].rpartition("/db/")[0])
    statistics = {"snapshot-id": 1, "statistics-path": place, "file-size-in-bytes": 1}
    snapshot = {"snapshot-id": 1, "timestamp-ms": 1, "sequence-number": 1, "summary": {"operation": "append"}}
    before = head(branch)
    for update in (
        {"action": "add-snapshot", "snapshot": {**snapshot, "manifest-list": place}},
        {"action": "add-snapshot", "snapshot": {**snapshot, "manifests": [place]}},
        {
            "action": "set-statistics",
            "statistics": {**statistics, "file-footer-size-in-bytes": 1, "blob-metadata": []},
        },
        {"action": "set-partition-statistics", "partition-statistics": statistics},
    ):
        lake.refused("POST", "namespaces/db/tables/t", 400, BAD, json={"requirements": [], "updates": [update]})
    staged = table_body("u", location=place, **{"stage-create": True})
    lake.refused("POST", "namespaces/db/tables", 400, BAD, json=staged)
    assert head(branch) == before


@pytest.mark.parametrize("content", [b"PAR1 ann earns 4711 PAR1", b'{"password": "hunter2"}'], ids=["data", "other JSON"])
def test_a_file_that_is_not_metadata_is_never_shown(
    lake: IcebergLake, branch: FeedBranch, table: dict[str, Any], content: bytes
) -> None:
    location = f"{table['metadata']['location']}/data/part-0"
    path = Path(urlparse(location).path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    branch.handle.commit([Put(("db", "other"), IcebergTable(location)), Put(("db", "view"), IcebergView(location))])
    for name in ("tables/other", "views/view"):
        refused = lake.http.get(f"namespaces/db/{name}")
        assert refused.status_code >= 400 and content not in refused.content, refused.text
