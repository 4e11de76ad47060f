"""Polls of the feed: pages, cursors, waiting, entity tags, filters, several pointers at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headwater.consumers.clients.chain import Chain
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import FeedPage
from tests.support.fixtures.feed_branch import FeedBranch, put
from tests.support.models.commit_harness import cut


def pages(branch: FeedBranch, after: object = "earliest", **parameters: Any) -> list[dict[str, Any]]:
    """Page after page, by cursor, until one is empty at the head."""
    found = []
    while True:
        page = branch.changes(after, **parameters)
        found.append(page)
        if page["range"]["to"] == page["head"]["seq"]:
            return found
        after = page["cursor"]


def test_a_page_has_the_shape_that_outsiders_rely_on(branch: FeedBranch) -> None:
    made = branch.commit("db", "db.t", author="ann", message="why", headers={"job": "7"})
    page = branch.changes(1)
    assert list(page) == ["changes", "range", "cursor", "head"]
    assert page["range"] == {"from": 1, "to": 2}
    assert page["head"] == {"seq": 2, "entry_id": made["commit_id"], "commit_id": made["commit_id"]}
    assert page["cursor"].startswith("hwc1_")
    (change,) = page["changes"]
    assert change == made["change"]
    assert (change["realm"], change["pointer"], change["seq"], change["kind"]) == ("default", branch.pointer, 2, "commit")
    assert (change["author"], change["message"], change["headers"]) == ("ann", "why", {"job": "7"})
    assert [operation["key"] for operation in change["operations"]] == [["db"], ["db", "t"]]
    assert {"op", "key", "content_id", "type", "before", "after"} <= set(change["operations"][0])
    msgspec.json.decode(msgspec.json.encode(page), type=FeedPage, strict=True)


def test_every_page_size_gives_the_same_entries_in_one_chain(branch: FeedBranch) -> None:
    branch.commit("db")
    for n in range(24):
        branch.commit(f"db.t{n}")
    for limit in (1, 7, 25, 1000):
        chain, seqs = Chain(branch.pointer, 0), []
        for page in pages(branch, limit=limit):
            typed = msgspec.json.decode(msgspec.json.encode(page), type=FeedPage)
            assert typed.range is not None and len(typed.changes) <= limit
            frame = Frame(pointer=branch.pointer, from_seq=typed.range.from_, to_seq=typed.range.to, changes=typed.changes)
            seqs += [change.seq for change in chain.accept(frame)]
        assert seqs == list(range(1, 27))


def test_after_is_exclusive_for_every_kind_of_cursor(branch: FeedBranch) -> None:
    branch.commit("db")
    second = branch.commit("db.a")
    time_between = second["change"]["time"]
    branch.commit("db.b")
    cursor = branch.changes(limit=3)["cursor"]
    for after in (3, second["commit_id"], second["change"]["entry_id"], time_between, cursor):
        assert [change["seq"] for change in branch.changes(after)["changes"]] == [4], after
    assert [change["seq"] for change in branch.changes("earliest")["changes"]] == [1, 2, 3, 4]
    assert branch.changes("latest")["changes"] == []
    assert branch.changes(4)["range"] == {"from": 4, "to": 4}


def test_commits_of_another_process_are_seen_and_asked_for_by_id_at_once(branch: FeedBranch) -> None:
    branch.changes("latest")  # the server has the head in memory now
    from headwater import Namespace, Put

    made = branch.handle.commit([Put(("db",), Namespace())])
    assert branch.changes(made.commit_id)["range"] == {"from": 2, "to": 2}, "a cursor beyond the known head reads it again"
    waited = branch.changes(1, wait=10)
    assert [change["entry_id"] for change in waited["changes"]] == [made.commit_id]


def test_a_long_poll_returns_with_the_first_change(branch: FeedBranch) -> None:
    committed = threading.Timer(0.3, branch.commit, ["db"])
    committed.start()
    started = time.monotonic()
    page = branch.changes(1, wait=20)
    assert [change["seq"] for change in page["changes"]] == [2]
    assert time.monotonic() - started < 15, "it did not wait for the end of its time"
    committed.join()
    assert branch.changes(2, wait=0.2)["changes"] == []


def test_nothing_new_is_304_until_something_is(branch: FeedBranch) -> None:
    parameters = {"pointer": branch.pointer, "after": 1}
    first = branch.http.get("/changes", params=parameters)
    etag = first.headers["etag"]
    assert first.json()["changes"] == [] and etag.endswith(f'-1-{first.json()["head"]["entry_id"][:16]}"')
    same = branch.http.get("/changes", params=parameters, headers={"If-None-Match": etag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    waited = branch.http.get("/changes", params={**parameters, "wait": 0.2}, headers={"If-None-Match": etag})
    assert waited.status_code == 304
    branch.commit("db")
    news = branch.http.get("/changes", params=parameters, headers={"If-None-Match": etag})
    assert news.status_code == 200 and [change["seq"] for change in news.json()["changes"]] == [2]
    assert news.headers["etag"] != etag


def test_an_entity_tag_never_hides_entries_that_its_page_did_not_have(branch: FeedBranch) -> None:
    branch.commit("db")
    first = branch.http.get("/changes", params={"pointer": branch.pointer, "after": 0, "limit": 1})
    following = {"pointer": branch.pointer, "after": first.json()["cursor"], "limit": 1}
    second = branch.http.get("/changes", params=following, headers={"If-None-Match": first.headers["etag"]})
    assert second.status_code == 200 and [change["seq"] for change in second.json()["changes"]] == [2]
    everything = {"pointer": branch.pointer, "after": 0}
    whole = branch.http.get("/changes", params=everything)
    known = {"If-None-Match": whole.headers["etag"]}
    for _ in range(2):  # once from the log, once from the answer that is kept
        assert branch.http.get("/changes", params=everything, headers=known).status_code == 304
    branch.commit("db.t")
    newer = branch.http.get("/changes", params=everything, headers=known)
    assert newer.status_code == 200 and [change["seq"] for change in newer.json()["changes"]] == [1, 2, 3]


def test_a_filtered_reader_advances_over_hidden_changes(branch: FeedBranch) -> None:
    branch.commit("a", "b")
    for n in range(5):
        branch.commit(f"b.t{n}")
    page = branch.changes(2, prefix="a")
    assert page["changes"] == [] and page["range"] == {"from": 2, "to": 7}
    branch.commit("a.t")
    resumed = branch.http.get("/changes", params={"after": page["cursor"]}).json()
    assert [change["seq"] for change in resumed["changes"]] == [8], "the cursor carries pointer and filter"
    branch.commit("b.last")
    assert branch.changes(8, prefix="a", wait=0.3)["range"] == {"from": 8, "to": 9}, "the range continues while it waits"


@pytest.mark.parametrize(
    ("filters", "seqs"),
    [
        ({"kind": "create"}, [1]),
        ({"kind": ["create", "merge"]}, [1]),
        ({"op": "delete"}, [1, 5]),
        ({"type": "NAMESPACE"}, [1, 2, 5]),
        ({"prefix": "a"}, [1, 2, 3, 5]),
        ({"prefix": "a.t"}, [1, 3, 5]),
        ({"prefix": "a\x1ft"}, [1, 3, 5]),
    ],
)
def test_filters_show_whole_changes_and_never_hide_deletions_or_moves(
    branch: FeedBranch, filters: dict[str, Any], seqs: list[int]
) -> None:
    branch.commit("a", "ab")
    branch.commit("a.t")
    branch.commit("ab.t")
    delete = {"catalog": "lake", "branch": branch.name, "operations": [{"op": "delete", "key": ["a", "t"]}]}
    assert branch.http.post("/commit", json=delete).status_code == 200
    assert [change["seq"] for change in branch.changes(**filters)["changes"]] == seqs


def test_a_content_is_followed_by_its_id(branch: FeedBranch) -> None:
    branch.commit("a", "a.t")
    content_id = branch.changes(1)["changes"][0]["operations"][1]["content_id"]
    branch.commit("a.other")
    rename = {"op": "rename", "from_key": ["a", "t"], "key": ["a", "u"]}
    body = {"catalog": "lake", "branch": branch.name, "operations": [rename]}
    assert branch.http.post("/commit", json=body).status_code == 200
    assert [change["seq"] for change in branch.changes(1, content_id=content_id)["changes"]] == [2, 4]


def test_several_pointers_make_one_feed_by_time(new_branch: Callable[[], FeedBranch]) -> None:
    one, two = new_branch(), new_branch()
    for n in range(6):
        (one, two)[n % 2].commit(f"n{n}")
    params: dict[str, Any] = {"pointer": [one.pointer, two.pointer], "after": "earliest", "limit": 3}
    seen: list[tuple[str, int]] = []
    chains = {branch.pointer: Chain(branch.pointer, 0) for branch in (one, two)}
    while True:
        page = one.http.get("/changes", params=params).json()
        assert set(page) == {"changes", "ranges", "cursor", "heads"}
        typed = msgspec.json.decode(msgspec.json.encode(page), type=FeedPage)
        assert typed.ranges is not None and typed.heads is not None
        assert [change.time for change in typed.changes] == sorted(change.time for change in typed.changes)
        for pointer, span in typed.ranges.items():
            own = tuple(change for change in typed.changes if change.pointer == pointer)
            frame = Frame(pointer=pointer, from_seq=span.from_, to_seq=span.to, changes=own)
            seen += [(change.pointer, change.seq) for change in chains[pointer].accept(frame)]
        if all(typed.ranges[pointer].to == typed.heads[pointer].seq for pointer in typed.ranges):
            break
        params = {"after": page["cursor"], "limit": 3}
    assert sorted(seen) == sorted((branch.pointer, seq) for branch in (one, two) for seq in range(1, 5))
    waited = threading.Timer(0.2, two.commit, ["late"])
    waited.start()
    news = one.http.get("/changes", params={"after": page["cursor"], "wait": 20}).json()
    waited.join()
    assert [change["pointer"] for change in news["changes"]] == [two.pointer]


def test_a_page_ends_at_its_bound_in_bytes_and_never_inside_a_change(branch: FeedBranch) -> None:
    branch.commit("db")
    for n in range(12):
        table = put("db.big", metadata_location=f"s3://{n}/" + "x" * 8_000)
        operations = [{**table, "key": ["db", f"t{n}-{k}"]} for k in range(100)]
        body = {"catalog": "lake", "branch": branch.name, "operations": operations}
        assert branch.http.post("/commit", json=body).status_code == 200
    first = branch.changes(2, limit=1000)
    assert first["range"]["from"] == 2 and first["range"]["to"] < 14, "about 800 kB each: twelve are over the bound"
    assert all(len(change["operations"]) == 100 for change in first["changes"])
    assert [change["seq"] for page in pages(branch, limit=1000) for change in page["changes"]] == list(range(1, 15))


def test_expired_reset_and_ahead_are_three_answers(branch: FeedBranch, new_branch: Callable[[], FeedBranch]) -> None:
    branch.commit("db")
    cursors = [branch.changes(limit=n)["cursor"] for n in (1, 2)]
    for n in range(4):
        branch.commit(f"db.t{n}")
    kernel = branch.handle._kernel
    cut(kernel, branch.pointer, 4)
    wait_for_floor(branch, 4)
    for after in (0, 1, cursors[0], cursors[1]):
        expired = branch.refused(after=after)
        problem = expired.json()
        assert (expired.status_code, problem["code"]) == (410, "CURSOR_EXPIRED"), after
        assert expired.headers["content-type"] == "application/problem+json"
        assert (problem["oldest"], problem["head"], problem["retriable"]) == (4, 6, False)
        assert problem["snapshot_url"] == f"/feed/v1/default/snapshot?pointer={branch.pointer}"
    snapshot = branch.http.get(problem["snapshot_url"].removeprefix("/feed/v1/default"))
    assert snapshot.status_code == 200 and len(snapshot.json()["entries"]) == 5
    assert branch.changes(snapshot.json()["cursor"])["range"] == {"from": 6, "to": 6}, "the way out leads on"
    assert [change["seq"] for change in branch.changes(3)["changes"]] == [4, 5, 6], "just below the floor nothing is missing"
    assert [change["seq"] for change in branch.changes("earliest")["changes"]] == [4, 5, 6]
    elsewhere = new_branch().commit("x")["commit_id"]
    reset = branch.refused(after=elsewhere)
    assert (reset.status_code, reset.json()["code"]) == (410, "CURSOR_RESET")
    behind = branch.refused(after=7)
    assert (behind.status_code, behind.json()["code"], behind.headers["retry-after"]) == (503, "CURSOR_AHEAD", "1")


def test_a_truncation_that_races_slow_readers_gives_410_and_never_a_gap(branch: FeedBranch) -> None:
    branch.commit("db")
    for n in range(60):
        branch.commit(f"db.t{n % 7}")
    kernel = branch.handle._kernel
    ended: list[str] = []

    def read() -> None:
        seqs: list[int] = []
        after: object = "0"
        with branch.server.client() as http:
            while True:
                answer = http.get("/changes", params={"pointer": branch.pointer, "after": after, "limit": 2})
                if answer.status_code == 410:
                    assert answer.json()["code"] == "CURSOR_EXPIRED"
                    ended.append("expired")
                    break
                page = answer.json()
                seqs += [change["seq"] for change in page["changes"]]
                if page["range"]["to"] == page["head"]["seq"]:
                    ended.append("whole")
                    break
                after = page["cursor"]
                time.sleep(0.01)
        assert seqs == list(range(1, len(seqs) + 1))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for floor in (20, 40, 60):
        time.sleep(0.05)
        cut(kernel, branch.pointer, floor)
    for reader in readers:
        reader.join()
    assert len(ended) == 4 and "expired" in ended, f"no reader met the cut: {ended}"


def wait_for_floor(branch: FeedBranch, floor: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        listed = branch.http.get("/changes", params={"pointer": branch.pointer, "after": "earliest", "limit": 1}).json()
        if listed["range"]["from"] == floor - 1:
            return
        time.sleep(0.02)
    assert PointerLog(branch.handle._kernel, branch.pointer).head().row.floor == floor
    raise AssertionError("the server has not noticed the cut")


def test_a_time_with_a_blank_is_the_same_time_for_one_pointer_and_for_several(new_branch: Callable[[], FeedBranch]) -> None:
    one, two = new_branch(), new_branch()
    one.commit("a")
    time = one.changes()["changes"][-1]["time"]
    for branch in (one, two):
        branch.commit("later")
    for text in (time, time.replace("T", " ")):
        for pointers in (one.pointer, [one.pointer, two.pointer]):
            page = one.http.get("/changes", params={"pointer": pointers, "after": text}).json()
            assert page["changes"] and all(change["time"] > time for change in page["changes"])
