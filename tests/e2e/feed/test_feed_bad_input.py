"""Whatever comes in: every parameter out of range, forged and foreign cursors, wrong paths and methods. Never a 500."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

import headwater
from headwater.schemas.cursor import Cursor, Position, encode_cursor
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.feed_server import FeedServer, events

BAD = [
    ("changes", {"limit": 0}, "limit"),
    ("changes", {"limit": 1001}, "limit"),
    ("changes", {"limit": -1}, "limit"),
    ("changes", {"limit": "ten"}, "limit"),
    ("changes", {"limit": "1e2"}, "limit"),
    ("changes", {"limit": ["1", "2"]}, "limit"),
    ("changes", {"limit": "9" * 30}, "limit"),
    ("changes", {"limit": ""}, "limit"),
    ("changes", {"wait": -1}, "wait"),
    ("changes", {"wait": 61}, "wait"),
    ("changes", {"wait": "nan"}, "wait"),
    ("changes", {"wait": "inf"}, "wait"),
    ("changes", {"kind": "commits"}, "kind"),
    ("changes", {"op": "upsert"}, "op"),
    ("changes", {"type": ""}, "type"),
    ("changes", {"prefix": "a..b"}, "prefix"),
    ("changes", {"prefix": ".".join("x" * 40)}, "prefix"),
    ("changes", {"content_id": "x" * 37}, "content_id"),
    ("changes", {"pointer": ["a", "b\nc"]}, "pointer"),
    ("changes", {"pointer": [f"p{n}" for n in range(101)]}, "pointer"),
    ("changes", {"pointer": "x" * 1001}, "pointer"),
    ("changes", {"after": "x" * 20_001}, "after"),
    ("changes", {"after": "yesterday"}, "after"),
    ("changes", {"after": "-1"}, "after"),
    ("changes", {"after": "1.5"}, "after"),
    ("changes", {"after": "2026-13-01T00:00:00Z"}, "after"),
    ("changes", {"after": "2026-01-01T00:00:00"}, "after"),
    ("changes", {"after": "F" * 64}, "after"),
    ("changes", {"after": "hwc1_"}, "after"),
    ("changes", {"after": "hwc1_AAAA"}, "after"),
    ("changes", {"after": "hwc1_%%%"}, "after"),
    ("changes", {"after": "hwc2_AAAA"}, "after"),
    ("changes", {"unknown": "1"}, "unknown"),
    ("stream", {"heartbeat": 0}, "heartbeat"),
    ("stream", {"heartbeat": 301}, "heartbeat"),
    ("stream", {"after": "nonsense"}, "after"),
    ("stream", {"wait": 1}, "wait"),
    ("snapshot", {"limit": 10_001}, "limit"),
    ("snapshot", {"at": "nonsense"}, "at"),
    ("snapshot", {"token": "nonsense"}, "page_token"),
    ("snapshot", {"token": "AAAA"}, "page_token"),
    ("pointers", {"limit": 0}, "limit"),
    ("pointers", {"prefix": "\x01"}, "prefix"),
    ("pointers", {"page": "2"}, "page"),
]


@pytest.mark.parametrize(("route", "parameters", "field"), BAD)
def test_a_parameter_out_of_range_is_named(branch: FeedBranch, route: str, parameters: dict[str, Any], field: str) -> None:
    given = parameters if route == "pointers" else {"pointer": branch.pointer, **parameters}
    answer = branch.http.get(f"/{route}", params=given)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.json()


def test_all_bad_parameters_are_named_at_once(branch: FeedBranch) -> None:
    answer = branch.http.get("/changes", params={"limit": 0, "wait": 99, "color": "red"})
    assert [fault["name"] for fault in answer.json()["parameters"]] == ["color", "limit", "wait"]


def test_an_unreadable_query_is_refused(shared_feed: FeedServer) -> None:
    for query in ("pointer=%ff", "pointer=" + "x" * 60_000, "&".join(f"a{n}=1" for n in range(1_100))):
        answer = httpx.get(f"{shared_feed.feed}/changes?{query}")
        assert answer.status_code in (400, 414, 431), answer.status_code


def test_truncated_and_forged_cursors_are_refused(branch: FeedBranch) -> None:
    branch.commit("a")
    cursor = branch.changes()["cursor"]
    for cut in range(5, len(cursor) - 1, 7):
        assert branch.refused(after=cursor[:cut]).status_code == 400, cut
    flipped = cursor[:-3] + ("A" if cursor[-3] != "A" else "B") + cursor[-2:]
    assert branch.refused(after=flipped).json()["field"] == "after"
    body = base64.urlsafe_b64decode(cursor[5:] + "==")
    assert branch.refused(after="hwc1_" + base64.urlsafe_b64encode(b"\0" * 6 + body[6:]).decode()).status_code == 400
    instance = branch.handle._kernel.realm
    for position, status in (
        (Position(2, b"\0" * 32), 410),
        (Position(1, b"short"), 410),
        (Position(99, b""), 503),
        (Position(-5, b""), 400),
        (Position(2**62, b""), 503),
    ):
        forged = encode_cursor(Cursor(instance, {branch.pointer: position}))
        assert branch.refused(after=forged).status_code == status, position


def test_cursors_of_other_pointers_realms_and_instances_are_refused(branch: FeedBranch) -> None:
    other = encode_cursor(Cursor(branch.handle._kernel.realm, {"catalogs": Position(1, b"")}))
    assert branch.refused(after=other).json()["field"] == "after"
    for instance in ("other#0000000000000000", "default#0000000000000000", ""):
        reset = branch.refused(after=encode_cursor(Cursor(instance, {branch.pointer: Position(1, b"")})))
        assert (reset.status_code, reset.json()["code"]) == (410, "CURSOR_RESET"), instance
        assert reset.json()["snapshot_url"].endswith(branch.pointer)
    empty = encode_cursor(Cursor(branch.handle._kernel.realm, {}))
    assert branch.http.get("/changes", params={"after": empty}).json()["field"] == "pointer"


def test_ids_that_name_nothing_or_something_else_are_reset(branch: FeedBranch) -> None:
    made = branch.commit("a")
    content_object = made["change"]["objects_added"][1] + "0" * 48
    flipped = made["commit_id"][:-1] + format(int(made["commit_id"][-1], 16) ^ 1, "x")
    for after in ("f" * 64, "0" * 64, content_object, flipped):
        answer = branch.refused(after=after)
        assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_RESET"), answer.text


def test_what_is_not_there_is_404(branch: FeedBranch) -> None:
    for path, code in (
        ("/changes?pointer=cat/1/heads/none", "POINTER_NOT_FOUND"),
        ("/snapshot?pointer=none", "POINTER_NOT_FOUND"),
        ("/subscriptions/none", "SUBSCRIPTION_NOT_FOUND"),
        ("/nothing", "ROUTE_NOT_FOUND"),
        ("/commits", "ROUTE_NOT_FOUND"),
        ("/changes/more", "ROUTE_NOT_FOUND"),
        ("/subscriptions/a/b", "ROUTE_NOT_FOUND"),
    ):
        answer = branch.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, code), path
    for realm, status in (("none", 404), ("::system::", 404), ("a b", 400), ("%00", 400), ("", 404), ("x" * 500, 400)):
        answer = httpx.get(f"{branch.server.url}/feed/v1/{realm}/changes?pointer=catalogs")
        assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json", realm
    assert httpx.get(f"{branch.server.url}/feed/v1").json()["code"] == "ROUTE_NOT_FOUND"
    assert httpx.get(f"{branch.server.url}/feed/v2/default/changes").json()["code"] == "ROUTE_NOT_FOUND"


def test_wrong_methods_are_405_with_those_allowed(branch: FeedBranch) -> None:
    for method, path, allowed in (
        ("POST", "/changes", "GET"),
        ("DELETE", "/changes", "GET"),
        ("GET", "/commit", "POST"),
        ("PATCH", "/subscriptions/a", "PUT, GET, DELETE"),
        ("GET", "/subscriptions/a/rewind", "POST"),
    ):
        answer = branch.http.request(method, path)
        assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "METHOD_NOT_ALLOWED", allowed)
    plain = httpx.post(f"{branch.server.url}/readyz")
    assert plain.status_code == 405 and plain.headers["content-type"] == "application/problem+json"


def test_a_realm_that_is_closed_serves_no_one_and_a_new_instance_resets(shared_feed: FeedServer) -> None:
    with headwater.open(shared_feed.store_url) as engine, httpx.Client(base_url=f"{shared_feed.url}/feed/v1/other") as http:
        engine.create_realm("other")
        cursor = http.get("/changes", params={"pointer": "principals"}).json()["cursor"]
        with http.stream("GET", "/stream", params={"after": cursor}, timeout=30) as stream:
            coming = events(stream.iter_lines())
            assert next(coming).event == "bookmark"
            engine.realms.deactivate("other")
            *_, end = coming
            assert (end.event, end.data["problem"]["code"]) == ("end", "REALM_NOT_ACTIVE")
        closed = poll_until(http, 409)
        assert closed["code"] == "REALM_NOT_ACTIVE"
        engine.realms.purge("other")
        engine.realms.finish_purge("other")
        engine.realms.delete("other")
        assert http.get("/changes", params={"pointer": "principals"}).json()["code"] == "REALM_NOT_FOUND"
        engine.create_realm("other")
        reset = http.get("/changes", params={"pointer": "principals", "after": cursor})
        assert (reset.status_code, reset.json()["code"]) == (410, "CURSOR_RESET")


def test_pages_of_elsewhere_that_run_in_a_browser_here_are_refused(shared_feed: FeedServer) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example:8181"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1"},
    ):
        answer = httpx.get(f"{shared_feed.feed}/pointers", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), headers
    for headers in ({"Origin": "http://localhost:3000"}, {"Host": "localhost:8181"}, {"Host": "[::1]:8181"}):
        assert httpx.get(f"{shared_feed.feed}/pointers", headers=headers).status_code == 200, headers


def poll_until(http: httpx.Client, status: int) -> Any:
    for _ in range(200):
        answer = http.get("/changes", params={"pointer": "principals", "wait": 0.05, "after": "latest"})
        if answer.status_code == status:
            return answer.json()
    raise AssertionError(f"never {status}: {answer.text}")
