"""Signs tokens, and verifies their signature, algorithm and time.

Tokens are JWTs, signed with Ed25519 and nothing else: the algorithm is ours to choose, never the token's.
"""

from __future__ import annotations

from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from headwater.persistence.clock import MICROS
from headwater.schemas.errors import NotAuthenticated
from headwater.service.auth.tokens.signing_keys import SigningKey

ISSUER = "headwater"
ALGORITHM = "EdDSA"
TOKEN_BYTES_MAX = 16_384
_CLAIMS = ["iss", "sub", "exp", "iat", "realm", "instance", "pid", "sid", "auth_time"]


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True):
    sub: str
    """Name of the principal."""
    pid: str
    """Id of its record."""
    sid: str
    """Id of the secret that it was issued for: with the secret the token ends."""
    realm: str
    instance: str
    iat: int
    exp: int
    auth_time: int
    """Seconds; when the secret was shown last. Tokens that are exchanged keep it."""


def sign_token(key: SigningKey, claims: TokenClaims) -> str:
    private = Ed25519PrivateKey.from_private_bytes(key.private)
    payload: dict[str, Any] = {"iss": ISSUER, **msgspec.to_builtins(claims)}
    return jwt.encode(payload, private, algorithm=ALGORITHM, headers={"kid": key.id})


class PeekedToken(msgspec.Struct, frozen=True):
    """What a token claims before anything is proven: enough to find the key that it must be signed with."""

    issuer: str
    key_id: str
    instance: str


def peek(token: str) -> PeekedToken:
    try:
        if len(token) > TOKEN_BYTES_MAX:
            raise ValueError("too long")
        found = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise refused() from None
    header, payload = found["header"], found["payload"]
    return PeekedToken(_text(payload.get("iss")), _text(header.get("kid")), _text(payload.get("instance")))


def verified(token: str, key: Ed25519PublicKey, now: int) -> TokenClaims:
    """⚠ The list of algorithms has one element and the key is an object of that algorithm: neither `none` nor a public key
    that is taken for a shared secret gets past."""
    options: Any = {"require": _CLAIMS, "verify_exp": False, "verify_iat": False, "verify_aud": False}
    try:
        payload = jwt.decode(token, key, algorithms=[ALGORITHM], issuer=ISSUER, options=options)
        claims = msgspec.convert(payload, TokenClaims)
    except (jwt.PyJWTError, msgspec.ValidationError, ValueError):
        raise refused() from None
    check_time(claims, now)
    return claims


def check_time(claims: TokenClaims, now: int) -> None:
    if claims.exp * MICROS <= now:
        raise refused("the token has expired.")


def refused(why: str = "the token is none that counts here.") -> NotAuthenticated:
    return NotAuthenticated(why, field="authorization", remedy="Ask for a new one with the client's id and secret.")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
