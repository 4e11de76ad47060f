"""What an attacker with a right too few tries at the APIs: keys of others, commits that are not theirs, endless bodies."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import msgspec
import pytest

from headwater.producer.access.principals import Principals
from headwater.producer.access.roles import principal_roles
from headwater.schemas.errors import InvalidInput, TooManyRequests
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.budgets import Budgets
from headwater.service.gate.route import STREAM
from tests.support.fixtures.access_rig import CHEAP, META, PEER, Rig, access_rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("attacked")) as made:
        assert made.commit("alpha", ("sales",), ("secret",), message="hidden words").status_code == 200
        yield made


def _commit(rig: Rig, token: str, key: str, **body: Any) -> httpx.Response:
    operations = [{"op": "put", "key": ["sales", "inner"], "type": "NAMESPACE", "content": {}}]
    return rig.ask(
        "POST",
        "/feed/v1/alpha/commit",
        token=token,
        headers={"idempotency-key": key},
        json={"catalog": "lake", "operations": operations, **body},
    )


# ── keys of others ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_with_a_colon_does_not_reach_the_keys_of_another_name(rig: Rig) -> None:
    """`ann` with the key `x:1` and `ann:x` with the key `1` are two."""
    ann = rig.principal("alpha", "ann", Right.CATALOG_WRITE)
    other = rig.principal("alpha", "ann:x", Right.CATALOG_WRITE)
    first = _commit(rig, ann, "x:1", message="of ann alone")
    assert first.status_code == 200
    second = _commit(rig, other, "1", message="of ann alone")
    assert second.status_code == 200 and second.json()["replayed"] is False, second.text
    assert second.json()["change"]["author"] == "ann:x"
    assert _commit(rig, ann, "x:1", message="of ann alone").json()["replayed"] is True


def test_a_recreated_principal_does_not_get_the_answers_of_its_predecessor(rig: Rig) -> None:
    before = rig.principal("alpha", "temp", Right.CATALOG_WRITE)
    assert _commit(rig, before, "k", message="of the one before").status_code == 200
    principals = Principals(rig.kernel("alpha"), cost=CHEAP)
    principals.delete("temp", meta=META)
    made = principals.create("temp", meta=META)
    assert made.credentials is not None
    principal_roles(rig.kernel("alpha")).assign("temp", "temp-role", meta=META)
    after = rig.token_answer("alpha", made.credentials).json()["access_token"]
    answer = _commit(rig, after, "k", message="of the one before")
    assert answer.status_code == 200 and answer.json()["replayed"] is False, answer.text


def test_a_stored_answer_needs_the_right_at_that_moment(rig: Rig) -> None:
    token = rig.principal("alpha", "loser", Right.CATALOG_WRITE)
    content = {"type": "NAMESPACE", "elements": ["sales", "lost"]}
    operations = [{"type": "PUT", "key": {"elements": ["sales", "lost"]}, "content": content}]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/v2/trees/main/history/commit", {"commitMeta": {"message": "m"}, "operations": operations}),
        ("/iceberg/v1/lake/namespaces", {"namespace": ["lost"]}),
    ]

    def statuses() -> list[int]:
        headers = ({"idempotency-key": f"lost{number}"} for number in range(len(asked)))
        sent = zip(asked, headers, strict=True)
        return [rig.ask("POST", path, token=token, headers=key, json=body).status_code for (path, body), key in sent]

    assert statuses() == statuses() == [200, 200]
    rig.revoke("alpha", "loser", Right.CATALOG_WRITE)
    assert statuses() == [403, 403]


def test_requests_that_wait_for_a_key_do_not_block_the_one_that_holds_it(rig: Rig) -> None:
    """More of them than there are threads."""
    root = rig.token("alpha")

    async def send(client: httpx.AsyncClient) -> httpx.Response:
        headers = {"authorization": f"Bearer {root}", "idempotency-key": "many"}
        return await client.post("/manage/v1/alpha/principal-roles", headers=headers, json={"name": "many"})

    async def send_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=rig.gate, client=PEER, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test", timeout=60) as client:
            return await asyncio.gather(*(send(client) for _ in range(50)))

    answers: list[httpx.Response] = rig.run(send_all())
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["meta"]["entry_id"] for answer in answers}) == 1


# ── who asks, and what for ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["authorization", "x-headwater-realm"])
def test_a_header_that_identifies_the_caller_may_occur_once(rig: Rig, name: str) -> None:
    """A proxy in front may have judged the other one."""
    root = rig.token("alpha")
    values = (f"Bearer {root}", "Bearer of.another.one") if name == "authorization" else ("alpha", "beta")
    for path in ("/feed/v1/alpha/pointers", "/iceberg/v1/config?warehouse=lake", "/api/v2/config", "/manage/v1/alpha/catalogs"):
        asked = {"authorization": f"Bearer {root}", "x-headwater-realm": "alpha"}
        assert rig.get(path, headers=asked).status_code == 200, path
        twice = [*((key, value) for key, value in asked.items() if key != name), *((name, value) for value in values)]
        assert _ask_with(rig, path, twice).status_code in (400, 401), path


def _ask_with(rig: Rig, path: str, headers: list[tuple[str, str]]) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=rig.gate, client=PEER, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test") as client:
            return await client.get(path, headers=headers)

    answer: httpx.Response = rig.run(send())
    return answer


@pytest.mark.parametrize("text", ["x\0y", "\ud800", "\U0010ffff", "a" * 5_000])
def test_an_id_that_no_store_can_hold_is_refused_like_an_unknown_client(tmp_path: Path, text: str) -> None:
    """A database's own words for it would tell which one it is, to somebody who has proven nothing."""
    with access_rig(tmp_path) as rig, _stores_that_refuse_to_look(rig):
        parts = [{"alg": "EdDSA", "kid": "k"}, {"iss": "headwater", "instance": text}]
        encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
        answer = rig.get("/feed/v1/alpha/pointers", f"{'.'.join(encoded)}.AAAA")
        assert answer.status_code == 401, answer.text
        form = {"grant_type": "client_credentials", "client_id": text, "client_secret": "00000000_x"}
        if "\ud800" not in text:  # which no form can hold
            for secret in ("00000000_x", text):
                answer = rig.ask("POST", "/manage/v1/alpha/oauth/tokens", data={**form, "client_secret": secret})
                assert answer.status_code == 401 and answer.json()["error"] == "invalid_client", answer.text


@contextmanager
def _stores_that_refuse_to_look(rig: Rig) -> Iterator[None]:
    """Every database refuses something else; this one refuses what any of them does."""
    read = rig.store.backend.read_mutable

    def refuse(realm: str, type: str, key: str) -> Any:
        if not (realm + key).isascii() or not (realm + key).isprintable():
            raise InvalidInput("Some Database cannot keep one of the values.")
        return read(realm, type, key)

    with mock.patch.object(type(rig.store.backend), "read_mutable", lambda _, *row: refuse(*row)):
        yield


def test_no_realm_grants_a_right_over_the_system(rig: Rig) -> None:
    path = "/manage/v1/alpha/principal-roles/realm-admin/grants/system.manage"
    refused = rig.ask("PUT", path, token=rig.token("alpha"))
    assert refused.status_code == 400 and refused.json()["field"] == "right", refused.text
    assert "system.manage" not in rig.get("/manage/v1/alpha/principal-roles/realm-admin/grants", rig.token("alpha")).text


# ── what references tell ────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_of_references_does_not_see_commits(rig: Rig) -> None:
    token = rig.principal("alpha", "lister", Right.REFERENCE_READ)
    for path in ("trees", "trees/main"):
        assert rig.get(f"/api/v2/{path}", token).status_code == 200
        for query in ("fetch=ALL", "fetch=ALL&filter=commit.message.contains('hidden')"):
            refused = rig.get(f"/api/v2/{path}?{query}", token)
            assert refused.status_code == 403 and "hidden" not in refused.text
    reader = rig.principal("alpha", "historian", Right.CATALOG_READ)
    assert "commitMetaOfHEAD" in rig.get("/api/v2/trees/main?fetch=ALL", reader).text


def test_a_commit_of_another_catalog_is_not_found_through_any_api(rig: Rig) -> None:
    root = rig.token("alpha")
    made = rig.ask("POST", "/manage/v1/alpha/catalogs", token=root, json={"name": "vault"})
    assert made.status_code == 201
    there = rig.commit("alpha", ("vaulted",), catalog="vault").json()["commit_id"]
    owner = rig.principal("alpha", "lake-owner", Right.CATALOG_MANAGE)
    reads = [
        *(f"/api/v2/trees/{ref}/{what}" for ref in (f"@{there}", f"main@{there}") for what in ("entries", "history")),
        f"/api/v2/trees/@{there}/contents/vaulted",
        f"/api/v2/trees/main/diff/@{there}",
        f"/api/v2/trees/main/history?page-token={there}",
        f"/iceberg/v1/lake@{there}/namespaces",
        f"/iceberg/v1/lake@main@{there}/namespaces",
        f"/feed/v1/alpha/commits/{there}",
    ]
    for path in reads:
        assert rig.get(path, owner).status_code == 404, path
    writes: list[tuple[str, dict[str, Any]]] = [
        ("/api/v2/trees?name=taken&type=BRANCH", {"type": "BRANCH", "name": "main", "hash": there}),
        ("/api/v2/trees/main/history/merge", {"fromRefName": "main", "fromHash": there}),
        ("/api/v2/trees/main/history/transplant", {"fromRefName": "main", "hashesToTransplant": [there]}),
        ("/manage/v1/alpha/catalogs/lake/references", {"type": "branch", "name": "taken", "source": there}),
    ]
    for path, body in writes:
        answer = rig.ask("POST", path, token=owner, json=body)
        assert answer.status_code == 404 and "vaulted" not in answer.text, path


# ── metrics, streams, bodies ─────────────────────────────────────────────────────────────────────────────────────────


def test_metrics_are_not_served_through_a_local_proxy_without_their_token(rig: Rig) -> None:
    assert rig.get("/metrics").status_code == 200
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        assert rig.get("/metrics", headers={name: "for=192.0.2.1"}).status_code == 401, name


def test_one_principal_does_not_take_the_streams_of_all() -> None:
    ann, ben = (Caller(name="ann", realm="alpha", instance="alpha#1", principal_id=id) for id in ("1", "2"))
    budgets, budget = Budgets(1_000), msgspec.structs.replace(STREAM, requests_of_caller_max=2)
    first, second = budgets.enter(budget, ann), budgets.enter(budget, ann)
    budgets.enter(budget, ben)  # another one, though of the same name
    with pytest.raises(TooManyRequests) as refused:
        budgets.enter(budget, ann)
    assert refused.value.facts["retry_after_seconds"] == 10
    budgets.leave(first)
    assert budgets.enter(budget, ann) == second, "one has ended"


@pytest.mark.parametrize("path", ["/manage/v1/alpha/oauth/tokens", "/iceberg/v1/oauth/tokens"])
def test_a_body_that_never_ends_is_abandoned(rig: Rig, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stranger: nobody has asked for a token yet."""
    real_timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: real_timeout(min(seconds, 0.05)))
    sent: list[dict[str, Any]] = []
    waited = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not waited.is_set():
            waited.set()
            return {"type": "http.request", "body": b"grant_type=", "more_body": True}
        await asyncio.sleep(3_600)
        raise AssertionError("nobody waits that long")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [], "client": ("192.0.2.7", 1)}
    rig.run(rig.gate(scope, receive, send))
    assert waited.is_set() and sent[0]["status"] == 408, sent


def test_methods_that_callers_invent_are_counted_as_one(rig: Rig) -> None:
    """Without a token: each would stay in memory, and in what `/metrics` shows."""
    for number in range(20):
        assert rig.ask(f"INVENTED{number}", "/feed/v1/alpha/pointers").status_code == 405
    shown = rig.get("/metrics").text
    assert "INVENTED" not in shown
    assert 'headwater_http_requests_total{method="other",route="feed/unknown",status="405"} 20.0' in shown
