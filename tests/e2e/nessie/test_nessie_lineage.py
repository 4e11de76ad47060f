"""A merge, a branch or an assignment names only commits that its reference has, and contents that a side has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fixtures.access_rig import Rig, access_rig

OTHER_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("lineage")) as made:
        yield made


def _ask(rig: Rig, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    return rig.ask(method, f"/api/v2/trees{path}", token=rig.token("alpha"), json=body)


def _table(location: str, id: str | None = None) -> dict[str, Any]:
    told = {
        "type": "ICEBERG_TABLE",
        "metadataLocation": location,
        "snapshotId": 1,
        "schemaId": 0,
        "specId": 0,
        "sortOrderId": 0,
    }
    return told if id is None else {**told, "id": id}


def _commit(rig: Rig, branch: str, content: dict[str, Any]) -> dict[str, Any]:
    operations = [{"type": "PUT", "key": {"elements": ["k"]}, "content": content}]
    answer = _ask(rig, "POST", f"/{branch}/history/commit", {"commitMeta": {"message": "m"}, "operations": operations})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _branch(rig: Rig, name: str, hash: str) -> Any:
    return _ask(rig, "POST", f"?name={name}&type=BRANCH", {"type": "BRANCH", "name": "main", "hash": hash})


def test_a_commit_of_another_branch_is_not_merged_branched_or_assigned_as_one_of_main(rig: Rig) -> None:
    made = _commit(rig, "main", _table("1"))
    start, id = made["targetBranch"]["hash"], made["addedContents"][0]["contentId"]
    assert {_branch(rig, name, start).status_code for name in ("side", "stable")} == {200}
    foreign = _commit(rig, "side", _table("2", id))["targetBranch"]["hash"]
    before = _ask(rig, "GET", "/stable").json()
    merged = _ask(rig, "POST", "/stable/history/merge", {"fromRefName": "main", "fromHash": foreign, "message": "m"})
    assigned = _ask(rig, "PUT", "/stable", {"type": "BRANCH", "name": "main", "hash": foreign})
    branched = _branch(rig, "new", foreign)
    assert [answer.status_code for answer in (merged, assigned, branched)] == [404] * 3, merged.text
    assert _ask(rig, "GET", "/stable").json() == before and _ask(rig, "GET", "/new").status_code == 404
    merged = _ask(rig, "POST", "/stable/history/merge", {"fromRefName": "side", "fromHash": foreign, "message": "m"})
    assert merged.status_code == 200, merged.text


@pytest.mark.parametrize(
    "change", [{"type": "ICEBERG_VIEW", "versionId": 1, "schemaId": 0}, {"id": OTHER_ID}], ids=["type", "id"]
)
def test_a_resolved_content_is_one_that_a_side_has(rig: Rig, change: dict[str, Any]) -> None:
    made = _commit(rig, "main", _table("1"))
    start, id = made["targetBranch"]["hash"], made["addedContents"][0]["contentId"]
    assert _branch(rig, "side", start).status_code == 200
    side = _commit(rig, "side", _table("side", id))["targetBranch"]["hash"]
    _commit(rig, "main", _table("main", id))

    def merge(resolved: dict[str, Any]) -> Any:
        mode = {
            "key": {"elements": ["k"]},
            "mergeBehavior": "NORMAL",
            "expectedTargetContent": _table("main", id),
            "resolvedContent": resolved,
        }
        body = {"fromRefName": "side", "fromHash": side, "message": "m", "keyMergeModes": [mode]}
        return _ask(rig, "POST", "/main/history/merge", body)

    refused = merge({**_table("other", id), **change})
    assert refused.status_code == 409 and "CONTENT_ID_DIFFERS" in refused.text, refused.text
    assert _ask(rig, "GET", "/main/contents/k").json()["content"]["metadataLocation"] == "main"
    assert merge(_table("resolved", id)).status_code == 200
