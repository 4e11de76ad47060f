"""Authenticates requests with a token for their realm, and fetches a new one before it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from urllib.parse import quote, unquote

import httpx
import msgspec

from headwater.schemas.errors import NotAuthenticated

SYSTEM_REALM = "::system::"
RENEW_SHARE = 0.8
"""The share of a token's lifetime after which the next request fetches another one."""


class Token(msgspec.Struct, frozen=True):
    """What a server issues for a client's id and secret."""

    access_token: str
    expires_in: float = 3_600.0


class ClientCredentials(httpx.Auth):
    """OAuth 2 client credentials; thread-safe, for both sync and async clients. ⚠ Only the token's response is read here. httpx
    could read every response, and then a stream that never ends would never begin."""

    def __init__(
        self, server: str, client_id: str, client_secret: str, now_seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._client = (client_id, client_secret)
        self._now_seconds = now_seconds
        self._tokens: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        flow = self.auth_flow(request)
        with suppress(StopIteration):
            sent = next(flow)
            while True:
                response = yield sent
                if sent is not request:
                    response.read()
                sent = flow.send(response)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        flow = self.auth_flow(request)
        with suppress(StopIteration):
            sent = next(flow)
            while True:
                response = yield sent
                if sent is not request:
                    await response.aread()
                sent = flow.send(response)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        realm = realm_of_path(request.url.path)
        token = self._kept(realm)
        if token is None:
            token = (yield from self.fetch(realm)).access_token
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:  # the key was changed, or the clock is wrong: once more
            token = (yield from self.fetch(realm)).access_token
            request.headers["authorization"] = f"Bearer {token}"
            yield request

    def fetch(self, realm: str) -> Generator[httpx.Request, httpx.Response, Token]:
        """Yields the request to send, is sent its response, and returns the token."""
        client_id, client_secret = self._client
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        url = f"{self._server}/manage/v1/{quote(realm, safe='')}/oauth/tokens"
        response = yield httpx.Request("POST", url, data=form)
        if not response.is_success:
            raise NotAuthenticated(
                f"the server gives out no token for realm {realm!r}: {response.status_code}.",
                field="client_secret",
                remedy="Check the client's id and secret.",
            )
        token = msgspec.json.decode(response.content, type=Token)
        with self._lock:
            self._tokens[realm] = (token.access_token, self._now_seconds() + RENEW_SHARE * token.expires_in)
        return token

    def _kept(self, realm: str) -> str | None:
        with self._lock:
            token, until = self._tokens.get(realm, ("", 0.0))
        return token if self._now_seconds() < until else None


def realm_of_path(path: str) -> str:
    """`/feed/v1/{realm}/…` and `/manage/v1/{realm}/…`; calls about realms themselves belong to the system."""
    parts = path.split("/")
    name = unquote(parts[3]) if len(parts) > 3 else ""
    return SYSTEM_REALM if parts[1] == "manage" and name == "realms" else name
