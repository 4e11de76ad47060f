"""Pointers, snapshots and single commits over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from headwater.schemas.entry_ids import EMPTY
from tests.e2e.feed.test_feed_changes import wait_for_floor
from tests.support.fixtures.feed_branch import FeedBranch, put
from tests.support.models.commit_harness import cut


def test_pointers_are_listed_in_pages(branch: FeedBranch, new_branch: Callable[[], FeedBranch]) -> None:
    new_branch()
    made = branch.commit("db")
    names, token = [], None
    while True:
        params = {"limit": 2, **({"token": token} if token else {})}
        page = branch.http.get("/pointers", params=params).json()
        assert len(page["pointers"]) <= 2
        names += [pointer["name"] for pointer in page["pointers"]]
        token = page["next_token"]
        if token is None:
            break
    assert names == sorted(names) and {"catalogs", "principals", branch.pointer} <= set(names)
    (own,) = branch.http.get("/pointers", params={"prefix": branch.pointer}).json()["pointers"]
    assert own == {
        "name": branch.pointer,
        "kind": "branch",
        "seq": 2,
        "commit_id": made["commit_id"],
        "entry_id": branch.changes()["head"]["entry_id"],
        "oldest_seq": 1,
        "deleted": False,
    }
    branch.handle.delete()
    (gone,) = branch.http.get("/pointers", params={"prefix": branch.pointer}).json()["pointers"]
    assert gone["deleted"] and gone["seq"] == 3


def test_a_snapshot_is_of_one_entry_whatever_is_committed_between_its_pages(branch: FeedBranch) -> None:
    branch.commit("db", *(f"db.t{n}" for n in range(9)))
    first = branch.http.get("/snapshot", params={"pointer": branch.pointer, "limit": 4}).json()
    branch.commit("db.t3", "db.z")
    entries, token = first["entries"], first["next_token"]
    while token is not None:
        page = branch.http.get("/snapshot", params={"token": token, "limit": 4}).json()
        assert (page["at"], page["cursor"]) == (first["at"], first["cursor"])
        entries += page["entries"]
        token = page["next_token"]
    assert [entry["key"] for entry in entries] == [["db"], *(["db", f"t{n}"] for n in range(9))]
    assert entries[4]["value"]["metadata_location"] == "s3://db.t3" and entries[4]["type"] == "ICEBERG_TABLE"
    assert [change["seq"] for change in branch.changes(first["cursor"])["changes"]] == [3], "following it leaves no seam"


def test_a_snapshot_is_taken_at_ids_numbers_and_times(branch: FeedBranch) -> None:
    first = branch.commit("a")
    branch.commit("b")

    def keys(at: object) -> list[str]:
        answer = branch.http.get("/snapshot", params={"pointer": branch.pointer, "at": str(at)})
        assert answer.status_code == 200, answer.text
        return [entry["key"][0] for entry in answer.json()["entries"]]

    cursor = branch.changes(limit=2)["cursor"]
    for at in (2, first["commit_id"], first["change"]["time"], cursor):
        assert keys(at) == ["a"], at
    assert keys("latest") == ["a", "b"] and keys(3) == ["a", "b"] and keys(1) == []
    before = branch.http.get("/snapshot", params={"pointer": branch.pointer, "at": "2026-01-01T00:00:00Z"}).json()
    assert (before["at"]["seq"], before["at"]["commit_id"], before["entries"]) == (0, EMPTY.hex(), [])
    assert len(branch.changes(before["cursor"])["changes"]) == 3


def test_a_state_below_the_floor_has_expired(branch: FeedBranch) -> None:
    for n in range(4):
        branch.commit(f"n{n}")
    token = branch.http.get("/snapshot", params={"pointer": branch.pointer, "at": 3, "limit": 1}).json()["next_token"]
    cut(branch.handle._kernel, branch.pointer, 4)
    wait_for_floor(branch, 4)
    for params in ({"pointer": branch.pointer, "at": "2"}, {"pointer": branch.pointer, "at": "3"}, {"token": token}):
        expired = branch.http.get("/snapshot", params=params)
        assert (expired.status_code, expired.json()["code"], expired.json()["oldest"]) == (410, "CURSOR_EXPIRED", 4), params
    assert branch.http.get("/snapshot", params={"pointer": branch.pointer, "at": 4}).status_code == 200


def test_an_id_names_its_change_if_it_is_in_the_log(branch: FeedBranch) -> None:
    made = branch.commit("a")
    assert branch.http.get(f"/commits/{made['commit_id']}").json() == made["change"]
    create = branch.changes(limit=1)["changes"][0]
    assert branch.http.get(f"/commits/{create['entry_id']}").json() == create
    flipped = made["commit_id"][:-1] + ("0" if made["commit_id"][-1] != "0" else "1")
    content_object = made["change"]["objects_added"][1] + "0" * 48
    for id in (flipped, content_object, "0" * 64, "f" * 64, EMPTY.hex()):
        missing = branch.http.get(f"/commits/{id}")
        assert (missing.status_code, missing.json()["code"], missing.json()["field"]) == (404, "REFERENCE_NOT_FOUND", "id"), id
    for id in ("x", "F" * 64, "12"):
        bad = branch.http.get(f"/commits/{id}")
        assert (bad.status_code, bad.json()["field"]) == (400, "id"), id


def test_large_values_are_returned_whole(branch: FeedBranch) -> None:
    operation = put("big", metadata_location="s3://" + "é" * 3_000)
    operation["key"], operation["type"] = ["big"], "ICEBERG_TABLE"
    operation["content"] = {"metadata_location": "s3://" + "é" * 3_000}
    body = {"catalog": "lake", "branch": branch.name, "operations": [operation]}
    assert branch.http.post("/commit", json=body).status_code == 200
    snapshot = branch.http.get("/snapshot", params={"pointer": branch.pointer}).json()
    assert snapshot["entries"][0]["value"]["metadata_location"] == "s3://" + "é" * 3_000
