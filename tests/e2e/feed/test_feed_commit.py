"""Commits over HTTP: all or none, once for each key, conflicts together, and bad bodies refused by field."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.fixtures.feed_branch import FeedBranch, put


def body(branch: FeedBranch, *operations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"catalog": "lake", "branch": branch.name, "operations": list(operations), **fields}


def test_a_commit_is_answered_with_its_change(branch: FeedBranch) -> None:
    answer = branch.http.post("/commit", json=body(branch, put("db"), author="ann", message="m", headers={"a": "b"}))
    found = answer.json()
    assert answer.status_code == 200 and set(found) == {"pointer", "commit_id", "seq", "replayed", "change"}
    assert (found["pointer"], found["seq"], found["replayed"]) == (branch.pointer, 2, False)
    assert found["change"]["author"] == "ann" and found["change"]["commit_id"] == found["commit_id"]
    assert branch.commit("x")["change"]["author"] == "dev", "who acts under --dev"


def test_the_same_key_commits_once(branch: FeedBranch) -> None:
    first = branch.commit("db", http_headers={"Idempotency-Key": "k1"})
    again = branch.commit("db", http_headers={"Idempotency-Key": "k1"})
    assert again["replayed"] and (again["commit_id"], again["seq"]) == (first["commit_id"], first["seq"])
    assert first["change"]["request_id"] == "k1"
    other = branch.http.post("/commit", json=body(branch, put("other")), headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert branch.changes("latest")["head"]["seq"] == 2
    for key in ("", "é" * 3, "x" * 300):
        bad = branch.http.post("/commit", json=body(branch, put("db")), headers={"Idempotency-Key": key.encode()})
        assert bad.status_code == 400, key


def test_conflicts_are_reported_together_with_kind_and_key(branch: FeedBranch) -> None:
    branch.commit("db", "db.t")
    refused = branch.http.post(
        "/commit",
        json=body(
            branch,
            {**put("db.t"), "must_not_exist": True},
            {"op": "delete", "key": ["db", "none"]},
            put("nowhere.t"),
        ),
    )
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (409, "COMMIT_CONFLICT")
    kinds = [(conflict["kind"], conflict["key"]) for conflict in problem["facts"]["conflicts"]]
    assert kinds == [
        ("KEY_EXISTS", ["db", "t"]),
        ("KEY_DOES_NOT_EXIST", ["db", "none"]),
        ("NAMESPACE_ABSENT", ["nowhere"]),
    ]
    assert branch.changes("latest")["head"]["seq"] == 2


def test_expected_head_and_base_commit_are_kept(branch: FeedBranch) -> None:
    first = branch.commit("a")
    branch.commit("b")
    strict = branch.http.post("/commit", json=body(branch, put("c"), expected_head=first["commit_id"]))
    assert strict.status_code == 409
    loose = branch.http.post("/commit", json=body(branch, put("c"), base_commit=first["commit_id"]))
    assert loose.status_code == 200
    touched = branch.http.post("/commit", json=body(branch, put("b"), base_commit=first["commit_id"]))
    assert touched.status_code == 409


def test_writers_at_once_all_land_once(branch: FeedBranch) -> None:
    made: list[str] = []

    def write(writer: int) -> None:
        with branch.server.client() as http:
            made.extend(branch._replace(http=http).commit(f"w{writer}-{n}")["commit_id"] for n in range(20))

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    log = [change["commit_id"] for change in branch.changes(1, limit=1000)["changes"]]
    assert len(log) == 160 and set(log) == set(made)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b'{"catalog":"lake"}', "body"),
        (b'{"catalog":"lake","operations":{}}', "$.operations"),
        (b'{"catalog":"lake","operations":[1]}', "$.operations[0]"),
        (b'{"catalog":"lake","operations":[],"x":1}', "body"),
        (b'{"catalog":"lake","operations":[]}', "operations"),
        (b'{"catalog":1,"operations":[]}', "$.catalog"),
        (b'{"catalog":"lake","operations":[{}]}', "operations[0].op"),
        (b'{"catalog":"lake","operations":[{"op":"put"}]}', "operations[0]"),
        (b'{"catalog":"lake","operations":[{"op":"put","key":["a"],"type":"NAMESPACE"}]}', "operations[0]"),
        (b'{"catalog":"lake","operations":[{"op":"put","key":"a","type":"NAMESPACE","content":{}}]}', "operations[0].key"),
        (b'{"catalog":"lake","operations":[{"op":"fly","key":["a"]}]}', "operations[0].op"),
        (b'{"catalog":"","operations":[{"op":"delete","key":["a"]}]}', "catalog"),
        (b'{"catalog":"lake","branch":"a..b","operations":[{"op":"delete","key":["a"]}]}', "reference"),
        (b'{"catalog":"lake","operations":[{"op":"delete","key":["a"]}],"expected_head":"x"}', "expected_head"),
        (b'{"catalog":"lake","operations":[{"op":"delete","key":["a\\u0000"]}]}', "operations[0].key"),
        (b'{"catalog":"lake","operations":[{"op":"delete","key":["a"]}],"headers":{"":"x"}}', "headers"),
        (b"[" * 100_000, "body"),
    ],
)
def test_a_bad_body_is_refused_by_field(branch: FeedBranch, content: bytes, field: str) -> None:
    answer = branch.http.post("/commit", content=content)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), problem
    assert problem["field"] == field, problem


def test_what_is_not_there_is_not_found(branch: FeedBranch) -> None:
    for change, code in (({"catalog": "none"}, "CATALOG_NOT_FOUND"), ({"branch": "none"}, "REFERENCE_NOT_FOUND")):
        answer = branch.http.post("/commit", json={**body(branch, put("a")), **change})
        assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_a_body_over_the_limit_is_refused_and_the_server_continues(branch: FeedBranch) -> None:
    for size in (1_000_001, 3_000_000):
        answer = branch.http.post("/commit", content=b" " * size)
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["facts"]["bytes_max"]) == (413, "REQUEST_TOO_LARGE", 1_000_000)
    branch.commit("still-here")


def test_a_key_used_with_another_content_or_message_is_refused(branch: FeedBranch) -> None:
    branch.commit("a", http_headers={"Idempotency-Key": "once"}, message="m")
    assert branch.commit("a", http_headers={"Idempotency-Key": "once"}, message="m")["replayed"]
    body = {"catalog": "lake", "branch": branch.name, "message": "m", "operations": [put("a")]}
    other = {"op": "put", "key": ["a"], "type": "NAMESPACE", "content": {"properties": {"x": "1"}}}
    for different in ({**body, "operations": [other]}, {**body, "message": "n"}):
        answer = branch.http.post("/commit", json=different, headers={"Idempotency-Key": "once"})
        assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


def test_if_match_commits_only_onto_the_version_that_was_read(branch: FeedBranch) -> None:
    body = {"catalog": "lake", "branch": branch.name, "operations": [put("a")]}
    first = branch.http.post("/commit", json=body)
    assert first.headers["etag"] == f'"{first.json()["commit_id"]}"'
    body["operations"] = [put("b")]
    second = branch.http.post("/commit", json=body, headers={"If-Match": first.headers["etag"]})
    assert second.status_code == 200
    body["operations"] = [put("c")]
    stale = branch.http.post("/commit", json=body, headers={"If-Match": first.headers["etag"]})
    assert (stale.status_code, stale.json()["code"], stale.json()["field"]) == (412, "PRECONDITION_FAILED", "If-Match")
    odd = branch.http.post("/commit", json=body, headers={"If-Match": "unquoted"})
    assert (odd.status_code, odd.json()["field"]) == (400, "If-Match")
    assert len(branch.changes()["changes"]) == 3, "the creation and two commits"


def test_correlation_ids_go_through_to_answer_and_change(branch: FeedBranch) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = {"X-Correlation-ID": "order-17", "traceparent": trace, "X-Request-ID": "r-1"}
    body = {"catalog": "lake", "branch": branch.name, "operations": [put("a")], "headers": {"mine": "1"}}
    answer = branch.http.post("/commit", json=body, headers=sent)
    assert (answer.headers["x-correlation-id"], answer.headers["x-request-id"]) == ("order-17", "r-1")
    assert answer.json()["change"]["headers"] == {"x-correlation-id": "order-17", "traceparent": trace, "mine": "1"}
    refused = branch.http.get("/nothing", headers={"X-Correlation-ID": "order-18", "Accept-Language": "de-CH, en;q=0.3"})
    assert (refused.headers["x-correlation-id"], refused.headers["content-language"]) == ("order-18", "de")
    assert (refused.json()["code"], refused.json()["title"]) == ("ROUTE_NOT_FOUND", "Pfad nicht gefunden")
    assert "x-correlation-id" not in branch.http.get("/pointers", headers={"X-Correlation-ID": "a b"}).headers
