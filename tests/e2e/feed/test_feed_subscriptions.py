"""Subscriptions: positions on the server, moved by one reader at a time, with pins that end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headwater.persistence.records.subscriptions import subscription_pins
from tests.support.fixtures.feed_branch import FeedBranch

_names = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"reader-{next(_names)}"


def create(branch: FeedBranch, name: str, **fields: Any) -> dict[str, Any]:
    answer = branch.http.put(f"/subscriptions/{name}", json={"pointers": [branch.pointer], "after": "earliest", **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def next_page(branch: FeedBranch, name: str, **parameters: Any) -> dict[str, Any]:
    answer = branch.http.get(f"/subscriptions/{name}/changes", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def acknowledge(branch: FeedBranch, name: str, body: dict[str, Any]) -> httpx.Response:
    return branch.http.post(f"/subscriptions/{name}/acknowledge", json=body)


def test_a_subscription_continues_where_its_reader_acknowledged(branch: FeedBranch, name: str) -> None:
    for n in range(5):
        branch.commit(f"n{n}")
    made = create(branch, name)
    assert made["positions"] == {branch.pointer: {"seq": 0, "entry_id": ""}} and made["lag"] == {branch.pointer: 6}
    page = next_page(branch, name, limit=4)
    assert [change["seq"] for change in page["changes"]] == [1, 2, 3, 4]
    assert page["ranges"] == {branch.pointer: {"from": 0, "to": 4}}
    assert next_page(branch, name, limit=4) == page, "reading moves nothing"
    moved = acknowledge(branch, name, page["acknowledge"])
    assert moved.status_code == 200 and moved.json()["lag"] == {branch.pointer: 2}
    assert [change["seq"] for change in next_page(branch, name)["changes"]] == [5, 6]
    assert [change["seq"] for change in branch.changes(moved.json()["cursor"])["changes"]] == [5, 6]


def test_the_second_of_two_readers_on_one_name_gets_subscription_moved(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    create(branch, name)
    first, second = next_page(branch, name, limit=1), next_page(branch, name, limit=2)
    assert acknowledge(branch, name, first["acknowledge"]).status_code == 200
    stale = acknowledge(branch, name, second["acknowledge"])
    assert (stale.status_code, stale.json()["code"], stale.json()["field"]) == (409, "SUBSCRIPTION_MOVED", "version")
    now = branch.http.get(f"/subscriptions/{name}").json()
    assert stale.json()["facts"]["version"] == now["version"] and now["positions"][branch.pointer]["seq"] == 1
    assert acknowledge(branch, name, first["acknowledge"]).status_code == 409, "nor is anything acknowledged twice"


def test_a_version_of_a_subscription_that_was_recreated_is_stale(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    create(branch, name)
    page = next_page(branch, name)
    assert branch.http.delete(f"/subscriptions/{name}").status_code == 204
    create(branch, name)
    assert acknowledge(branch, name, page["acknowledge"]).status_code == 409


def test_creating_the_same_again_is_no_error_and_something_else_is(branch: FeedBranch, name: str) -> None:
    made = create(branch, name)
    body = {"pointers": [branch.pointer], "after": "latest"}
    again = branch.http.put(f"/subscriptions/{name}", json=body)
    assert again.status_code == 200 and again.json()["version"] == made["version"]
    other = branch.http.put(f"/subscriptions/{name}", json={**body, "filter": {"prefix": ["a"]}})
    assert (other.status_code, other.json()["code"]) == (409, "SUBSCRIPTION_EXISTS")


def test_a_cursor_acknowledges_too_but_never_backwards_nor_beyond(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    made = create(branch, name)
    cursors = [branch.changes(limit=n)["cursor"] for n in (1, 2)]
    moved = acknowledge(branch, name, {"version": made["version"], "cursor": cursors[1]}).json()
    assert moved["positions"][branch.pointer]["seq"] == 2
    back = acknowledge(branch, name, {"version": moved["version"], "cursor": cursors[0]})
    assert (back.status_code, back.json()["field"]) == (400, "positions")
    beyond = {"version": moved["version"], "positions": {branch.pointer: {"seq": 9}}}
    assert acknowledge(branch, name, beyond).json()["code"] == "CURSOR_AHEAD"
    other = {"version": moved["version"], "positions": {branch.pointer: {"seq": 2, "entry_id": "0" * 64}}}
    assert acknowledge(branch, name, other).json()["code"] == "CURSOR_RESET"
    for body in ({"version": moved["version"]}, {**beyond, "cursor": cursors[1]}):
        assert acknowledge(branch, name, body).json()["field"] == "cursor"
    strange = {"version": moved["version"], "positions": {"catalogs": {"seq": 1}}}
    assert acknowledge(branch, name, strange).json()["field"] == "positions"


def test_an_operator_rewinds(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    made = create(branch, name, after="latest")
    assert next_page(branch, name)["changes"] == []
    rewound = branch.http.post(f"/subscriptions/{name}/rewind", json={"version": made["version"], "after": "1"})
    assert rewound.json()["positions"][branch.pointer]["seq"] == 1
    assert [change["seq"] for change in next_page(branch, name)["changes"]] == [2]
    stale = branch.http.post(f"/subscriptions/{name}/rewind", json={"version": made["version"], "after": "earliest"})
    assert stale.status_code == 409


def test_a_filter_is_kept_and_ranges_advance_under_it(branch: FeedBranch, name: str) -> None:
    branch.commit("a", "b")
    create(branch, name, after="latest", filter={"prefix": ["a"]})
    branch.commit("b.x")
    page = next_page(branch, name)
    assert page["changes"] == [] and page["ranges"][branch.pointer] == {"from": 2, "to": 3}
    assert acknowledge(branch, name, page["acknowledge"]).json()["positions"][branch.pointer]["seq"] == 3
    branch.commit("a.x")
    assert [change["seq"] for change in next_page(branch, name, wait=10)["changes"]] == [4]


def test_a_subscription_may_be_wider_than_a_cursor(new_branch: Callable[[], FeedBranch], name: str) -> None:
    branches = [new_branch() for _ in range(101)]
    one = branches[0]
    made = one.http.put(f"/subscriptions/{name}", json={"pointers": [branch.pointer for branch in branches]})
    assert made.status_code == 201 and made.json()["cursor"] is None
    branches[100].commit("x")
    page = next_page(one, name, wait=10)
    assert [change["pointer"] for change in page["changes"]] == [branches[100].pointer]
    assert set(page["acknowledge"]["positions"]) == {branches[100].pointer}
    assert acknowledge(one, name, page["acknowledge"]).status_code == 200


def test_a_subscription_pins_history_up_to_its_maximum_age(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    made = create(branch, name, pin_seconds=3600)
    kernel = branch.handle._kernel
    now = kernel.store.clock.now_micros()

    def pins(at: int) -> list[int]:
        holder = f"subscription {name}"
        return [pin.seq for pin in subscription_pins(kernel, at) if pin.holder == holder and pin.pointer == branch.pointer]

    assert pins(now) == [0] and pins(now + 3_599_000_000) == [0] and pins(now + 3_601_000_000) == []
    acknowledge(branch, name, {"version": made["version"], "positions": {branch.pointer: {"seq": 2}}})
    assert pins(now) == [2]
    text = httpx.get(f"{branch.server.url}/metrics").text
    labels = f'{{pointer="{branch.pointer}",realm="default",subscription="{name}"}}'
    assert f"headwater_pin_seq{labels} 2.0" in text and f"headwater_feed_lag_commits{labels} 0.0" in text


def test_a_subscription_is_deleted_and_then_unknown(branch: FeedBranch, name: str) -> None:
    create(branch, name)
    assert branch.http.delete(f"/subscriptions/{name}", params={"version": "1-1"}).status_code == 409
    assert branch.http.delete(f"/subscriptions/{name}").status_code == 204
    for answer in (
        branch.http.get(f"/subscriptions/{name}"),
        branch.http.delete(f"/subscriptions/{name}"),
        branch.http.get(f"/subscriptions/{name}/changes"),
        acknowledge(branch, name, {"version": "1-1", "positions": {branch.pointer: {"seq": 1}}}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "SUBSCRIPTION_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"pointers": []}, "$.pointers"),
        ({"pointers": ["catalogs"], "pin_seconds": -1}, "$.pin_seconds"),
        ({"pointers": ["catalogs"], "pin_seconds": 10**9}, "$.pin_seconds"),
        ({"pointers": ["catalogs"], "after": "yesterday"}, "after"),
        ({"pointers": ["none"]}, "pointers"),
        ({"pointers": ["catalogs", "principals"], "after": "1"}, "after"),
        ({"pointers": ["catalogs"], "filter": {"kinds": ["x"]}}, "filter.kinds"),
        ({"pointers": ["catalogs"], "color": 1}, "body"),
        ([], "body"),
    ],
)
def test_a_bad_subscription_is_refused_by_field(branch: FeedBranch, body: Any, field: str) -> None:
    answer = branch.http.put("/subscriptions/bad", json=body)
    assert (answer.status_code, answer.json()["field"]) == (404 if field == "pointers" else 400, field)
    assert branch.http.put("/subscriptions/-bad", json={"pointers": ["catalogs"]}).json()["field"] == "name"


def test_an_acknowledgement_under_a_key_is_done_once_and_answered_the_same(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    create(branch, name)
    page = next_page(branch, name, limit=1)
    path, key = f"/subscriptions/{name}/acknowledge", {"Idempotency-Key": f"ack-{name}"}
    first = branch.http.post(path, json=page["acknowledge"], headers=key)
    again = branch.http.post(path, json=page["acknowledge"], headers=key)
    assert first.status_code == again.status_code == 200 and first.json() == again.json()
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    refused = branch.http.post(path, json={**page["acknowledge"], "version": "other"}, headers=key)
    assert (refused.status_code, refused.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert acknowledge(branch, name, page["acknowledge"]).json()["code"] == "SUBSCRIPTION_MOVED", (
        "without the key it is another"
    )


def test_if_match_deletes_only_the_version_that_was_read(branch: FeedBranch, name: str) -> None:
    branch.commit("a")
    create(branch, name)
    etag = branch.http.get(f"/subscriptions/{name}").headers["etag"]
    assert acknowledge(branch, name, next_page(branch, name, limit=1)["acknowledge"]).status_code == 200
    stale = branch.http.delete(f"/subscriptions/{name}", headers={"If-Match": etag})
    assert (stale.status_code, stale.json()["code"]) == (412, "PRECONDITION_FAILED")
    newest = branch.http.get(f"/subscriptions/{name}").headers["etag"]
    assert branch.http.delete(f"/subscriptions/{name}", headers={"If-Match": newest}).status_code == 204
