"""Callers whom a trusted mTLS peer of the gRPC port names: its certificate is the proof, records say what they may do."""

from __future__ import annotations

import asyncio

from headwater.producer.access.principals import Principal
from headwater.schemas.errors import NotFound, NotPermitted
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.authorizer import RightsOfRealms
from headwater.service.auth.tokens.tokens import refused
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Scope

PEER_ISSUER = "urn:headwater:grpc-peer"
"""In place of an issuer of tokens; the key id is the peer's subject alternative name."""


class PeerPrincipals:
    def __init__(self, realms: RightsOfRealms) -> None:
        self._realms = realms

    async def caller(self, scope: Scope, realm: str | None, *, peer: str, named: tuple[str, str]) -> Caller:
        """⚠ Of a peer that was found trusted. It names a realm and a principal with a record there. A missing realm is refused
        like a missing principal."""
        in_realm, name = named
        for asked in (realm, named_realm(scope)):
            if asked is not None and asked != in_realm:
                raise NotPermitted(
                    "the principal is of another realm.",
                    field="realm",
                    remedy="Name one of the requested realm.",
                )
        principal, instance = await self._principal(in_realm, name) if name else (None, "")
        if principal is None:
            raise refused("the peer names no principal that is there.")
        return Caller(name=name, realm=in_realm, instance=instance, principal_id=principal.id, issuer=PEER_ISSUER, key_id=peer)

    async def recheck(self, caller: Caller) -> None:
        """Its connection lasts as long as the call; its record may go meanwhile."""
        principal, instance = await self._principal(caller.realm, caller.name)
        if principal is None or principal.id != caller.principal_id or instance != caller.instance:
            raise refused("the principal is gone.")

    def is_known_to_count(self, caller: Caller) -> bool:
        rights = self._realms.known(caller.realm)
        known = None if rights is None else rights.known_principal(caller.name)
        if rights is None or known is None or known[0] is None:
            return False
        return rights.kernel.realm == caller.instance and known[0].id == caller.principal_id

    async def _principal(self, realm: str, name: str) -> tuple[Principal | None, str]:
        rights = self._realms.known(realm)
        try:
            rights = rights if rights is not None else await asyncio.to_thread(self._realms.require, realm)
        except NotFound:
            raise refused("the peer names no principal that is there.") from None
        known = rights.known_principal(name)
        found = known[0] if known is not None else await asyncio.to_thread(rights.principal, name)
        return found, rights.kernel.realm
