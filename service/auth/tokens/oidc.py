"""Verifies tokens of an external issuer, and maps them to realm, principal and roles.

⚠ An external subject never becomes a principal of the realm's own by having the same name: it gets a prefix. Its roles are
those that the table maps by name, and those assigned to a record of the prefixed name.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import jwt
import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.tokens.jwks import Jwks
from headwater.service.auth.tokens.tokens import TOKEN_BYTES_MAX, refused

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""What an issuer may sign with: never what needs a secret on both sides."""
LEEWAY_SECONDS = 30
NAME_LENGTH_MAX = 100
ROLES_MAX = 100


class OidcIssuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issuer: str
    audience: str
    jwks_url: str = ""
    """Found by the issuer's discovery document if empty."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    realm: str = ""
    """The realm that its tokens are of …"""
    realm_claim: str = ""
    """… or the claim that names it."""
    principal_claim: str = "sub"
    principal_prefix: str = "oidc:"
    roles_claim: str = ""
    """A claim with a text or a list of them; a dot goes a level down."""
    roles: dict[str, str] = {}
    """Which of its values is which principal role; others mean nothing."""


class OidcFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    issuers: tuple[OidcIssuer, ...] = ()


class External(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    principal: str
    roles: tuple[str, ...]
    expires_at: int
    """Microseconds."""


class Issuers:
    """Those that the settings name."""

    def __init__(self, issuers: tuple[OidcIssuer, ...], jwks: Mapping[str, Jwks]) -> None:
        self._issuers = {one.issuer: one for one in issuers}
        self._jwks = jwks

    def knows(self, issuer: str) -> bool:
        return issuer in self._issuers

    def has_current(self, issuer: str, key_id: str) -> bool:
        """Whether what was proven with that key still is."""
        return issuer in self._jwks and self._jwks[issuer].is_current(key_id)

    async def has(self, issuer: str, key_id: str) -> bool:
        """Whether the issuer still has that key; asks it when our copy of its keys is due."""
        return issuer in self._jwks and await self._jwks[issuer].key(key_id) is not None

    async def verified(self, token: str, issuer: str, key_id: str, now: int) -> External:
        table = self._issuers[issuer]
        key = await self._jwks[issuer].key(key_id)
        if key is None or len(token) > TOKEN_BYTES_MAX:
            raise refused()
        allowed = [one for one in table.algorithms if key.algorithm in (None, one)]
        options: Any = {"require": ["iss", "aud", "exp", "sub"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            claims = jwt.decode(token, key.key, algorithms=allowed, audience=table.audience, issuer=issuer, options=options)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise refused() from None
        _check_times(claims, now)
        return _mapped(table, claims)


def _check_times(claims: Mapping[str, Any], now: int) -> None:
    for name, sign in (("exp", 1), ("nbf", -1)):
        value = claims.get(name)
        if value is None and name == "nbf":
            continue
        if (
            not isinstance(value, int | float)
            or not isfinite(value)
            or (value * MICROS - now) * sign < -LEEWAY_SECONDS * MICROS
        ):
            raise refused("the token is not of this time.")


def _mapped(table: OidcIssuer, claims: Mapping[str, Any]) -> External:
    subject = _claim(claims, table.principal_claim)
    realm = _claim(claims, table.realm_claim) if table.realm_claim else table.realm
    if not isinstance(subject, str) or not 0 < len(subject) <= NAME_LENGTH_MAX or not isinstance(realm, str):
        raise refused("the token does not say who or where.")
    if (
        table.realm_claim and realm == SYSTEM_REALM
    ):  # ⚠ a claim chooses among tenants; the operator's realm is named in the table
        raise refused("the token does not say who or where.")
    named = _claim(claims, table.roles_claim) if table.roles_claim else ()
    values = [named] if isinstance(named, str) else named if isinstance(named, list | tuple) else []
    roles = sorted({table.roles[one] for one in values[:ROLES_MAX] if isinstance(one, str) and one in table.roles})
    return External(
        realm=realm,
        principal=f"{table.principal_prefix}{subject}",
        roles=tuple(roles),
        expires_at=int((claims["exp"] + LEEWAY_SECONDS) * MICROS),
    )


def _claim(claims: Mapping[str, Any], path: str) -> object:
    found: Any = claims
    for part in [path] if path in claims else path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def read_issuers(file: str) -> tuple[OidcIssuer, ...]:
    """The file that the setting names; nothing is taken from one that is not wholly understood."""
    if not file:
        return ()
    try:
        found = msgspec.convert(tomllib.loads(Path(file).read_text()), OidcFile).issuers
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"{file} cannot be read: {error}.", field="oidc_config", remedy="See docs/access.md for what it holds."
        ) from error
    for one in found:
        _check_issuer(one)
    if len({one.issuer for one in found}) < len(found):
        raise InvalidInput("an issuer comes twice.", field="oidc_config", remedy="Name each issuer once.")
    for one, other in itertools.combinations(found, 2):
        _check_prefixes(one, other)
    return found


def _check_prefixes(one: OidcIssuer, other: OidcIssuer) -> None:
    """⚠ A principal is its prefix and its subject: issuers of one realm must not be able to name the same one."""
    may_meet = one.realm == other.realm or bool(one.realm_claim or other.realm_claim)
    prefixes = sorted((one.principal_prefix, other.principal_prefix))
    if may_meet and prefixes[1].startswith(prefixes[0]):
        raise InvalidInput(
            f"the prefixes of issuers {one.issuer[:200]!r} and {other.issuer[:200]!r} overlap: {' and '.join(prefixes)}.",
            field="oidc_config",
            remedy="Give each its own principal_prefix; none may begin with another.",
        )


def _check_issuer(one: OidcIssuer) -> None:
    faults = {
        "issuer": not one.issuer or one.issuer == "headwater",
        "audience": not one.audience,
        "algorithms": not one.algorithms or not set(one.algorithms) <= set(ALGORITHMS),
        "realm": bool(one.realm) == bool(one.realm_claim),
        "principal_prefix": not one.principal_prefix,
    }
    for field, is_fault in faults.items():
        if is_fault:
            raise InvalidInput(
                f"{field} of issuer {one.issuer[:200]!r} is missing or cannot be meant.",
                field="oidc_config",
                remedy="It needs issuer, audience, a prefix, realm or realm_claim, and algorithms with a public key.",
            )
