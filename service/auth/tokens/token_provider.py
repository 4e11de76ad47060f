"""Authenticates bearer tokens, signed by the realm's own key or by a trusted issuer.

⚠ The realm is the token's. A path or header that names another one is refused alike whether that one exists or not, and what is
refused before a signature was checked says nothing at all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from headwater.persistence.clock import MICROS, Clock
from headwater.producer.access.principals import Principal
from headwater.schemas.errors import NotAuthenticated, NotFound, NotPermitted
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.authorizer import RightsOfRealms
from headwater.service.auth.rights.realm_rights import RealmRights
from headwater.service.auth.tokens.oidc import External, Issuers
from headwater.service.auth.tokens.signing_keys import SigningKeys
from headwater.service.auth.tokens.tokens import ISSUER, TokenClaims, check_time, peek, refused, verified
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Scope, header, is_repeated

TOKENS_KEPT_MAX = 10_000


class _Proof(NamedTuple):
    said: TokenClaims | External
    issuer: str
    key_id: str
    caller: Caller | None = None
    """Whom a token of ours names; that principal and secret are still there is checked with each request."""


class TokenProvider:
    def __init__(self, realms: RightsOfRealms, keys: SigningKeys, issuers: Issuers, clock: Clock) -> None:
        self._realms = realms
        self._keys = keys
        self._issuers = issuers
        self._clock = clock
        self._proven: OrderedDict[str, _Proof] = OrderedDict()

    async def caller(self, scope: Scope, realm: str | None) -> Caller:
        proof = await self._proof(bearer_token(scope))
        proven = proof.said
        for asked in (realm, named_realm(scope)):
            if asked is not None and asked != proven.realm:
                raise NotPermitted(
                    "the token is of another realm.", field="realm", remedy="Use a token of the requested realm."
                )
        if proof.caller is not None and isinstance(proven, TokenClaims):
            await self._check_principal(proven.realm, proven.instance, proven.sub, proven.pid, proven.sid)
            return proof.caller
        if isinstance(proven, External):
            found = self._realms.known(proven.realm)
            return await self._external(found if found is not None else await self._rights(proven.realm), proven, proof)
        raise refused()

    async def proven(self, token: str) -> TokenClaims | External:
        """What a token says, if it is one that counts now."""
        return (await self._proof(token)).said

    async def _proof(self, token: str) -> _Proof:
        """Checking a signature is done once for each token."""
        now = self._clock.now_micros()
        proof = self._proven.get(token)
        if proof is None or self._keys_are_old(proof):
            proof = await self._prove(token, now)
        said = proof.said
        if isinstance(said, TokenClaims):
            check_time(said, now)
        elif said.expires_at <= now:
            raise refused("the token has expired.")
        return proof

    async def _prove(self, token: str, now: int) -> _Proof:
        self._proven.pop(token, None)
        seen = peek(token)
        if seen.issuer == ISSUER:
            key = self._keys.known_public(seen.instance, seen.key_id)
            if key is None:
                key = await asyncio.to_thread(self._keys.public, seen.instance, seen.key_id)
            if key is None:
                raise refused()
            claims = verified(token, key, now)
            proof = _Proof(claims, seen.issuer, seen.key_id, _caller_of(claims, seen.issuer, seen.key_id))
        elif self._issuers.knows(seen.issuer):
            proof = _Proof(await self._issuers.verified(token, seen.issuer, seen.key_id, now), seen.issuer, seen.key_id)
        else:
            raise refused()
        self._proven[token] = proof
        if len(self._proven) > TOKENS_KEPT_MAX:
            self._proven.popitem(last=False)
        return proof

    def _keys_are_old(self, proof: _Proof) -> bool:
        """⚠ A key that was voided must void what was proven with it: proofs are as old as our copy of the keys, not older."""
        said = proof.said
        if isinstance(said, External):
            return not self._issuers.has_current(proof.issuer, proof.key_id)
        return self._keys.known_public(said.instance, proof.key_id) is None

    async def recheck(self, caller: Caller) -> None:
        if caller.expires_at <= self._clock.now_micros():
            raise refused("the token has expired.")
        if not await self._has_key(caller):
            raise refused("the key that the token was signed with is gone.")
        if caller.secret_id:
            await self._check_principal(caller.realm, caller.instance, caller.name, caller.principal_id, caller.secret_id)

    def is_known_to_count(self, caller: Caller) -> bool:
        now = self._clock.now_micros()
        if caller.expires_at <= now or not self._is_key_known(caller):
            return False
        if not caller.secret_id:
            return True
        rights = self._realms.known(caller.realm)
        known = None if rights is None else rights.known_principal(caller.name)
        if rights is None or rights.kernel.realm != caller.instance or known is None:
            return False
        return _has_secret(known[0], caller.principal_id, caller.secret_id, now)

    def _is_key_known(self, caller: Caller) -> bool:
        if caller.issuer != ISSUER:
            return self._issuers.has_current(caller.issuer, caller.key_id)
        return self._keys.known_public(caller.instance, caller.key_id) is not None

    async def _has_key(self, caller: Caller) -> bool:
        if caller.issuer != ISSUER:
            return await self._issuers.has(caller.issuer, caller.key_id)
        if self._is_key_known(caller):
            return True
        return await asyncio.to_thread(self._keys.public, caller.instance, caller.key_id) is not None

    async def check_principal(self, said: TokenClaims) -> None:
        """The principal and the secret that a token was issued for are still there."""
        await self._check_principal(said.realm, said.instance, said.sub, said.pid, said.sid)

    async def _check_principal(self, realm: str, instance: str, name: str, principal_id: str, secret_id: str) -> None:
        found = self._realms.known(realm)
        rights = found if found is not None else await self._rights(realm)
        if rights.kernel.realm != instance:
            raise refused()
        known = rights.known_principal(name)
        principal = known[0] if known is not None else await asyncio.to_thread(rights.principal, name)
        if not _has_secret(principal, principal_id, secret_id, self._clock.now_micros()):
            raise refused("the token's principal, or the secret that it was issued for, is gone.")

    async def _rights(self, realm: str) -> RealmRights:
        try:
            return await asyncio.to_thread(self._realms.require, realm)
        except NotFound:
            raise refused() from None

    async def _external(self, rights: RealmRights, proven: External, proof: _Proof) -> Caller:
        known = rights.known_principal(proven.principal)
        record = known[0] if known is not None else await asyncio.to_thread(rights.principal, proven.principal)
        return Caller(
            name=proven.principal,
            realm=proven.realm,
            instance=rights.kernel.realm,
            roles=proven.roles,
            principal_id="" if record is None else record.id,
            issuer=proof.issuer,
            key_id=proof.key_id,
            expires_at=proven.expires_at,
        )


def _caller_of(claims: TokenClaims, issuer: str, key_id: str) -> Caller:
    return Caller(
        name=claims.sub,
        realm=claims.realm,
        instance=claims.instance,
        principal_id=claims.pid,
        secret_id=claims.sid,
        issuer=issuer,
        key_id=key_id,
        expires_at=claims.exp * MICROS,
    )


def _has_secret(principal: Principal | None, principal_id: str, secret_id: str, now: int) -> bool:
    """Whether it is still that principal, with that secret."""
    if principal is None or principal.id != principal_id:
        return False
    return any(one.id == secret_id and not 0 < one.expires_at <= now for one in principal.secrets)


def bearer_token(scope: Scope) -> str:
    given = header(scope, b"authorization")
    if given is None:
        raise NotAuthenticated(
            "no token came with the request.", field="authorization", remedy="Send `Authorization: Bearer …`."
        )
    if is_repeated(scope, b"authorization"):
        raise refused("more than one token came with the request.")
    scheme, _, token = given.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise refused()
    return token.strip()
