"""The OAuth 2 token endpoint."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from headwater.persistence.clock import MICROS, Clock
from headwater.schemas.errors import NotAuthenticated, TooManyRequests
from headwater.service.auth.tokens.credentials import CredentialCheck
from headwater.service.auth.tokens.signing_keys import SigningKeys
from headwater.service.auth.tokens.token_provider import TokenProvider
from headwater.service.auth.tokens.tokens import TokenClaims, refused, sign_token
from headwater.service.http.responses import Response, Scope, header, is_repeated, json_response

CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant type
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a token type
EXCHANGED_SECONDS_MAX = 24 * 3_600
"""How long after the secret was shown a token may still be exchanged for another one."""
FORM_BYTES_MAX = 64 * 1024
FIELDS_MAX = 50
BASIC_REALM = (b"www-authenticate", b'Basic realm="headwater"')

_log = logging.getLogger("headwater.audit")


class TokenEndpoint:
    def __init__(
        self, credentials: CredentialCheck, provider: TokenProvider, keys: SigningKeys, clock: Clock, token_seconds: int
    ) -> None:
        self._credentials = credentials
        self._provider = provider
        self._keys = keys
        self._clock = clock
        self._token_seconds = token_seconds

    @property
    def failures(self) -> int:
        return self._credentials.failures

    async def answer(self, scope: Scope, body: bytes, realm: str) -> Response:
        """Never to be kept by anyone on the way."""
        try:
            form = _form(body)
            grant = form.get("grant_type")
            if grant == CLIENT_CREDENTIALS:
                claims = await self._by_secret(scope, form, realm)
            elif grant == TOKEN_EXCHANGE:
                claims = await self._by_token(form, realm)
            else:
                return _error(400, "unsupported_grant_type", "Use client_credentials.")
            return await self._token(claims)
        except _MalformedForm as fault:
            return _error(400, "invalid_request", str(fault))
        except NotAuthenticated as error:
            _log.warning("no token was given out", extra={"realm": realm[:100], "peer": peer_of(scope)})
            return _error(401, "invalid_client", error.message, BASIC_REALM)
        except TooManyRequests as error:
            seconds = str(error.facts["retry_after_seconds"]).encode()
            return _error(429, "slow_down", f"{error.message} {error.remedy}", (b"retry-after", seconds))

    async def _by_secret(self, scope: Scope, form: dict[str, str], realm: str) -> TokenClaims:
        client_id, secret = _client(scope, form)
        proven = await self._credentials.prove(realm, client_id, secret, peer_of(scope))
        now = self._clock.now_micros() // MICROS
        return TokenClaims(
            sub=proven.principal.name,
            pid=proven.principal.id,
            sid=proven.secret_id,
            realm=proven.realm,
            instance=proven.instance,
            iat=now,
            exp=now + self._token_seconds,
            auth_time=now,
        )

    async def _by_token(self, form: dict[str, str], realm: str) -> TokenClaims:
        """Clients that refresh show their token instead of the secret; that works as long as the token counts, for a day."""
        if form.get("subject_token_type", ACCESS_TOKEN) != ACCESS_TOKEN or not form.get("subject_token"):
            raise _MalformedForm("Send subject_token, an access token.")
        said = await self._provider.proven(form["subject_token"])
        now = self._clock.now_micros() // MICROS
        if not isinstance(said, TokenClaims) or said.realm != realm or now - said.auth_time > EXCHANGED_SECONDS_MAX:
            raise refused()
        await self._provider.check_principal(said)
        return TokenClaims(
            sub=said.sub,
            pid=said.pid,
            sid=said.sid,
            realm=said.realm,
            instance=said.instance,
            iat=now,
            exp=now + self._token_seconds,
            auth_time=said.auth_time,
        )

    async def _token(self, claims: TokenClaims) -> Response:
        key = await asyncio.to_thread(self._keys.current, claims.instance)
        return _never_kept(
            {
                "access_token": sign_token(key, claims),
                "token_type": "bearer",
                "expires_in": claims.exp - claims.iat,
                "issued_token_type": ACCESS_TOKEN,
            },
            200,
        )


class _MalformedForm(Exception):
    """What is wrong with it, in a sentence."""


def _form(body: bytes) -> dict[str, str]:
    try:
        if len(body) > FORM_BYTES_MAX:
            raise ValueError
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise _MalformedForm("The body is not a form of a bounded size.") from None
    if len(dict(pairs)) < len(pairs):
        raise _MalformedForm("A field comes twice.")
    return dict(pairs)


def _client(scope: Scope, form: dict[str, str]) -> tuple[str, str]:
    """From the Basic header or the form, not from both."""
    if is_repeated(scope, b"authorization"):
        raise _MalformedForm("The Authorization header comes twice.")
    given = (header(scope, b"authorization") or b"").decode("latin-1")
    scheme, _, encoded = given.partition(" ")
    if scheme.lower() == "basic":
        if "client_secret" in form:
            raise _MalformedForm("The secret comes twice, in the header and in the form.")
        try:
            client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise _MalformedForm("The Basic header cannot be read.") from None
        return unquote_plus(client_id), unquote_plus(secret)
    if not form.get("client_id") or not form.get("client_secret"):
        raise _MalformedForm("Send client_id and client_secret.")
    return form["client_id"], form["client_secret"]


def peer_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _error(status: int, code: str, description: str, *headers: tuple[bytes, bytes]) -> Response:
    return _never_kept({"error": code, "error_description": description}, status, *headers)


def _never_kept(value: dict[str, Any], status: int, *headers: tuple[bytes, bytes]) -> Response:
    return json_response(value, status, (b"pragma", b"no-cache"), *headers)


def dev_token(body: bytes) -> Response:
    """⚠ Under `--dev` no token is asked for, so the one that is given out proves nothing."""
    try:
        grant = _form(body).get("grant_type")
    except _MalformedForm as fault:
        return _error(400, "invalid_request", str(fault))
    if grant not in (CLIENT_CREDENTIALS, TOKEN_EXCHANGE):
        return _error(400, "unsupported_grant_type", "Use client_credentials.")
    return _never_kept(
        {"access_token": "dev", "token_type": "bearer", "expires_in": 3_600, "issued_token_type": ACCESS_TOKEN}, 200
    )
