"""The description of the server against what runs: complete, generated, and fuzzed without finding a 500."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from headwater.schemas.http.feed_json import CommitAnswer, FeedPage, PointersPage, Problem, StatePage
from headwater.service.feed.feed_routes import FEED_API
from headwater.service.root.openapi import openapi
from headwater.service.routes import route_table
from tests.support.faults.fuzzing import asking
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.feed_server import FeedServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.core.errors import InvalidSchema

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
EXAMPLES = 100 if SOAK else 5
"""Of each operation, once such as fit the description and once such as do not."""


def test_the_description_matches_the_served_routes(shared_feed: FeedServer) -> None:
    served = httpx.get(f"{shared_feed.url}/openapi.json")
    assert served.headers["content-type"] == "application/json"
    assert served.json() == msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(openapi(route_table()))))
    assert served.json()["openapi"] == "3.1.0"


def test_every_route_is_shown_to_people(shared_feed: FeedServer) -> None:
    served = httpx.get(f"{shared_feed.url}/docs")
    assert served.headers["content-type"] == "text/html; charset=utf-8" and "<script" not in served.text
    for _, route in route_table().routes:
        assert f"<code>{route.method} {route.path}</code>" in served.text


def test_every_route_is_described_and_found() -> None:
    paths = openapi(route_table())["paths"]
    for route in FEED_API.routes:
        described = paths[route.path][route.method.lower()]
        names = [parameter["name"] for parameter in described["parameters"] if parameter["in"] == "query"]
        assert names == [parameter.name for parameter in route.parameters]
        path = route.path.replace("{realm}", "r").replace("{name}", "n").replace("{id}", "i")
        assert route_table().find({"path": path}).by_method[route.method] is route
    ids = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(ids) == len(set(ids))


def test_answers_are_of_the_described_types(branch: FeedBranch) -> None:
    made = branch.http.post(
        "/commit",
        json={
            "catalog": "lake",
            "branch": branch.name,
            "operations": [{"op": "put", "key": ["a"], "type": "NAMESPACE", "content": {}}],
        },
    )
    page = branch.http.get("/changes", params={"pointer": branch.pointer})
    state = branch.http.get("/snapshot", params={"pointer": branch.pointer})
    for answer, type in (
        (made, CommitAnswer),
        (page, FeedPage),
        (state, StatePage),
        (branch.http.get("/pointers"), PointersPage),
        (branch.http.get("/changes"), Problem),
        (branch.http.get("/nothing"), Problem),
    ):
        decoded = msgspec.json.decode(answer.content, type=type, strict=True)
        assert set(msgspec.to_builtins(decoded)) >= set(answer.json()) - {"next_token"}, type


def test_no_valid_or_nearly_valid_request_is_a_500(shared_feed: FeedServer) -> None:
    schema = schemathesis.openapi.from_dict(openapi(route_table()))
    asked = 0
    statuses: set[int] = set()
    for result in schema.get_all_operations():
        operation = result.ok() if not isinstance(result, InvalidSchema) else None
        assert operation is not None
        if operation.path.endswith("/stream") or operation.path.startswith(("/manage", "/iceberg")):
            # A stream has no end, its parameters are those of `changes`; management would close the shared realm. It and the
            # Iceberg API have tests of their own.
            continue
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @asking(EXAMPLES)
            def ask(case: Any) -> None:
                nonlocal asked
                if isinstance(case.query, dict) and "wait" in case.query:
                    case.query["wait"] = 0
                if case.path_parameters and "realm" in case.path_parameters:
                    case.path_parameters["realm"] = "default"
                answer = case.call(base_url=shared_feed.url, timeout=30)
                asked += 1
                statuses.add(answer.status_code)
                assert answer.status_code != 500, f"{case.as_curl_command()}\n{answer.text}"
                documented = case.operation.definition.raw["responses"]
                unasked = answer.status_code in (405, 414, 431)  # another path, or of the server below us
                assert unasked or str(answer.status_code) in documented, f"{case.as_curl_command()}\n{answer.text}"
                if answer.status_code >= 400 and answer.content:
                    media = documented.get(str(answer.status_code), {}).get("content", {"application/": {}})
                    assert answer.headers["content-type"][0].startswith(tuple(media)), answer.text

            with contextlib.suppress(Unsatisfiable):  # an operation without parameters has nothing that does not fit
                ask()
    assert asked > 60 and {200, 400, 404} <= statuses, (asked, statuses)


@given(
    path=st.text(max_size=40),
    query=st.dictionaries(
        st.sampled_from(["pointer", "after", "limit", "wait", "kind", "at", "token", "prefix"]), st.text(max_size=70)
    ),
    body=st.binary(max_size=200),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    route=st.sampled_from(["changes", "stream", "snapshot", "pointers", "commits", "commit", "subscriptions", ""]),
)
@settings(
    max_examples=500 if SOAK else 60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_no_random_request_is_a_500(
    shared_feed: FeedServer, path: str, query: dict[str, str], body: bytes, method: str, route: str
) -> None:
    query.pop("wait", None)
    target = f"{shared_feed.feed}/{route}/{quote(path, safe='')}" if path else f"{shared_feed.feed}/{route}"
    try:
        with httpx.stream(method, target, params=query, content=body, timeout=30) as answer:
            if answer.status_code >= 500:
                answer.read()
                assert answer.json()["code"] == "CURSOR_AHEAD", answer.text
    except (httpx.InvalidURL, UnicodeEncodeError):
        return
