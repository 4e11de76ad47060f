"""The caller of a request, with which every check of a right begins."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

import msgspec

DEV_PRINCIPAL = "dev"
"""Who acts under `--dev` unless the request says otherwise."""
ISSUERS_KEPT_MAX = 256


class Identity(NamedTuple):
    """⚠ A proven identity: a name alone, or what a client writes into a header, is not one."""

    instance: str
    """The realm instance: a realm re-created under its name has other principals."""
    issuer: str
    principal_id: str


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The principal's name: the author of its commits."""
    realm: str
    """Name of the realm that the token is of; no other one is ever served to it."""
    instance: str
    roles: tuple[str, ...] = ()
    """Principal roles that the token itself carries; those that the realm has assigned are looked up with each check."""
    principal_id: str = ""
    """Content id of the principal's record: a principal re-created under its name has another one."""
    secret_id: str = ""
    """The id of the secret that its token was issued for; empty for tokens of external issuers."""
    issuer: str = ""
    """Who signed the token …"""
    key_id: str = ""
    """… and with which key: what it proves ends with that key."""
    expires_at: int = 0
    """Microseconds; 0 for the development principal."""
    development: bool = False

    @property
    def identity(self) -> Identity:
        """A principal of an external issuer without a record in the realm is identified by its external name."""
        return Identity(self.instance, self.issuer, self.principal_id or f"name:{self.name}")

    @property
    def owner_id(self) -> str:
        """Owner of Idempotency-Keys, subscriptions and plans.

        ⚠ A name may hold `:`, which separates it from the key, and another principal may use it later: the id of the
        principal's record distinguishes them, or else who signed for the name.
        """
        if self.development:
            return self.name
        name = self.name.replace("%", "%25").replace(":", "%3A").replace("#", "%23")
        return f"{name}#{self.principal_id or _issuer_id(self.issuer)}"


def development_caller(realm: str, instance: str) -> Caller:
    return Caller(name=DEV_PRINCIPAL, realm=realm, instance=instance, development=True)


@lru_cache(maxsize=ISSUERS_KEPT_MAX)
def _issuer_id(issuer: str) -> str:
    """No id of a record looks like that."""
    return f"issuer-{hashlib.sha256(issuer.encode()).hexdigest()[:16]}"
