"""Keyed requests in the Nessie API whose server dies between commit and answer: sent again, each is answered and done once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.service.idempotency.run_once import IdempotencyOptions
from tests.support.fixtures.access_rig import Rig, access_rig

API = "/api/v2"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    options = IdempotencyOptions(running_seconds=0.2, wait_seconds=5)
    with access_rig(tmp_path_factory.mktemp("once"), idempotency=options) as made:
        yield made


def ask(rig: Rig, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return rig.ask(method, f"{API}{path}", token=rig.token("alpha"), headers=headers, json=body)


def done(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def commit(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"commitMeta": {"message": "m"}, "operations": operations}


def put(name: str, location: str = "x", id: str | None = None) -> dict[str, Any]:
    content = {"type": "ICEBERG_TABLE", "metadataLocation": location, "id": id}
    return {"type": "PUT", "key": {"elements": [name]}, "content": content}


def lost_then_sent_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, pointer: str
) -> dict[str, Any]:
    """The answer to the second of two same requests: what the first one did is in the log, its answer never came."""
    key, died = f"{method} {path}".replace(" ", "_")[:150], []

    def die(self: IdempotencyRows, *_: object) -> bool:
        died.append(True)
        raise MemoryError("as if killed")

    with monkeypatch.context() as patch:
        patch.setattr(IdempotencyRows, "finish", die)
        assert ask(rig, method, path, body, key).status_code == 500
    assert died, "the fault must fire"
    told = done(ask(rig, method, path, body, key))
    kernel = rig.kernel("alpha")
    ids = [logged.entry.request_id for logged in PointerLog(kernel, pointer).forward(0)]
    assert sum(id.endswith(key) for id in ids) == 1, "done once"
    assert done(ask(rig, method, path, body, key)) == told
    return told


def test_every_request_repeated_after_a_crash_is_answered_and_done_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(method: str, path: str, body: Any, pointer: str = "cat/1/heads/main") -> dict[str, Any]:
        return lost_then_sent_again(rig, monkeypatch, method, path, body, pointer)

    made = again("POST", "/trees/main/history/commit", commit(put("t"), put("u")))
    ids = {one["key"]["elements"][0]: one["contentId"] for one in made["addedContents"]}
    assert done(ask(rig, "GET", "/trees/main"))["reference"] == made["targetBranch"]
    moved = commit({"type": "DELETE", "key": {"elements": ["t"]}}, put("renamed", id=ids["t"]))
    hash = made["targetBranch"]["hash"]
    renamed = again("POST", f"/trees/main@{hash}/history/commit", moved)["targetBranch"]["hash"]
    main = {"type": "BRANCH", "name": "main", "hash": renamed}
    side = "cat/1/heads/side"
    assert again("POST", "/trees?name=side&type=BRANCH", main, side)["reference"]["hash"] == renamed
    added = again("POST", "/trees/side/history/commit", commit(put("s")), side)["targetBranch"]["hash"]
    merged = again("POST", "/trees/main/history/merge", {"fromRefName": "side"})
    assert merged["wasApplied"] and merged["effectiveTargetHash"] == renamed
    assert done(ask(rig, "GET", "/trees/main"))["reference"]["hash"] == merged["resultantTargetHash"]
    assert done(ask(rig, "POST", "/trees?name=other&type=BRANCH", main))["reference"]["name"] == "other"
    picked = {"fromRefName": "side", "hashesToTransplant": [added]}
    brought = again("POST", "/trees/other/history/transplant", picked, "cat/1/heads/other")
    assert brought["wasApplied"] and brought["effectiveTargetHash"] == renamed
    assigned = again("PUT", "/trees/other", main, "cat/1/heads/other")
    assert assigned["reference"] == {"type": "BRANCH", "name": "other", "hash": renamed}
    assert again("DELETE", f"/trees/other@{renamed}", None, "cat/1/heads/other")["reference"]["hash"] == renamed
    assert ask(rig, "GET", "/trees/other").status_code == 404
