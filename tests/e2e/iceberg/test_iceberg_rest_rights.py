"""What requests at the Iceberg API need beside the right of their route: nothing is made or read by a side way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.producer.access.rights import Right
from tests.support.fixtures.access_rig import Rig, access_rig
from tests.support.fixtures.iceberg_lake import table_body, view_body

BASE = "/iceberg/v1/lake/namespaces"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "type": "long", "required": False}]}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("rights")
    with access_rig(folder) as made:
        root = made.token("alpha")
        for name in ("mine", "theirs"):
            assert made.ask("POST", BASE, token=root, json={"namespace": [name]}).status_code == 200
        yield made


def post(rig: Rig, token: str, path: str, body: Any = None) -> httpx.Response:
    return rig.ask("POST", path, token=token, **({} if body is None else {"json": body}))


def creation() -> dict[str, Any]:
    updates = [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": updates}


def test_a_caller_that_may_only_write_creates_no_table(rig: Rig) -> None:
    writer = rig.principal("alpha", "writer", Right.TABLE_WRITE, path=("mine",))
    whole = {"table-changes": [{"identifier": {"namespace": ["mine"], "name": "new"}, **creation()}]}
    requests = ((f"{BASE}/mine/tables/new", creation()), ("/iceberg/v1/lake/transactions/commit", whole))
    for path, body in requests:
        refused = post(rig, writer, path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403), refused.text
    rig.grant("alpha", "writer", Right.TABLE_CREATE, ("mine",))
    assert post(rig, writer, *requests[0]).status_code == 200


@pytest.mark.parametrize(("kind", "body"), [("table", table_body("secret")), ("view", view_body("secret"))])
def test_the_right_to_create_gives_no_right_to_read_elsewhere(rig: Rig, kind: str, body: dict[str, Any]) -> None:
    made = post(rig, rig.token("alpha"), f"{BASE}/theirs/{kind}s", {**body, "name": f"secret-{kind}"}).json()
    create, read = (Right.TABLE_CREATE, Right.TABLE_READ) if kind == "table" else (Right.VIEW_CREATE, Right.VIEW_READ)
    owner = rig.principal("alpha", f"owner-{kind}", create, read, path=("mine",))
    registration = {"name": f"copy-{kind}", "metadata-location": made["metadata-location"]}
    path = f"{BASE}/mine/register" + ("" if kind == "table" else "-view")
    assert post(rig, owner, path, registration).status_code == 403
    rig.grant("alpha", f"owner-{kind}", read)
    answer = post(rig, owner, path, registration)
    assert answer.status_code != 403, answer.text


def test_a_caller_that_may_only_drop_does_not_get_the_metadata(rig: Rig) -> None:
    assert post(rig, rig.token("alpha"), f"{BASE}/mine/tables", table_body("going")).status_code == 200
    dropper = rig.principal("alpha", "dropper", Right.TABLE_DROP, path=("mine",))
    assert post(rig, dropper, f"{BASE}/mine/tables/going/unregister").status_code == 403
    assert rig.ask("DELETE", f"{BASE}/mine/tables/going", token=dropper).status_code == 204


def test_a_stored_answer_is_not_given_to_a_caller_who_lost_the_right(rig: Rig) -> None:
    maker = rig.principal("alpha", "maker", Right.TABLE_CREATE, path=("mine",))
    key = {"Idempotency-Key": "kept-answer"}
    first = rig.ask("POST", f"{BASE}/mine/tables", token=maker, json=table_body("kept"), headers=key)
    assert first.status_code == 200
    again = rig.ask("POST", f"{BASE}/mine/tables", token=maker, json=table_body("kept"), headers=key)
    assert (again.status_code, again.content) == (200, first.content)
    rig.revoke("alpha", "maker", Right.TABLE_CREATE, ("mine",))
    refused = rig.ask("POST", f"{BASE}/mine/tables", token=maker, json=table_body("kept"), headers=key)
    assert refused.status_code == 403
