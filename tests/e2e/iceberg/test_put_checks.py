"""Tables and views put through the feed, Nessie and merges pass the checks of a registration, if the server can read them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import httpx
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list

from headwater import IcebergTable, Put
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, table_body, view_body


class Files:
    """Metadata in the warehouse of the served lake, as another writer leaves it there."""

    def __init__(self, lake: IcebergLake) -> None:
        assert lake.http.post("namespaces", json={"namespace": ["db"]}).status_code == 200
        created = lake.http.post("namespaces/db/tables", json=table_body("model")).json()
        self.table: dict[str, Any] = created["metadata"]
        self.view: dict[str, Any] = lake.http.post("namespaces/db/views", json=view_body("model_view")).json()["metadata"]
        self._folder = Path(unquote(urlparse(created["metadata-location"]).path)).parent
        assert lake.http.delete("namespaces/db/tables/model").status_code == 204  # its place is free, its files stay

    def write(self, metadata: dict[str, Any] | bytes) -> str:
        path = self._folder / f"{uuid.uuid4()}.metadata.json"
        path.write_bytes(metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode())
        return path.as_uri()

    @property
    def empty_list(self) -> str:
        """A manifest list that names no manifest."""
        path = self._folder / "empty.avro"
        with write_manifest_list(2, PyArrowFileIO().new_output(path.as_uri()), 1, None, 1, "null"):
            return path.as_uri()

    def new_table(self, **fields: Any) -> str:
        return self.write({**self.table, "table-uuid": str(uuid.uuid4()), **fields})


@pytest.fixture
def files(lake: IcebergLake) -> Files:
    return Files(lake)


def _put(location: str, type: str = "ICEBERG_TABLE", name: str = "t", **content: Any) -> dict[str, Any]:
    return {"op": "put", "key": ["db", name], "type": type, "content": {"metadata_location": location, **content}}


Commit = Callable[..., httpx.Response]


@pytest.fixture(params=["feed", "nessie"])
def commit(request: pytest.FixtureRequest, branch: FeedBranch) -> Commit:
    """Puts a table or view at db.t."""

    def feed(location: str, type: str = "ICEBERG_TABLE", **content: Any) -> httpx.Response:
        body = {"catalog": "lake", "branch": branch.name, "operations": [_put(location, type, **content)]}
        return branch.http.post("/commit", json=body)

    def nessie(location: str, type: str = "ICEBERG_TABLE", **content: Any) -> httpx.Response:
        url = f"{branch.server.url}/api/v2/trees/{branch.name}/contents/db.t"
        there = httpx.get(url, timeout=30)
        id = {"id": there.json()["content"]["id"]} if there.status_code == 200 else {}
        camel = {name.replace("_i", "I"): value for name, value in content.items()}
        put = {
            "type": "PUT",
            "key": {"elements": ["db", "t"]},
            "content": {"type": type, "metadataLocation": location} | camel | id,
        }
        body = {"commitMeta": {"message": "m"}, "operations": [put]}
        return httpx.post(f"{branch.server.url}/api/v2/trees/{branch.name}@/history/commit", json=body, timeout=30)

    return feed if request.param == "feed" else nessie


def content_id(branch: FeedBranch) -> str | None:
    page = branch.handle.snapshot()
    return next((entry.content_id for entry in page if entry.key == ("db", "t")), None)


def test_a_table_gets_its_uuid_as_content_id_and_engines_load_it(
    branch: FeedBranch, lake: IcebergLake, files: Files, commit: Commit
) -> None:
    id = str(uuid.uuid4())
    first, second = (files.new_table(**{"table-uuid": id}) for _ in range(2))
    assert commit(first).status_code == 200
    assert commit(second, schema_id=0, spec_id=0, sort_order_id=0, snapshot_id=-1).status_code == 200
    assert content_id(branch) == id
    assert lake.http.get("namespaces/db/tables/t").json()["metadata"]["table-uuid"] == id


def test_metadata_of_another_table_does_not_replace_a_table(branch: FeedBranch, files: Files, commit: Commit) -> None:
    assert commit(files.new_table()).status_code == 200
    refused = commit(files.new_table())
    assert refused.status_code == 409, refused.text


@pytest.mark.parametrize("where", ["", "/below", "/.."])
def test_no_table_is_put_onto_the_files_of_another(lake: IcebergLake, files: Files, commit: Commit, where: str) -> None:
    other = lake.http.post("namespaces/db/tables", json=table_body("other")).json()["metadata"]["location"]
    place = other.rpartition("/")[0] if where == "/.." else other + where
    put = files.new_table(location=place)
    refused = commit(put)
    assert (refused.status_code, "another table" in refused.text) == (400, True), refused.text
    if where != "/..":  # the namespace lies there too
        assert lake.http.delete("namespaces/db/tables/other").status_code == 204
        assert commit(put).status_code == 200


def test_a_table_is_not_moved_onto_another_by_a_put(lake: IcebergLake, files: Files, commit: Commit) -> None:
    other = lake.http.post("namespaces/db/tables", json=table_body("other")).json()["metadata"]["location"]
    id = str(uuid.uuid4())
    assert commit(files.new_table(**{"table-uuid": id})).status_code == 200
    for moved in ({"location": other}, {"properties": {"write.data.path": f"{other}/data"}}):
        refused = commit(files.new_table(**{"table-uuid": id, **moved}))
        assert (refused.status_code, "another table" in refused.text) == (400, True), refused.text


def test_a_commit_may_put_a_table_where_it_deletes_one(branch: FeedBranch, files: Files) -> None:
    def commit(*operations: dict[str, Any]) -> int:
        return branch.http.post(
            "/commit", json={"catalog": "lake", "branch": branch.name, "operations": operations}
        ).status_code

    location = files.new_table()
    assert commit(_put(location)) == 200
    assert commit(_put(location, name="again")) == 400
    assert commit({"op": "delete", "key": ["db", "t"]}, _put(location, name="again")) == 200


def test_of_two_puts_onto_one_place_at_the_same_moment_one_is_refused(branch: FeedBranch, files: Files) -> None:
    statuses: list[int] = []

    def commit(number: int) -> None:
        put = _put(files.new_table(), name=f"t{number}")
        body = {"catalog": "lake", "branch": branch.name, "operations": [put]}
        statuses.append(branch.http.post("/commit", json=body).status_code)

    def commit_namespace(number: int) -> None:  # moves the branch, so that the others must look again
        put = {"op": "put", "key": [f"n{number}"], "type": "NAMESPACE", "content": {"properties": {}}}
        body = {"catalog": "lake", "branch": branch.name, "operations": [put]}
        assert branch.http.post("/commit", json=body).status_code == 200

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda number: (commit if number % 2 else commit_namespace)(number), range(8)):
            pass
    assert sorted(statuses) == [200, 400, 400, 400]


@pytest.mark.parametrize(
    "fault", ["missing", "not JSON", "not metadata", "view", "broken schema", "outside", "unknown ids", "crooked", "no file"]
)
def test_metadata_that_the_server_can_read_must_be_sound(branch: FeedBranch, files: Files, commit: Commit, fault: str) -> None:
    fields: dict[str, Any] = {}
    location = files.new_table()
    match fault:
        case "missing":
            location = location.replace(".metadata.json", ".gone.metadata.json")
        case "not JSON":
            location = files.write(b"{")
        case "not metadata":
            location = files.write({"secret": 1})
        case "view":
            location = files.write(files.view)
        case "broken schema":
            location = files.new_table(**{"current-schema-id": 77})
        case "outside":
            location = files.new_table(location="file:///elsewhere")
        case "unknown ids":
            fields = {"snapshot_id": 4_711}
        case "crooked":
            folder, _, name = location.rpartition("/")
            location = f"{folder}/../metadata/{name}"
        case "no file":
            location = location.rpartition("/")[0]
    head = branch.handle.snapshot().commit_id
    refused = commit(location, **fields)
    assert 400 <= refused.status_code < 500, refused.text
    assert branch.handle.snapshot().commit_id == head


def test_a_view_is_checked_as_a_view(branch: FeedBranch, lake: IcebergLake, files: Files, commit: Commit) -> None:
    id = str(uuid.uuid4())
    assert commit(files.new_table(), "ICEBERG_VIEW").status_code in (400, 404, 422)
    assert commit(files.write({**files.view, "view-uuid": id}), "ICEBERG_VIEW", version_id=1, schema_id=0).status_code == 200
    assert content_id(branch) == id
    assert lake.http.get("namespaces/db/views/t").json()["metadata"]["view-uuid"] == id


def test_a_foreign_location_is_stored_as_given_and_never_loaded(branch: FeedBranch, lake: IcebergLake, commit: Commit) -> None:
    assert lake.http.post("namespaces", json={"namespace": ["db"]}).status_code == 200
    assert commit("s3://elsewhere/t/1.metadata.json", snapshot_id=7).status_code == 200
    assert commit("s3://elsewhere/t/2.metadata.json", snapshot_id=8).status_code == 200
    lake.refused("GET", "namespaces/db/tables/t", 400, "BadRequestException")


def test_a_table_with_another_content_id_keeps_it_while_its_uuid_stays(
    branch: FeedBranch, files: Files, commit: Commit
) -> None:
    """An embedded engine has no access to files, so it chooses ids by itself."""
    id = str(uuid.uuid4())
    branch.handle.commit([Put(("db", "t"), IcebergTable(files.new_table(**{"table-uuid": id})))])
    chosen = content_id(branch)
    assert chosen != id
    assert commit(files.new_table(**{"table-uuid": id})).status_code == 200
    assert content_id(branch) == chosen
    assert commit(files.new_table()).status_code == 409


def test_a_keyed_commit_is_answered_again_after_its_metadata_was_removed(branch: FeedBranch, files: Files) -> None:
    location = files.new_table()
    body = {"catalog": "lake", "branch": branch.name, "operations": [_put(location)]}
    answers = []
    for _ in range(2):
        answers.append(branch.http.post("/commit", json=body, headers={"Idempotency-Key": branch.name}).json())
        Path(unquote(urlparse(location).path)).unlink(missing_ok=True)
    assert [answer["replayed"] for answer in answers] == [False, True]
    assert answers[0]["commit_id"] == answers[1]["commit_id"]


def _with_snapshots(files: Files, count: int) -> dict[str, Any]:
    """Fields of metadata whose last snapshot has an empty manifest list."""
    ids = range(1, count + 1)
    model: dict[str, Any] = {
        "current-snapshot-id": count,
        "snapshots": [
            {"snapshot-id": id, "sequence-number": id, "timestamp-ms": id, "manifests": [], "summary": {"operation": "append"}}
            | {"manifest-list": files.empty_list, "schema-id": 0}
            for id in ids
        ],
        "last-sequence-number": count,
        "refs": {"main": {"snapshot-id": count, "type": "branch"}},
    }
    return model


def test_a_put_removes_no_snapshot_that_a_plan_reads(
    branch: FeedBranch, lake: IcebergLake, files: Files, commit: Commit
) -> None:
    table = {"table-uuid": str(uuid.uuid4())}
    whole = _with_snapshots(files, 2)
    without_first = {**whole, "snapshots": whole["snapshots"][1:]}
    assert commit(files.new_table(**table, **whole)).status_code == 200
    planned = lake.http.post("namespaces/db/tables/t/plan", json={"snapshot-id": 1})
    assert planned.status_code == 200, planned.text
    location = files.new_table(**table, **without_first)
    refused = commit(location)
    assert refused.status_code == 409 and "is read by a plan" in refused.text, refused.text
    registration = {"name": "t", "metadata-location": location, "overwrite": True}
    assert "is read by a plan" in lake.http.post("namespaces/db/register", json=registration).text
    assert commit(files.new_table(**table, **whole)).status_code == 200, "which loses none"
    assert lake.http.delete(f"namespaces/db/tables/t/plan/{planned.json()['plan-id']}").status_code == 204
    assert commit(location).status_code == 200


@pytest.mark.parametrize("api", ["manage", "nessie"])
def test_a_merge_resolves_a_conflict_only_with_sound_metadata(branch: FeedBranch, files: Files, api: str) -> None:
    id = str(uuid.uuid4())
    name, url, key = branch.name, branch.server.url, ("db", "t")
    branch.handle.commit([Put(key, IcebergTable(files.new_table(**{"table-uuid": id})), content_id=id)])
    dev = f"{name}-dev"
    made = httpx.post(
        f"{url}/manage/v1/default/catalogs/lake/references", json={"name": dev, "type": "branch", "source": name}, timeout=30
    )
    assert made.status_code == 201, made.text
    for reference in (name, dev):
        body = {"catalog": "lake", "branch": reference, "operations": [_put(files.new_table(**{"table-uuid": id}))]}
        assert branch.http.post("/commit", json=body).status_code == 200

    def merge(location: str) -> httpx.Response:
        expected = branch.handle.snapshot().get(key)
        assert expected is not None
        if api == "manage":
            content = {"type": "ICEBERG_TABLE", "content_id": id, "value": {"metadata_location": location}}
            there = {"type": "ICEBERG_TABLE", "content_id": id, "value": expected.value}
            rule = {"key": key, "resolved": content, "expected": there}
            body = {"source": dev, "into": name, "keys": [rule]}
            return httpx.post(f"{url}/manage/v1/default/catalogs/lake/merge", json=body, timeout=30)
        resolved = {"type": "ICEBERG_TABLE", "id": id, "metadataLocation": location}
        mode = {
            "key": {"elements": key},
            "mergeBehavior": "NORMAL",
            "resolvedContent": resolved,
            "expectedTargetContent": {**resolved, "metadataLocation": expected.value["metadata_location"]},
        }
        source = httpx.get(f"{url}/api/v2/trees/{dev}", timeout=30).json()["reference"]["hash"]
        body = {"fromRefName": dev, "fromHash": source, "keyMergeModes": [mode]}
        return httpx.post(f"{url}/api/v2/trees/{name}@/history/merge", json=body, timeout=30)

    for faulty in (files.new_table(), files.write({"secret": 1})):
        refused = merge(faulty)
        assert 400 <= refused.status_code < 500, refused.text
        assert refused.status_code != 409, refused.text
    sound = files.new_table(**{"table-uuid": id})
    merged = merge(sound)
    assert merged.status_code == 200, merged.text
    found = branch.handle.snapshot().get(key)
    assert found is not None
    assert found.value["metadata_location"] == sound
