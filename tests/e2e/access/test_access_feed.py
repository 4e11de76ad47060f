"""Readers with different rights at one feed: each sees what it may, and what it sees stays checkable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.consumers.clients.chain import Chain
from headwater.consumers.clients.feed_http import FeedTarget, received_of
from headwater.service.auth.rights.rights import Right
from headwater.service.errors.problems import BEARER
from tests.support.fixtures.access_rig import Rig, access_rig

MAIN = "cat/1/heads/main"
CHANGES = f"/feed/v1/alpha/changes?pointer={MAIN}"


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("feed")) as made:
        yield made


def _keys(page: dict[str, Any]) -> list[list[str]]:
    return [operation["key"] for change in page["changes"] for operation in change["operations"]]


def test_a_reader_of_one_namespace_sees_its_changes_and_ranges_over_the_rest(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("db",))
    for key in (("db",), ("other",), ("db", "sub"), ("other", "sub")):
        assert rig.commit("alpha", key).status_code == 200
    page = rig.get(CHANGES, reader).json()
    assert _keys(page) == [["db"], ["db", "sub"]] and page["withheld"] is True
    assert page["range"] == {"from": 0, "to": 5} and page["head"]["seq"] == 5
    whole = rig.get(CHANGES, rig.token("alpha")).json()
    assert len(_keys(whole)) == 4 and "withheld" not in whole


def test_a_feed_with_withheld_changes_stays_verifiable(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("db",))
    rig.commit("alpha", ("db",), ("other",))
    rig.commit("alpha", ("other", "sub"))
    target = FeedTarget(server="http://headwater.test", realm="alpha", pointers=(MAIN,))
    chain, seen, after = Chain(MAIN, 0), [], "earliest"
    for number in range(4):
        received = received_of(rig.get(f"{CHANGES}&after={after}&limit=1", reader).text, target)
        for frame in received.frames:
            seen += chain.accept(frame)
        after = received.cursor
        if number == 1:
            rig.commit("alpha", ("db", "late"))
    assert [[list(op.key) for op in change.operations] for change in seen] == [[], [["db"]], [["db", "late"]]]
    assert chain.seq == 4
    assert seen[1].message == "" and seen[1].headers == {"headwater.withheld": "1"}


def test_a_snapshot_and_a_commit_show_only_keys_that_may_be_read(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("db",))
    rig.commit("alpha", ("db",))
    hidden = rig.commit("alpha", ("other",)).json()["commit_id"]
    mixed = rig.commit("alpha", ("db", "a"), ("other", "b")).json()["commit_id"]
    snapshot = rig.get(f"/feed/v1/alpha/snapshot?pointer={MAIN}&limit=1", reader).json()
    entries = list(snapshot["entries"])
    while snapshot["next_token"]:
        snapshot = rig.get(f"/feed/v1/alpha/snapshot?token={snapshot['next_token']}&limit=1", reader).json()
        entries += snapshot["entries"]
    assert [entry["key"] for entry in entries] == [["db"], ["db", "a"]]
    assert rig.get(f"/feed/v1/alpha/commits/{hidden}", reader).status_code == 404
    shown = rig.get(f"/feed/v1/alpha/commits/{mixed}", reader)
    assert shown.status_code == 200 and "other" not in shown.text


def test_pages_and_their_tokens_name_nothing_that_may_not_be_seen(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("zz",))
    rig.commit("alpha", *[(f"hidden{number}",) for number in range(20)], ("zz",))
    page = rig.get("/feed/v1/alpha/pointers?limit=1", reader).json()
    assert [one["name"] for one in page["pointers"]] == [MAIN] and page["next_token"] == MAIN
    last = rig.get(f"/feed/v1/alpha/pointers?limit=1&token={MAIN}", reader).json()
    assert (last["pointers"], last["next_token"]) == ([], None)
    snapshot = rig.get(f"/feed/v1/alpha/snapshot?pointer={MAIN}&limit=1", reader).json()
    assert [entry["key"] for entry in snapshot["entries"]] == [["zz"]] and snapshot["next_token"] is None


@pytest.mark.parametrize(
    ("pointer", "right"),
    [
        ("principals", Right.ACCESS_MANAGE),
        ("principal-roles", Right.ACCESS_MANAGE),
        ("grants", Right.ACCESS_MANAGE),
        ("policy-mappings", Right.POLICY_READ),
        ("catalogs", Right.CATALOG_LIST),
        ("root", Right.REALM_MANAGE),
        ("immediate-tasks", Right.REALM_MANAGE),
    ],
)
def test_each_pointer_of_the_realm_is_visible_only_with_its_right(rig: Rig, pointer: str, right: Right) -> None:
    outsider = rig.principal("alpha", "outsider", Right.CATALOG_MANAGE)
    insider = rig.principal("alpha", "insider", over_realm=(right,))
    path = f"/feed/v1/alpha/changes?pointer={pointer}"
    refused = rig.get(path, outsider)
    absent = rig.get("/feed/v1/alpha/changes?pointer=absent", outsider)
    assert refused.status_code == 404
    assert refused.json()["detail"] == absent.json()["detail"].replace("absent", pointer)
    assert rig.get(path, insider).status_code == 200
    assert pointer not in [one["name"] for one in rig.get("/feed/v1/alpha/pointers", outsider).json()["pointers"]]
    assert pointer in [one["name"] for one in rig.get("/feed/v1/alpha/pointers", insider).json()["pointers"]]


def test_a_catalog_that_may_not_be_seen_is_refused_by_name_like_one_that_is_not_there(rig: Rig) -> None:
    token = rig.principal("alpha", "blind", over_realm=(Right.CATALOG_CREATE,))
    for path in ("changes", "snapshot", "stream"):
        hidden = rig.get(f"/feed/v1/alpha/{path}?catalog=lake", token)
        absent = rig.get(f"/feed/v1/alpha/{path}?catalog=none", token)
        assert hidden.status_code == absent.status_code == 404
        assert hidden.json()["detail"].replace("lake", "none") == absent.json()["detail"]


def test_a_caller_that_manages_a_catalog_sees_its_roles_and_grants(rig: Rig) -> None:
    manager = rig.principal("alpha", "manager", Right.CATALOG_MANAGE)
    reader = rig.principal("alpha", "reader", Right.CATALOG_READ)
    for pointer in ("cat/1/roles", "cat/1/grants"):
        assert rig.get(f"/feed/v1/alpha/changes?pointer={pointer}", manager).status_code == 200
        assert rig.get(f"/feed/v1/alpha/changes?pointer={pointer}", reader).status_code == 404


def test_a_revoked_right_stops_with_the_next_request_also_for_the_answer_that_was_kept(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ)
    rig.commit("alpha", ("db",))
    for _ in range(3):
        assert len(rig.get(CHANGES, reader).json()["changes"]) == 2
    rig.revoke("alpha", "reader", Right.FEED_READ)
    assert rig.get(CHANGES, reader).status_code == 404
    rig.grant("alpha", "reader", Right.FEED_READ, ("elsewhere",))
    assert _keys(rig.get(CHANGES, reader).json()) == []


def test_a_commit_needs_the_right_at_every_key_and_its_committer_is_the_principal_of_the_token(rig: Rig) -> None:
    writer = rig.principal("alpha", "writer", Right.COMMIT_WRITE, path=("db",))
    rig.commit("alpha", ("db",))
    denied = rig.commit("alpha", ("db", "mine"), ("other",), token=writer)
    assert denied.status_code == 403 and "mine" not in denied.text
    allowed = rig.commit("alpha", ("db", "mine"), token=writer, author="root")
    assert allowed.status_code == 200 and allowed.json()["change"]["author"] == "writer"
    assert len(rig.get(CHANGES, rig.token("alpha")).json()["changes"]) == 3


def test_a_subscription_is_its_makers_and_is_not_there_for_others(rig: Rig) -> None:
    maker = rig.principal("alpha", "maker", Right.CATALOG_WRITE)
    other = rig.principal("alpha", "other", Right.CATALOG_WRITE)
    path, body = "/feed/v1/alpha/subscriptions/mine", {"pointers": [MAIN], "after": "earliest"}
    assert rig.ask("PUT", path, token=maker, json=body).status_code == 201
    assert rig.ask("PUT", path, token=maker, json=body).status_code == 200
    assert rig.ask("PUT", path, token=other, json=body).status_code == 409
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/changes")):
        assert rig.ask(method, path + end, token=other).status_code == 404
    assert rig.get(f"{path}/changes", maker).status_code == 200
    assert rig.get(path, rig.token("alpha")).status_code == 200, "who manages subscriptions sees all"
    rig.revoke("alpha", "maker", Right.CATALOG_WRITE)
    for end in ("", "/changes"):
        assert rig.get(path + end, maker).status_code == 404


def test_events_of_the_iceberg_api_are_redacted_like_the_feed(rig: Rig) -> None:
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("db",))
    rig.commit("alpha", ("db",))
    rig.commit("alpha", ("other",))
    told = rig.ask("POST", "/iceberg/v1/lake/events", token=reader, json={})
    assert told.status_code == 200 and "db" in told.text and "other" not in told.text
    assert "other" in rig.ask("POST", "/iceberg/v1/lake/events", token=rig.token("alpha"), json={}).text


def test_every_refusal_for_want_of_a_token_names_the_scheme(rig: Rig) -> None:
    for path in (CHANGES, "/iceberg/v1/config", "/api/v2/config", "/manage/v1/alpha/catalogs"):
        assert rig.get(path).headers["www-authenticate"] == BEARER[1].decode()
