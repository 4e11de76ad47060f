"""An issuer's public keys by id, fetched now and then, bounded in size, number and time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt
import msgspec

from headwater.schemas.errors import InvalidInput, NotServing
from headwater.service.http.bounded_answers import ACCEPTED, Unpacking
from headwater.service.http.loopback import is_loopback

FRESH_SECONDS = 300.0
"""How long keys are used before they are fetched again."""
UNKNOWN_AGAIN_SECONDS = 10.0
"""⚠ An unknown key causes a fetch, but not for every forged token."""
STALE_SECONDS = 3_600.0
"""How long keys are used on when the issuer does not answer."""
FETCH_SECONDS = 5.0
DOCUMENT_BYTES_MAX = 256 * 1024
KEYS_MAX = 50

Fetch = Callable[[str], Awaitable[bytes]]

_log = logging.getLogger(__name__)


class PublicKey(NamedTuple):
    key: Any
    """An object of the library that checks signatures: it works only with algorithms of its kind."""
    algorithm: str | None
    """The one that the issuer states for it."""


class Jwks:
    """Keys of one issuer."""

    def __init__(self, issuer: str, jwks_url: str, fetch: Fetch, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: dict[str, PublicKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def key(self, key_id: str) -> PublicKey | None:
        """None if the issuer has no such key; `NotServing` if the issuer cannot be asked."""
        if not self._is_due(key_id):
            return self._keys.get(key_id)
        async with self._lock:
            if self._is_due(key_id):
                await self._fetch_again()
        return self._keys.get(key_id)

    def is_current(self, key_id: str) -> bool:
        """Whether it is a key by the newest that is known of the issuer, without asking for more."""
        return key_id in self._keys and not self._is_due(key_id)

    def _is_due(self, key_id: str) -> bool:
        if self._fetched_at is None or self._tried_at is None:
            return True
        age, since_try = self._monotonic() - self._fetched_at, self._monotonic() - self._tried_at
        if age > STALE_SECONDS:
            return True
        return since_try > UNKNOWN_AGAIN_SECONDS and (age > FRESH_SECONDS or key_id not in self._keys)

    async def _fetch_again(self) -> None:
        tried = self._tried_at
        if self._fetched_at is None and tried is not None and self._monotonic() - tried < 1.0:
            raise _unreachable(self._issuer)
        self._tried_at = self._monotonic()
        try:
            self._keys = _keys(await self._fetch(await self._address()))
            self._fetched_at = self._monotonic()
        except (OSError, ValueError, InvalidInput) as error:
            _log.warning("the keys of an issuer could not be fetched: %s", error)
            if self._fetched_at is None or self._monotonic() - self._fetched_at > STALE_SECONDS:
                self._keys, self._fetched_at = {}, None
                raise _unreachable(self._issuer) from error

    async def _address(self) -> str:
        if not self._jwks_url:
            found = _decoded(await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"))
            address = found.get("jwks_uri")
            if found.get("issuer") != self._issuer or not isinstance(address, str):
                raise ValueError("the discovery document is of another issuer, or names no keys")
            self._jwks_url = address
        return self._jwks_url


async def fetch_document(url: str) -> bytes:
    """Over TLS, or from this machine; no redirects, no more than its bound."""
    import httpx

    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ValueError("keys are fetched over https alone")
    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client,
            client.stream("GET", url, headers={"accept": "application/json", **ACCEPTED}) as answer,
        ):
            answer.raise_for_status()
            body, unpacking = b"", Unpacking(answer.headers.get("content-encoding", ""))
            async for packed in answer.aiter_raw():
                for part in unpacking.parts(packed):
                    body += part
                    if len(body) > DOCUMENT_BYTES_MAX:
                        raise ValueError("the document is too large")
            unpacking.end()
            return body
    except httpx.HTTPError as error:
        raise OSError(f"{type(error).__name__} at {parts.hostname}") from error


def _keys(document: bytes) -> dict[str, PublicKey]:
    """By id; those that are for something else, or that cannot be read, are left out."""
    listed = _decoded(document).get("keys")
    if not isinstance(listed, list):
        raise ValueError("the document has no list of keys")
    found: dict[str, PublicKey] = {}
    for one in listed[:KEYS_MAX]:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK.from_dict(one)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        stated = one.get("alg")
        if key.key_id:
            found[key.key_id] = PublicKey(key.key, stated if isinstance(stated, str) else None)
    return found


def _decoded(document: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(document, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError("the document is not a JSON object") from error


def _unreachable(issuer: str) -> NotServing:
    return NotServing("the keys of the token's issuer cannot be fetched.", field="authorization", remedy="Try again.")
