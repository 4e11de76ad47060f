"""Every route of the table, asked by those who must not be served: nothing told, nothing changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headwater.service.routes import route_table
from tests.support.fixtures.access_rig import Rig, access_rig, expired_token
from tests.support.fixtures.access_routes import HIDDEN, Asked, all_routes, ask, seed

SERVED_TO_ALL = {"/", "/livez", "/readyz", "/docs", "/openapi.json"}
ASKS_IN_ITS_OWN_WAY = {"/metrics", "/manage/v1/{realm}/oauth/tokens", "/iceberg/v1/oauth/tokens"}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("isolation")) as made:
        seed(made)
        yield made


@pytest.fixture(scope="module")
def routes(rig: Rig) -> list[Asked]:
    newest = rig.get("/feed/v1/alpha/changes?pointer=cat/1/heads/main", rig.token("alpha")).json()["head"]["entry_id"]
    return all_routes({"id": newest})


def _state(rig: Rig) -> dict[str, Any]:
    """How far everything has come that a request could have moved."""
    state: dict[str, Any] = {}
    for name in ("alpha", "beta"):
        kernel = rig.kernel(name)
        backend, realm = kernel.store.backend, kernel.realm
        names = backend.list_names(realm)
        state[name] = {pointer: row.version for pointer, row in backend.read_pointers(realm, names).items()}
        state[f"{name} subscriptions"] = [(row.key, row.version) for row in backend.list_mutable(realm, "subscription")]
        state[f"{name} secrets"] = [row.key for row in backend.list_mutable(realm, "principal-secret")]
    state["realms"] = kernel.store.backend.read_pointers("::system::", ["realms"])["realms"].version
    return state


def _told_nothing(answer: httpx.Response, asked: Asked) -> None:
    """Nothing that begins with the mark of what is hidden, but for what the request itself said."""
    said = json.dumps(asked.body) + asked.url
    told = answer.text + json.dumps(dict(answer.headers))
    for word in told.replace('"', " ").replace("'", " ").replace(":", " ").replace(".", " ").replace("/", " ").split():
        if word.startswith(HIDDEN):
            assert word in said, f"{asked} tells {word!r}: {answer.text}"
    assert "Traceback" not in told and "scrypt" not in told and "file://" not in told.replace("file:///m.json", "")


# ── the tables ──────────────────────────────────────────────────────────────────────────────────────────────


def test_only_these_routes_are_served_without_a_token() -> None:
    public = {route.path for _, route in route_table().routes if route.needs is not None and route.needs.is_public}
    assert public == SERVED_TO_ALL | ASKS_IN_ITS_OWN_WAY


# ── who is not served ───────────────────────────────────────────────────────────────────────────────────────


def _forged(rig: Rig) -> dict[str, str]:
    """Tokens that look like root's of alpha, each wrong in one way."""
    good = rig.token("alpha")
    claims = jwt.decode(good, options={"verify_signature": False})
    key_id = jwt.get_unverified_header(good)["kid"]
    keys = rig.service.access.tokens._keys  # type: ignore[union-attr]
    public = keys.public(claims["instance"], key_id)
    assert public is not None
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    head, payload, signature = good.split(".")
    other = _encoded({**claims, "sub": "nobody"})
    stranger = jwt.get_unverified_header(rig.token("beta"))["kid"]
    return {
        "alg none": jwt.encode(claims, None, algorithm="none", headers={"kid": key_id}),
        "no signature": f"{head}.{payload}.",
        "another key": jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA", headers={"kid": key_id}),
        "public key as shared secret": _hs256(claims, key_id, pem),
        "raw public key as shared secret": _hs256(claims, key_id, raw),
        "changed payload": f"{head}.{other}.{signature}",
        "key of another realm": jwt.encode(
            claims, _private(rig, "beta", stranger), algorithm="EdDSA", headers={"kid": stranger}
        ),
        "unknown key id": jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA", headers={"kid": "../../x"}),
        "another issuer": _signed(rig, {**claims, "iss": "https://elsewhere.example"}, key_id),
        "no end": _signed(rig, {name: value for name, value in claims.items() if name != "exp"}, key_id),
        "no JWT": "hello",
        "empty parts": "..",
    }


def _private(rig: Rig, realm: str, key_id: str) -> Ed25519PrivateKey:
    keys = rig.service.access.tokens._keys  # type: ignore[union-attr]
    key = keys.current(rig.kernel(realm).realm)
    assert key.id == key_id
    return Ed25519PrivateKey.from_private_bytes(key.private)


def _signed(rig: Rig, claims: dict[str, Any], key_id: str) -> str:
    return jwt.encode(claims, _private(rig, "alpha", key_id), algorithm="EdDSA", headers={"kid": key_id})


def _hs256(claims: dict[str, Any], key_id: str, secret: bytes) -> str:
    """By hand: a library would not do it."""
    import hashlib
    import hmac

    signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': key_id})}.{_encoded(claims)}"
    digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_without_a_token_nothing_is_served_or_disclosed(rig: Rig, routes: list[Asked]) -> None:
    before = _state(rig)
    for asked in routes:
        answer = ask(rig, asked, None)
        assert answer.status_code == 401 and "www-authenticate" in answer.headers, f"{asked}: {answer.text}"
        _told_nothing(answer, asked)
    assert _state(rig) == before


def test_an_expired_or_forged_token_gets_and_learns_nothing(rig: Rig, routes: list[Asked]) -> None:
    before = _state(rig)
    tokens = {"expired": expired_token(rig), **_forged(rig)}
    first = routes[0]
    for name, token in tokens.items():
        assert ask(rig, first, token).status_code == 401, name
    for asked in routes:
        for name in ("expired", "alg none", "another key", "public key as shared secret", "key of another realm"):
            answer = ask(rig, asked, tokens[name])
            assert answer.status_code == 401, f"{asked} with {name}: {answer.text}"
            _told_nothing(answer, asked)
    assert _state(rig) == before


def test_a_token_of_another_realm_is_served_nothing_whether_the_realm_exists_or_not(rig: Rig, routes: list[Asked]) -> None:
    before = _state(rig)
    stranger = rig.token("beta", "stranger")
    for asked in routes:
        headers = {} if asked.realm_in_path else {"x-headwater-realm": "alpha"}
        answer = ask(rig, asked, stranger, headers)
        assert answer.status_code == 403, f"{asked}: {answer.status_code} {answer.text}"
        _told_nothing(answer, asked)
        elsewhere = asked._replace(path=asked.path.replace("/alpha", "/nowhere", 1))
        same = ask(rig, elsewhere, stranger, {} if asked.realm_in_path else {"x-headwater-realm": "nowhere"})
        assert same.status_code == 403 and _without_ids(same) == _without_ids(answer), asked
    assert _state(rig) == before


def test_an_api_without_a_realm_in_its_path_serves_only_the_realm_of_the_token(rig: Rig, routes: list[Asked]) -> None:
    """Beta's administrator asks for all that alpha has, by the same names: in beta none of it is there."""
    before = _state(rig)["alpha"]
    stranger = rig.token("beta", "stranger")
    for asked in routes:
        if asked.realm_in_path or asked.method == "POST":
            continue
        _told_nothing(ask(rig, asked, stranger), asked)
    assert _state(rig)["alpha"] == before


def test_a_role_without_the_right_is_refused_everywhere_and_learns_nothing(rig: Rig, routes: list[Asked]) -> None:
    before = _state(rig)
    nobody = rig.token("alpha", "nobody")
    for asked in routes:
        answer = ask(rig, asked, nobody)
        _told_nothing(answer, asked)
        if asked.shows_what_may_be_seen:
            assert answer.status_code in (200, 403), f"{asked}: {answer.text}"
        else:
            assert answer.status_code in (403, 404), f"{asked}: {answer.status_code} {answer.text}"
    assert _state(rig) == before


def test_a_refusal_is_the_same_for_what_exists_and_what_does_not(rig: Rig, routes: list[Asked]) -> None:
    """Every name that is there, exchanged for one of the same length that is not."""
    nobody = rig.token("alpha", "nobody")
    for asked in routes:
        absent = asked._replace(
            path=_renamed(asked.path),
            query=_renamed(asked.query),
            body=json.loads(_renamed(json.dumps(asked.body))),
        )
        there, not_there = ask(rig, asked, nobody), ask(rig, absent, nobody)
        assert there.status_code == not_there.status_code, asked
        assert _renamed(_without_ids(there)) == _renamed(_without_ids(not_there)), asked


def _renamed(text: str) -> str:
    return text.replace("hidden_", "absent_").replace("lake", "lack").replace("cat/1/", "cat/9/")


def _without_ids(answer: httpx.Response) -> str:
    """The body, without the id that every answer has of its own."""
    try:
        found = answer.json()
    except ValueError:
        return answer.text
    if isinstance(found, dict):
        found.pop("request_id", None)
    return json.dumps(found)


def test_a_caller_with_every_right_is_served(rig: Rig, routes: list[Asked]) -> None:
    """Else the tests above would pass with a server that refuses everyone."""
    refused = []
    for asked in routes:
        if asked.method not in ("GET", "HEAD") or asked.path.endswith("/stream") or "/realms" in asked.path:
            continue
        answer = ask(rig, asked, rig.token("alpha"))
        if answer.status_code in (401, 403):
            refused.append(f"{asked}: {answer.text}")
    assert not refused


def test_a_caller_that_manages_access_can_list_denials(rig: Rig, tmp_path: Path) -> None:
    rig.ask("GET", "/iceberg/v1/lake/namespaces/hidden_db", token=rig.token("alpha", "nobody"))
    while rig.service.access.denials.flush():
        pass
    answer = rig.get("/manage/v1/alpha/denials", rig.token("alpha"))
    assert answer.status_code == 200 and "nobody" in answer.text and "namespace.read" in answer.text
