"""Tokens of external issuers: only what their published keys prove, mapped as the table says."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from headwater.persistence.clock import SystemClock
from headwater.schemas.errors import HeadwaterError, InvalidInput, NotAuthenticated, NotServing
from headwater.service.auth.caller import Caller
from headwater.service.auth.tokens import jwks as jwks_module
from headwater.service.auth.tokens.jwks import DOCUMENT_BYTES_MAX, FRESH_SECONDS, Jwks, fetch_document
from headwater.service.auth.tokens.oidc import External, Issuers, OidcIssuer, read_issuers
from headwater.service.auth.tokens.token_provider import TokenProvider

ISSUER = "https://login.example.com"
MICROS = 1_000_000
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
TABLE = OidcIssuer(
    issuer=ISSUER,
    audience="headwater",
    realm="alpha",
    roles_claim="realm_access.roles",
    roles={"analysts": "team", "admins": "realm-admin"},
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Published:
    """What the issuer answers with, counted."""

    def __init__(self, **keys: Any) -> None:
        self.keys = keys
        self.asked: list[str] = []
        self.fails = False

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if self.fails:
            raise OSError("no way")
        if url.endswith("openid-configuration"):
            return json.dumps({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}).encode()
        return json.dumps(
            {"keys": [{**json.loads(key), "kid": name, "use": "sig"} for name, key in self.keys.items()]}
        ).encode()


def _published() -> Published:
    return Published(one=RSAAlgorithm.to_jwk(RSA_KEY.public_key()), two=ECAlgorithm.to_jwk(EC_KEY.public_key()))


def _claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "headwater", "sub": "alice", "exp": now + 600, "realm_access": {"roles": ["analysts", "x"]}}
    return {name: value for name, value in {**claims, **changed}.items() if value is not None}


def _token(key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str = "one", **changed: Any) -> str:
    return jwt.encode(_claims(**changed), key, algorithm=algorithm, headers={"kid": key_id})


def _verified(token: str, published: Published | None = None, table: OidcIssuer = TABLE, key_id: str = "one") -> External:
    issuers = Issuers((table,), {ISSUER: Jwks(ISSUER, "", (published or _published()).fetch)})
    return asyncio.run(issuers.verified(token, ISSUER, key_id, int(time.time()) * MICROS))


def test_a_subject_becomes_a_prefixed_principal_with_the_roles_that_the_table_maps() -> None:
    found = _verified(_token())
    assert (found.realm, found.principal, found.roles) == ("alpha", "oidc:alice", ("team",))
    assert _verified(_token(EC_KEY, "ES256", "two"), key_id="two").principal == "oidc:alice"


def test_the_realm_may_come_from_a_claim() -> None:
    table = OidcIssuer(issuer=ISSUER, audience="headwater", realm_claim="tenant")
    assert _verified(_token(tenant="beta"), table=table).realm == "beta"
    with pytest.raises(NotAuthenticated):
        _verified(_token(), table=table)


def test_a_claim_does_not_name_the_realm_of_the_operator_and_a_time_without_end_is_none() -> None:
    table = OidcIssuer(issuer=ISSUER, audience="headwater", realm_claim="tenant")
    with pytest.raises(NotAuthenticated):
        _verified(_token(tenant="::system::"), table=table)
    with pytest.raises(NotAuthenticated):
        _verified(_token(exp=float("inf")))


def test_an_open_stream_ends_with_the_signing_key_of_its_token() -> None:
    """A stream asks with each frame: from memory, and where that cannot tell, for good."""

    async def run() -> None:
        published, clock = _published(), Clock()
        issuers = Issuers((TABLE,), {ISSUER: Jwks(ISSUER, "", published.fetch, monotonic=clock)})
        realms = keys = cast(Any, None)  # not asked about a token of another issuer
        provider = TokenProvider(realms, keys, issuers, SystemClock())
        found = await issuers.verified(_token(), ISSUER, "one", int(time.time()) * MICROS)
        caller = Caller(
            name=found.principal, realm="alpha", instance="alpha#1", issuer=ISSUER, key_id="one", expires_at=found.expires_at
        )
        await provider.recheck(caller)
        assert provider.is_known_to_count(caller)
        del published.keys["one"]
        clock.now += FRESH_SECONDS + 1
        assert not provider.is_known_to_count(caller)
        with pytest.raises(NotAuthenticated):
            await provider.recheck(caller)

    asyncio.run(run())


def test_a_withdrawn_key_of_an_issuer_proves_nothing() -> None:
    async def run() -> None:
        published, clock = _published(), Clock()
        issuers = Issuers((TABLE,), {ISSUER: Jwks(ISSUER, "", published.fetch, monotonic=clock)})
        assert not issuers.has_current(ISSUER, "one")
        await issuers.verified(_token(), ISSUER, "one", int(time.time()) * MICROS)
        assert issuers.has_current(ISSUER, "one")
        del published.keys["one"]
        clock.now += FRESH_SECONDS + 1
        assert not await issuers.has(ISSUER, "one"), "an open stream would continue"
        assert not issuers.has_current(ISSUER, "one"), "what was proven with it would count for as long as the token says"
        with pytest.raises(NotAuthenticated):
            await issuers.verified(_token(), ISSUER, "one", int(time.time()) * MICROS)
        assert not issuers.has_current(ISSUER, "one")

    asyncio.run(run())


def _hs256_with_public_key() -> str:
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    import base64
    import hashlib
    import hmac

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    signed = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'one'})}.{part(_claims())}"
    return f"{signed}.{base64.urlsafe_b64encode(hmac.new(pem, signed.encode(), hashlib.sha256).digest()).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "forge",
    [
        lambda: _token(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        lambda: _token(algorithm="RS512"),
        lambda: jwt.encode(_claims(), None, algorithm="none", headers={"kid": "one"}),
        _hs256_with_public_key,
        lambda: _token(aud="another"),
        lambda: _token(aud=None),
        lambda: _token(iss="https://other.example.com"),
        lambda: _token(exp=int(time.time()) - 60),
        lambda: _token(exp=None),
        lambda: _token(nbf=int(time.time()) + 600),
        lambda: _token(sub=None),
        lambda: _token(sub=""),
        lambda: _token(EC_KEY, "ES256", "one"),
        lambda: _token()[:-4] + "AAAA",
    ],
)
def test_a_token_that_its_key_does_not_prove_is_refused(forge: Any) -> None:
    with pytest.raises(NotAuthenticated):
        _verified(forge())


def test_a_key_is_good_for_the_algorithm_that_its_issuer_states_and_else_for_those_of_the_table() -> None:
    table = OidcIssuer(issuer=ISSUER, audience="headwater", realm="alpha", algorithms=("RS256", "RS512"))
    assert _verified(_token(algorithm="RS512"), table=table).realm == "alpha"
    stated = json.dumps({**json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "alg": "RS256"})
    with pytest.raises(NotAuthenticated):
        _verified(_token(algorithm="RS512"), Published(one=stated), table)


# ── fetching keys ───────────────────────────────────────────────────────────────────────────────────────────


def test_keys_are_fetched_once_again_for_a_new_key_and_not_for_every_forged_token() -> None:
    async def run() -> None:
        published, clock = _published(), Clock()
        keys = Jwks(ISSUER, "", published.fetch, monotonic=clock)
        assert await keys.key("one") is not None and await keys.key("two") is not None
        assert published.asked == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]
        for number in range(100):
            assert await keys.key(f"stranger {number}") is None
        assert len(published.asked) == 2
        published.keys["three"] = published.keys.pop("one")
        clock.now += jwks_module.UNKNOWN_AGAIN_SECONDS + 1
        assert await keys.key("three") is not None, "a key that was rotated in"
        assert await keys.key("one") is None, "a key that was rotated out"
        assert len(published.asked) == 3

    asyncio.run(run())


def test_keys_are_used_on_for_a_while_when_the_issuer_is_away_and_no_longer() -> None:
    async def run() -> None:
        published, clock = _published(), Clock()
        keys = Jwks(ISSUER, f"{ISSUER}/keys", published.fetch, monotonic=clock)
        await keys.key("one")
        published.fails = True
        clock.now += jwks_module.FRESH_SECONDS + 1
        assert await keys.key("one") is not None
        clock.now += jwks_module.STALE_SECONDS
        with pytest.raises(NotServing):
            await keys.key("one")

    asyncio.run(run())


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"keys": 1}', b"\xff", b'{"keys": [{"kty": "oct", "k": "AAAA", "kid": "one"}]}']
)
def test_a_document_without_public_keys_proves_nothing(document: bytes) -> None:
    async def fetch(_: str) -> bytes:
        return document

    async def run() -> object:
        return await Jwks(ISSUER, f"{ISSUER}/keys", fetch).key("one")

    with contextlib.suppress(NotServing):
        assert asyncio.run(run()) is None


@pytest.mark.parametrize("url", ["http://login.example.com/keys", "file:///etc/passwd", "ftp://x/keys"])
def test_keys_are_fetched_only_over_tls_or_from_loopback(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        asyncio.run(fetch_document(url))


def test_a_document_over_its_bound_is_not_read_to_its_end() -> None:
    import http.server
    import threading

    sent = []

    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(b" " * DOCUMENT_BYTES_MAX)
                    sent.append(1)
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Endless) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(ValueError, match="large"):
            asyncio.run(fetch_document(f"http://127.0.0.1:{server.server_port}/keys"))
        thread.join()
    assert len(sent) < 100


def test_a_document_that_unpacks_to_more_than_its_bound_is_not_unpacked_whole() -> None:
    import http.server
    import threading

    packed = gzip.compress(bytes(2**29), 9)

    class Packed(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-encoding", "gzip")
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(packed)

        def log_message(self, *_: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Packed) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="large"):
                asyncio.run(fetch_document(f"http://127.0.0.1:{server.server_port}/keys"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        thread.join()
    assert peak < 20 * DOCUMENT_BYTES_MAX


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_file_of_issuers_is_read_whole_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "issuers.toml"
    file.write_text(f'[[issuers]]\nissuer = "{ISSUER}"\naudience = "headwater"\nrealm = "alpha"\n[issuers.roles]\na = "b"\n')
    assert read_issuers(str(file)) == (OidcIssuer(issuer=ISSUER, audience="headwater", realm="alpha", roles={"a": "b"}),)
    assert read_issuers("") == ()


_TWO = """
[[issuers]]
issuer = "one"
audience = "y"
realm = "a"
[[issuers]]
issuer = "two"
audience = "y"
realm = "a"
{second}
"""


def test_two_issuers_of_one_realm_have_prefixes_that_cannot_collide(tmp_path: Path) -> None:
    file = tmp_path / "issuers.toml"
    file.write_text(_TWO.format(second='principal_prefix = "staff:"'))
    assert [one.principal_prefix for one in read_issuers(str(file))] == ["oidc:", "staff:"]


@pytest.mark.parametrize(
    "text",
    [
        "[[issuers]]\n",
        '[[issuers]]\nissuer = "x"\naudience = "y"\n',
        '[[issuers]]\nissuer = "x"\naudience = "y"\nrealm = "a"\nrealm_claim = "b"\n',
        '[[issuers]]\nissuer = "x"\naudience = "y"\nrealm = "a"\nalgorithms = ["HS256"]\n',
        '[[issuers]]\nissuer = "x"\naudience = "y"\nrealm = "a"\nprincipal_prefix = ""\n',
        '[[issuers]]\nissuer = "headwater"\naudience = "y"\nrealm = "a"\n',
        '[[issuers]]\nissuer = "x"\naudience = ""\nrealm = "a"\n',
        _TWO.format(second='principal_prefix = "oidc:"'),
        _TWO.format(second='principal_prefix = "oidc:staff:"'),
        "surprise = 1\n",
        "not toml",
    ],
)
def test_an_invalid_issuer_is_refused_by_name_of_the_setting(tmp_path: Path, text: str) -> None:
    file = tmp_path / "issuers.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        read_issuers(str(file))
    assert isinstance(refused.value, HeadwaterError) and refused.value.field == "oidc_config" and refused.value.remedy
