"""Rights in the Nessie API: over a catalog or over single keys; what may not be seen is not told from what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.service.auth.rights.rights import Right
from tests.support.fixtures.access_rig import Rig, access_rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("nessie")
    with access_rig(folder) as made:
        assert made.commit("alpha", ("sales",), ("secret",)).status_code == 200
        assert commit(made, made.token("alpha"), put("sales", "t"), put("secret", "t")).status_code == 200
        yield made


def put(*key: str, id: str | None = None, type: str = "ICEBERG_TABLE") -> dict[str, Any]:
    content = {"type": type, "metadataLocation": "x", "id": id, "elements": key}
    return {"type": "PUT", "key": {"elements": key}, "content": content}


def commit(rig: Rig, token: str, *operations: dict[str, Any], base: str = "/api/v2") -> httpx.Response:
    body = {"commitMeta": {"message": "m"}, "operations": operations}
    return rig.ask("POST", f"{base}/trees/main/history/commit", token=token, json=body)


def test_a_right_over_keys_is_one_over_these_keys(rig: Rig) -> None:
    token = rig.principal("alpha", "seller", Right.TABLE_WRITE, Right.TABLE_CREATE, path=("sales",))
    found = rig.get("/api/v2/trees/main/contents/sales.t", token)
    assert found.status_code == 200
    id = found.json()["content"]["id"]
    for operation, status in (
        (put("sales", "t", id=id), 200),
        (put("sales", "new"), 200),
        (put("secret", "t", id=id), 403),
        (put("secret", "new"), 403),
        (put("sales", "inner", type="NAMESPACE"), 403),
        ({"type": "DELETE", "key": {"elements": ["sales", "t"]}}, 403),
        ({"type": "UNCHANGED", "key": {"elements": ["secret", "t"]}}, 403),
    ):
        answer = commit(rig, token, operation)
        assert answer.status_code == status, (operation, answer.text)
    mixed = commit(rig, token, put("sales", "more"), put("secret", "more"))
    assert mixed.status_code == 403 and mixed.json()["errorCode"] == "FORBIDDEN"
    assert rig.get("/api/v2/trees/main/contents/sales.more", token).status_code == 404


def test_hidden_content_cannot_be_distinguished_from_missing_content(rig: Rig) -> None:
    token = rig.principal("alpha", "reader", Right.TABLE_READ, path=("sales",))
    for key in ("secret.t", "secret.none"):
        assert rig.get(f"/api/v2/trees/main/contents/{key}", token).status_code == 403
        assert rig.get(f"/api/v2/trees/main/contents?key=sales.t&key={key}", token).status_code == 403
    assert rig.get("/api/v2/trees/main/contents/sales.t?for-write=true", token).status_code == 403
    for path in ("contents", "entries", "history", "diff/main", "recent-changes"):
        assert rig.get(f"/api/v2/trees/main/{path}", token).status_code == 403
    for catalog in ("lake", "none"):
        for path in ("trees/main/contents/secret.t", "config", "trees"):
            assert rig.get(f"/api/catalogs/{catalog}/v2/{path}", token).status_code == 403, (catalog, path)
        assert commit(rig, token, put("secret", "t"), base=f"/api/catalogs/{catalog}/v2").status_code == 403


def test_a_reader_of_the_catalog_reads_everything_and_changes_nothing(rig: Rig) -> None:
    token = rig.principal("alpha", "auditor", Right.CATALOG_READ)
    for path in ("config", "trees", "trees/main/entries", "trees/main/history", "trees/main/contents/secret.t"):
        assert rig.get(f"/api/v2/{path}", token).status_code == 200
    before = rig.get("/api/v2/trees/main", token).json()
    assert commit(rig, token, put("sales", "x")).status_code == 403
    for method, path in (("POST", "trees?name=b&type=BRANCH"), ("PUT", "trees/main"), ("DELETE", "trees/main")):
        answer = rig.ask(method, f"/api/v2/{path}", token=token, json={"type": "BRANCH", "name": "main"})
        assert answer.status_code == 403 and answer.json()["errorCode"] == "FORBIDDEN"
    merge = rig.ask("POST", "/api/v2/trees/main/history/merge", token=token, json={"fromRefName": "main"})
    assert merge.status_code == 403
    assert rig.get("/api/v2/trees/main", token).json() == before


def test_the_committer_is_the_principal_no_matter_who_the_author_is(rig: Rig) -> None:
    token = rig.principal("alpha", "loader", Right.CATALOG_WRITE)
    body = {"commitMeta": {"message": "m", "authors": ["ada"]}, "operations": [put("sales", "loaded")]}
    assert rig.ask("POST", "/api/v2/trees/main/history/commit", token=token, json=body).status_code == 200
    (entry,) = rig.get("/api/v2/trees/main/history?max-records=1", token).json()["logEntries"]
    assert (entry["commitMeta"]["authors"], entry["commitMeta"]["committer"]) == (["ada"], "loader")
    change = rig.get(f"/feed/v1/alpha/commits/{entry['commitMeta']['hash']}", rig.token("alpha")).json()
    assert change["author"] == "loader", "the feed names who committed, not whom the client names"


def test_without_a_token_nothing_is_disclosed(rig: Rig) -> None:
    for path in ("config", "trees", "trees/main/contents/sales.t"):
        answer = rig.get(f"/api/v2/{path}")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.status_code == 401 and set(answer.json()) == {"status", "reason", "message", "errorCode"}
