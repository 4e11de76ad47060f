"""Fetches OAuth 2 access tokens (client credentials) for SASL OAUTHBEARER, and renews each before it ends."""

from __future__ import annotations

import asyncio
import base64
import time
import urllib.error
import urllib.parse
import urllib.request

import msgspec
from aiokafka.abc import AbstractTokenProvider

from headwater.schemas.errors import KafkaRefused

TIMEOUT_SECONDS = 10.0
RENEWED_BEFORE_SECONDS = 30.0


class _TokenAnswer(msgspec.Struct):
    access_token: str
    expires_in: float = 300.0


class OAuthTokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, url: str, client_id: str, client_secret: str, scope: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise KafkaRefused(f"{url!r} is not a URL.", field="kafka_oauth_token_url", remedy="Use https://….")
        self._url = url
        self._credentials = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._scope = scope
        self._token, self._ends_at = "", 0.0

    async def token(self) -> str:
        if time.monotonic() > self._ends_at - RENEWED_BEFORE_SECONDS:
            answer = await asyncio.to_thread(self._fetch)
            self._token, self._ends_at = answer.access_token, time.monotonic() + answer.expires_in
        return self._token

    def _fetch(self) -> _TokenAnswer:
        form = {"grant_type": "client_credentials", **({"scope": self._scope} if self._scope else {})}
        request = urllib.request.Request(  # noqa: S310  checked when it was made
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {self._credentials}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return msgspec.json.decode(answer.read(), type=_TokenAnswer)
        except (urllib.error.URLError, TimeoutError, msgspec.DecodeError) as error:
            raise KafkaRefused(
                f"the token endpoint gave no token: {error}.", field="kafka_oauth_token_url", remedy="Check URL, id and secret."
            ) from error
