"""The same Idempotency-Key: whatever changes something is done once and answered as the first time, also after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.service.iceberg.call import PREFIX
from headwater.service.iceberg.routes import ICEBERG
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, table_body, view_body, view_version
from tests.support.servers.served import ServedStore

Request = tuple[str, str, Any]
Made = dict[str, Any]


def identifier(name: str) -> dict[str, Any]:
    return {"namespace": ["db"], "name": name}


def with_property(value: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": value}}]}


def new_view_version(made: Made) -> dict[str, Any]:
    updates = [
        {"action": "add-view-version", "view-version": view_version(2, 0, "select 2")},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    return {"requirements": [], "updates": updates}


REQUESTS: dict[str, Callable[[Made], Request]] = {
    "POST /v1/{prefix}/namespaces": lambda made: ("POST", "namespaces", {"namespace": ["other"]}),
    "DELETE /v1/{prefix}/namespaces/{namespace}": lambda made: ("DELETE", "namespaces/empty", None),
    "POST /v1/{prefix}/namespaces/{namespace}/properties": lambda made: (
        "POST",
        "namespaces/db/properties",
        {"removals": ["owner"], "updates": {"a": "b"}},
    ),
    "POST /v1/{prefix}/namespaces/{namespace}/tables": lambda made: ("POST", "namespaces/db/tables", table_body("new")),
    "POST /v1/{prefix}/namespaces/{namespace}/register": lambda made: (
        "POST",
        "namespaces/db/register",
        {"name": "again", "metadata-location": made["dropped"]},
    ),
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}": lambda made: (
        "POST",
        "namespaces/db/tables/t",
        with_property("b"),
    ),
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}": lambda made: (
        "DELETE",
        "namespaces/db/tables/t?purgeRequested=true",
        None,
    ),
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister": lambda made: (
        "POST",
        "namespaces/db/tables/t/unregister",
        None,
    ),
    "POST /v1/{prefix}/tables/rename": lambda made: (
        "POST",
        "tables/rename",
        {"source": identifier("t"), "destination": identifier("u")},
    ),
    "POST /v1/{prefix}/transactions/commit": lambda made: (
        "POST",
        "transactions/commit",
        {"table-changes": [{"identifier": identifier("t"), **with_property("c")}]},
    ),
    "POST /v1/{prefix}/namespaces/{namespace}/views": lambda made: ("POST", "namespaces/db/views", view_body("w")),
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}": lambda made: (
        "POST",
        "namespaces/db/views/v",
        new_view_version(made),
    ),
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}": lambda made: ("DELETE", "namespaces/db/views/v", None),
    "POST /v1/{prefix}/views/rename": lambda made: (
        "POST",
        "views/rename",
        {"source": identifier("v"), "destination": identifier("w")},
    ),
    "POST /v1/{prefix}/namespaces/{namespace}/register-view": lambda made: (
        "POST",
        "namespaces/db/register-view",
        {"name": "again", "metadata-location": made["view"]},
    ),
}
"""One for each route that changes something."""


IN_A_ROW = [
    "POST /v1/{prefix}/namespaces",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/transactions/commit",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
]
"""Those that can follow each other on one lake."""

COMMITS_NOTHING = "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
"""Ends a plan's lease; `test_iceberg_rest_planning.py` sends it again under its key."""


def filled(http: httpx.Client) -> Made:
    for body in ({"namespace": ["db"], "properties": {"owner": "ann"}}, {"namespace": ["empty"]}):
        http.post("namespaces", json=body).raise_for_status()
    table = http.post("namespaces/db/tables", json=table_body("t")).json()
    view = http.post("namespaces/db/views", json=view_body("v")).json()
    dropped = http.post("namespaces/db/tables", json=table_body("dropped")).json()
    http.delete("namespaces/db/tables/dropped").raise_for_status()
    locations = {"table": table, "view": view, "dropped": dropped}
    return {name: answer["metadata-location"] for name, answer in locations.items()}


def send(http: httpx.Client, request: Request, key: str) -> httpx.Response:
    method, path, body = request
    return http.request(method, path, headers={"Idempotency-Key": key}, **({} if body is None else {"json": body}))


def test_every_route_that_changes_something_is_among_the_requests() -> None:
    assert {
        f"{one.method} {one.path.removeprefix(PREFIX)}" for one in ICEBERG.routes if one.is_keyed and one.handler is not None
    } == {*REQUESTS, COMMITS_NOTHING}


@pytest.mark.parametrize("route", REQUESTS)
def test_a_request_that_is_sent_again_is_answered_as_the_first_time(lake: IcebergLake, branch: FeedBranch, route: str) -> None:
    request = REQUESTS[route](filled(lake.http))
    before = branch.handle.info().seq
    key = f"{branch.name}-one"
    first = send(lake.http, request, key)
    assert first.status_code in (200, 204), first.text
    again = send(lake.http, request, key)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert branch.handle.info().seq == before + 1
    other = ("DELETE", "namespaces/empty", None) if request[1] != "namespaces/empty" else ("DELETE", "namespaces/db", None)
    refused = send(lake.http, other, key)
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "UnprocessableEntityException")


def test_a_refusal_is_answered_as_the_first_time_too(lake: IcebergLake, branch: FeedBranch) -> None:
    filled(lake.http)
    request = ("POST", "namespaces/db/tables", table_body("t"))
    first = send(lake.http, request, f"{branch.name}-two")
    assert first.status_code == 409
    lake.http.delete("namespaces/db/tables/t").raise_for_status()
    again = send(lake.http, request, f"{branch.name}-two")
    assert (again.status_code, again.content) == (409, first.content)
    assert send(lake.http, request, f"{branch.name}-three").status_code == 200


def test_a_crash_between_commit_and_answer_is_answered_from_the_log(tmp_path: Path) -> None:
    """The row that keeps answers is gone with the crash; the commit is not."""
    server = ServedStore(f"sqlite:///{tmp_path}/lake.db")
    server.start()
    try:
        with httpx.Client(base_url=f"{server.url}/iceberg/v1/lake/", timeout=30) as http:
            made = filled(http)
            first = {}
            for number, route in enumerate(IN_A_ROW):
                first[route] = send(http, REQUESTS[route](made), f"key-{number}")
        server.kill9()
        forget_answers(server.store_url)
        server.start()
        with httpx.Client(base_url=f"{server.url}/iceberg/v1/lake/", timeout=30) as http:
            head = branch_head(server)
            for number, (route, answer) in enumerate(first.items()):
                again = send(http, REQUESTS[route](made), f"key-{number}")
                assert (again.status_code, again.content) == (answer.status_code, answer.content), route
                assert "idempotency-replayed" not in again.headers, "it was kept: nothing was forgotten"
            assert branch_head(server) == head
    finally:
        server.stop()


def branch_head(server: ServedStore) -> int:
    pointers = httpx.get(f"{server.url}/feed/v1/default/pointers").json()["pointers"]
    return next(int(one["seq"]) for one in pointers if one["name"] == "cat/1/heads/main")


def forget_answers(store_url: str) -> None:
    """As if the process had died after its commits and before it wrote down what it answered."""
    import headwater
    from headwater.persistence.records.idempotency_rows import IDEMPOTENCY_TYPE

    with headwater.open(store_url) as engine:
        kernel = engine.realm().kernel
        rows = kernel.store.backend.list_mutable(kernel.realm, IDEMPOTENCY_TYPE)
        assert rows
        for row in rows:
            assert kernel.store.backend.delete_mutable(kernel.realm, row)


def test_clients_learn_how_long_a_key_is_valid(lake: IcebergLake) -> None:
    config = httpx.get(f"{lake.url}/v1/config", params={"warehouse": lake.warehouse}).json()
    assert config["idempotency-key-lifetime"] == "PT86400S"
