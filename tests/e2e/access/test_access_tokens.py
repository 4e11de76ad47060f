"""Secrets become tokens, tokens prove who calls, and both end when they should."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import KEYS_TYPE, SECRET_TYPE
from headwater.persistence.rows import Table
from headwater.persistence.store import open_store
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Credentials, Principals
from headwater.producer.access.roles import principal_roles
from headwater.schemas.errors import NotAuthenticated
from headwater.service.auth.rights.rights import Right
from headwater.service.auth.tokens import credentials as credentials_module
from tests.support.fixtures.access_rig import CHEAP, META, PEER, Rig, access_rig

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
POINTERS = "/feed/v1/alpha/pointers"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with access_rig(tmp_path) as made:
        yield made


def _keys(rig: Rig) -> Any:
    tokens = rig.service.access.tokens
    assert tokens is not None
    return tokens._keys


def test_iceberg_clients_get_a_token_at_their_own_address_of_the_realm_that_a_header_names(rig: Rig) -> None:
    for realm, headers in (("alpha", {}), ("beta", {"x-headwater-realm": "beta"})):
        root = rig.roots[realm]
        form = {"grant_type": "client_credentials", "client_id": root.client_id, "client_secret": root.client_secret}
        answer = rig.ask("POST", "/iceberg/v1/oauth/tokens", data=form, headers=headers)
        assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert body["token_type"] == "bearer" and body["expires_in"] == 3_600
        assert rig.get("/iceberg/v1/config?warehouse=lake", body["access_token"]).status_code == 200
        assert rig.get(f"/feed/v1/{realm}/pointers", body["access_token"]).status_code == 200


def test_a_client_may_send_its_secret_in_the_basic_header_but_not_twice(rig: Rig) -> None:
    root = rig.roots["alpha"]
    basic = base64.b64encode(f"{root.client_id}:{root.client_secret}".encode()).decode()
    path, headers = "/manage/v1/alpha/oauth/tokens", {"authorization": f"Basic {basic}"}
    form = {"grant_type": "client_credentials"}
    assert rig.ask("POST", path, data=form, headers=headers).status_code == 200
    twice = rig.ask("POST", path, data={**form, "client_secret": root.client_secret}, headers=headers)
    assert twice.status_code == 400 and twice.json()["error"] == "invalid_request"


def test_a_wrong_secret_an_unknown_client_and_an_unknown_realm_are_refused_alike(rig: Rig) -> None:
    root = rig.roots["alpha"]
    wrong = [
        ("alpha", Credentials(client_id=root.client_id, client_secret=root.client_secret[:-1])),
        ("alpha", Credentials(client_id=root.client_id, client_secret="hello")),
        ("alpha", Credentials(client_id="0" * 16, client_secret=root.client_secret)),
        ("beta", root),
        ("nowhere", root),
        ("::system::", root),
    ]
    answers = [rig.token_answer(realm, credentials) for realm, credentials in wrong]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert answers[0].json()["error"] == "invalid_client" and "www-authenticate" in answers[0].headers


def test_each_attempt_compares_one_hash(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes them take equally long; the comparison itself is `hmac.compare_digest`."""
    compared: list[str] = []
    real = credentials_module.is_secret

    def counted(secret: str, hashed: str) -> bool:
        compared.append(hashed)
        return real(secret, hashed)

    monkeypatch.setattr(credentials_module, "is_secret", counted)
    root = rig.roots["alpha"]
    for realm, client_id, secret in (
        ("alpha", root.client_id, root.client_secret),
        ("alpha", root.client_id, "x"),
        ("alpha", "nobody", root.client_secret),
        ("nowhere", root.client_id, root.client_secret),
    ):
        rig.token_answer(realm, Credentials(client_id=client_id, client_secret=secret))
    assert len(compared) == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"grant_type=password",
        b"grant_type=client_credentials",
        b"grant_type=client_credentials&client_id=a",
        b"grant_type=client_credentials&grant_type=x",
        b"a=b&" * 100,
        f"grant_type={EXCHANGE}".encode(),
    ],
)
def test_an_invalid_form_is_a_400_of_oauth(rig: Rig, body: bytes) -> None:
    answer = rig.ask("POST", "/manage/v1/alpha/oauth/tokens", content=body)
    assert answer.status_code == 400 and answer.json()["error"] in ("invalid_request", "unsupported_grant_type")


def test_guessing_is_slowed_down_only_for_that_client_and_address(rig: Rig) -> None:
    root = rig.roots["alpha"]
    guess = Credentials(client_id=root.client_id, client_secret="00000000_guess")
    statuses = [rig.token_answer("alpha", guess, peer=("10.0.0.1", 1)).status_code for _ in range(15)]
    assert statuses[:10] == [401] * 10 and set(statuses[10:]) == {429}
    refused = rig.token_answer("alpha", guess, peer=("10.0.0.1", 1))
    assert int(refused.headers["retry-after"]) >= 1
    assert rig.token_answer("alpha", root, peer=("10.0.0.1", 1)).status_code == 429, "the right one too, from there"
    assert rig.token_answer("alpha", root, peer=("10.0.0.2", 1)).status_code == 200


# ── exchanging and ending ───────────────────────────────────────────────────────────────────────────────────


def _exchanged(rig: Rig, token: str, realm: str = "alpha") -> Any:
    form = {
        "grant_type": EXCHANGE,
        "subject_token": token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    return rig.ask("POST", f"/manage/v1/{realm}/oauth/tokens", data=form)


def test_a_token_is_exchanged_for_a_newer_one_of_the_same_realm_within_a_day_of_the_secret(rig: Rig) -> None:
    token = rig.token("alpha")
    answer = _exchanged(rig, token)
    assert answer.status_code == 200
    before, after = (jwt.decode(one, options={"verify_signature": False}) for one in (token, answer.json()["access_token"]))
    assert after["auth_time"] == before["auth_time"] and after["sub"] == "root"
    assert _exchanged(rig, token, "beta").status_code == 401
    assert _exchanged(rig, token + "x").status_code == 401


def test_a_token_ends_with_its_secret_and_its_principal(rig: Rig) -> None:
    tokens = {name: rig.principal("alpha", name, Right.CATALOG_READ) for name in ("rotated", "overlapping", "deleted")}
    for token in tokens.values():
        assert rig.get(POINTERS, token).status_code == 200
    principals = Principals(rig.kernel("alpha"), cost=CHEAP)
    principals.rotate_secret("rotated", meta=META)
    principals.rotate_secret("overlapping", overlap_seconds=600, meta=META)
    principals.delete("deleted", meta=META)
    principals.create("deleted", meta=META)
    assert {name: rig.get(POINTERS, token).status_code for name, token in tokens.items()} == {
        "rotated": 401,
        "overlapping": 200,
        "deleted": 401,
    }
    assert _exchanged(rig, tokens["deleted"]).status_code == 401


def test_both_secrets_of_an_overlap_give_tokens_and_after_it_only_the_new_one(rig: Rig) -> None:
    principals = Principals(rig.kernel("alpha"), cost=CHEAP)
    first = principals.create("alice", meta=META).credentials
    second = principals.rotate_secret("alice", overlap_seconds=600, meta=META).credentials
    assert first is not None and second is not None
    assert [rig.token_answer("alpha", one).status_code for one in (first, second)] == [200, 200]
    third = principals.rotate_secret("alice", meta=META).credentials
    assert third is not None
    assert [rig.token_answer("alpha", one).status_code for one in (first, second, third)] == [401, 401, 200]


def test_tokens_outlive_a_restart_and_a_rotation_of_keys_but_not_their_voiding(rig: Rig, tmp_path: Path) -> None:
    token, instance = rig.token("alpha"), rig.kernel("alpha").realm
    _keys(rig).rotate(instance)
    newer = rig.token_answer("alpha", rig.roots["alpha"]).json()["access_token"]
    assert jwt.get_unverified_header(newer)["kid"] != jwt.get_unverified_header(token)["kid"]
    assert [rig.get(POINTERS, one).status_code for one in (token, newer)] == [200, 200]
    with open_store(rig.config.store) as store:
        (row,) = store.backend.list_mutable(instance, KEYS_TYPE)
        assert row.version == 2, "one key made, one rotated in: workers and restarts read this row"
    access, headers = rig.service.access, [(b"authorization", f"Bearer {newer}".encode())]
    streaming = rig.run(access.caller({"type": "http", "headers": headers, "client": PEER}, "alpha"))
    rig.run(access.recheck(streaming))
    _keys(rig).rotate(instance, void_old=True)
    assert [rig.get(POINTERS, one).status_code for one in (token, newer)] == [401, 401]
    assert not access.is_known_to_count(streaming), "an open stream would continue from memory"
    with pytest.raises(NotAuthenticated):
        rig.run(access.recheck(streaming))


def test_a_realm_recreated_under_its_name_knows_no_token_of_its_past(rig: Rig) -> None:
    token, root = rig.token("beta"), rig.roots["beta"]
    realms = Realms(rig.store, secret_cost=CHEAP)
    realms.deactivate("beta")
    realms.purge("beta")
    realms.finish_purge("beta")
    realms.delete("beta")
    realms.create("beta")
    realms.init("beta")
    rig.service.feeds.look_again()
    assert rig.get("/feed/v1/beta/pointers", token).status_code == 401
    assert rig.token_answer("beta", root).status_code == 401


def test_a_principal_of_the_system_manages_realms_and_serves_as_nothing_else(rig: Rig) -> None:
    system = rig.store.system
    made = Principals(system, cost=CHEAP).create("operator", meta=META).credentials
    assert made is not None
    answer = rig.token_answer("::system::", made)
    assert answer.status_code == 200, answer.text
    token = answer.json()["access_token"]
    assert rig.get("/manage/v1/realms", token).status_code == 403, "not before it has the right"
    principal_roles(system).create("operators", meta=META)
    principal_roles(system).assign("operator", "operators", meta=META)
    realm_grants(system).grant("operators", Right.SYSTEM_MANAGE, meta=META)
    deadline = time.monotonic() + 10
    while rig.get("/manage/v1/realms", token).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert {one["name"] for one in rig.get("/manage/v1/realms", token).json()["realms"]} == {"alpha", "beta"}
    assert rig.get(POINTERS, token).status_code == 403 and rig.get("/manage/v1/alpha/catalogs", token).status_code == 403
    assert rig.get("/manage/v1/realms", rig.token("alpha")).status_code == 403


# ── other issuers ───────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _issuer(key: rsa.RSAPrivateKey) -> Iterator[str]:
    """A real HTTP server that publishes the key."""
    document = json.dumps({"keys": [{**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "k1", "use": "sig"}]})

    class Published(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(document.encode())

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Published) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_token_of_another_issuer_has_the_roles_that_the_table_maps_and_never_becomes_root(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with _issuer(key) as url:
        table = tmp_path / "issuers.toml"
        table.write_text(
            f'[[issuers]]\nissuer = "{url}"\njwks_url = "{url}/keys"\naudience = "lake"\nrealm = "alpha"\n'
            'roles_claim = "groups"\n[issuers.roles]\nanalysts = "reader-role"\n'
        )

        def token(**claims: Any) -> str:
            payload = {"iss": url, "aud": "lake", "sub": "root", "exp": int(time.time()) + 600, **claims}
            return jwt.encode(payload, key, algorithm="RS256", headers={"kid": "k1"})

        with access_rig(tmp_path, oidc_config=str(table)) as rig:
            rig.principal("alpha", "reader", Right.CATALOG_READ)
            analyst, nobody = token(groups=["analysts", "others"]), token()
            changes = "/feed/v1/alpha/changes?pointer=cat/1/heads/main"
            assert rig.get(changes, analyst).status_code == 200
            assert rig.get(changes, nobody).status_code == 404
            assert rig.get("/manage/v1/alpha/principals", analyst).status_code == 403
            assert rig.get("/feed/v1/beta/pointers", analyst).status_code == 403
            assert rig.get(changes, token(aud="another", groups=["analysts"])).status_code == 401
            denied = rig.get("/iceberg/v1/lake/namespaces/db", nobody)
            assert denied.status_code == 403 and "oidc:root" in denied.text
            rig.revoke("alpha", "reader", Right.CATALOG_READ)
            assert rig.get(changes, analyst).status_code == 404


# ── limits and metrics ──────────────────────────────────────────────────────────────────────────────────────


def test_a_principal_over_its_rate_gets_retry_after_and_others_are_served(tmp_path: Path) -> None:
    with access_rig(tmp_path, rate_limit_per_second=0.5, rate_limit_burst=5) as rig:
        noisy, quiet = rig.principal("alpha", "noisy"), rig.principal("alpha", "quiet")
        answers = [rig.get(POINTERS, noisy) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2 and answers[-1].json()["code"] == "TOO_MANY_REQUESTS"
        assert rig.get(POINTERS, quiet).status_code == 200
        assert rig.get("/iceberg/v1/config", noisy).headers["retry-after"]
        assert rig.get("/livez").status_code == 200


def test_metrics_are_served_to_this_machine_or_with_their_token(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with access_rig(tmp_path / "a") as rig:
        assert rig.get("/metrics").status_code == 200
        assert rig.get("/metrics", rig.token("alpha"), peer=("10.0.0.1", 1)).status_code == 401
    with access_rig(tmp_path / "b", metrics_token="scrape-me") as rig:
        assert rig.get("/metrics").status_code == 401
        assert rig.get("/metrics", "scrape-me", peer=("10.0.0.1", 1)).status_code == 200


def test_no_secret_and_no_hash_leaves_by_feed_snapshot_metrics_or_log(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Everything that an administrator can read of the realm, and all that was logged on the way."""
    principals = Principals(rig.kernel("alpha"), cost=CHEAP)
    shown = [rig.roots["alpha"].client_secret]
    for made in (
        principals.create("alice", meta=META),
        principals.rotate_secret("alice", overlap_seconds=60, meta=META),
    ):
        assert made.credentials is not None
        shown.append(made.credentials.client_secret)
    root = rig.token("alpha")
    rig.token_answer("alpha", Credentials(client_id="x", client_secret="00000000_not-this-one"))
    rig.get(POINTERS, root + "x")
    kernel = rig.kernel("alpha")
    rows = [row for kind in (SECRET_TYPE, KEYS_TYPE) for row in kernel.store.backend.list_mutable(kernel.realm, kind)]
    assert len(rows) == 4, "two secrets of alice, one of root, one ring of keys"
    told = [caplog.text, rig.get("/metrics").text]
    for pointer in rig.get(POINTERS, root).json()["pointers"]:
        told.append(rig.get(f"/feed/v1/alpha/changes?pointer={pointer['name']}&limit=1000", root).text)
        told.append(rig.get(f"/feed/v1/alpha/snapshot?pointer={pointer['name']}", root).text)
    told.append(rig.get("/manage/v1/alpha/principals/alice", root).text)
    everything = "\n".join(told)
    assert "alice" in everything, "the scan must have seen the records"
    secrets = [*shown, *(secret.partition("_")[2] for secret in shown), "scrypt", "not-this-one", root]
    secrets += [base64.b64encode(row.payload).decode()[8:40] for row in rows]
    assert not [secret for secret in secrets if secret in everything]


def test_no_row_but_its_own_holds_a_secret_that_management_has_shown(rig: Rig) -> None:
    """Answers are kept for those who ask again under their key: with everything but the secret."""
    root, shown = rig.token("alpha"), []
    people = "/manage/v1/alpha/principals"
    for number, (path, body) in enumerate(
        [(people, {"name": "alice"}), (f"{people}/alice/rotate", {"overlap_seconds": 60}), (f"{people}/alice/reset", None)]
    ):
        options: dict[str, Any] = {} if body is None else {"json": body}
        key = {"idempotency-key": f"key-{number}"}
        answer = rig.ask("POST", path, token=root, headers=key, **options)
        assert answer.status_code in (200, 201), answer.text
        shown.append(answer.json()["credentials"]["client_secret"])
        again = rig.ask("POST", path, token=root, headers=key, **options)
        assert again.status_code == answer.status_code and shown[-1] not in again.text
    kernel = rig.kernel("alpha")
    backend, realm = kernel.store.backend, kernel.realm
    types = {row.type for split in backend.splits(Table.MUTABLE, 1) for row in backend.scan(split, realm=realm)}
    assert types > {SECRET_TYPE, KEYS_TYPE}, "the answers must have been kept somewhere"
    payloads = b"".join(row.payload for kind in types for row in backend.list_mutable(realm, kind))
    assert b"alice" in payloads and all(secret.partition("_")[2].encode() not in payloads for secret in shown)
