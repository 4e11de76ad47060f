"""Authenticates and authorizes requests: the one place that every API asks.

A denial is an error without a hint at what exists, a line in the log, and an entry of the audit that can be listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import NotPermitted
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.denials import Denials
from headwater.service.auth.rights.protocols import Authorizer, PrincipalProvider
from headwater.service.auth.rights.rate_limits import RateLimits
from headwater.service.auth.rights.rights import REALM, Right, Securable
from headwater.service.auth.tokens.peer_principals import PEER_ISSUER, PeerPrincipals
from headwater.service.auth.tokens.token_endpoint import TokenEndpoint
from headwater.service.http.responses import Scope


class Access:
    def __init__(
        self,
        provider: PrincipalProvider,
        authorizer: Authorizer,
        denials: Denials,
        limits: RateLimits,
        *,
        tokens: TokenEndpoint | None = None,
        peers: PeerPrincipals | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._provider = provider
        self._authorizer = authorizer
        self.limits = limits
        self.denials = denials
        self.tokens = tokens
        """What gives tokens out; None under `--dev`, where none is asked for."""
        self._peers = peers
        """Callers whom trusted peers of the gRPC port name; None under `--dev`."""
        self._on_close = on_close

    async def caller(self, scope: Scope, realm: str | None) -> Caller:
        """Who sends this request, within their rate; `None` where the path names no realm.

        `NotAuthenticated`, `NotPermitted` for a token of another realm, `TooManyRequests`.
        """
        caller = await self._provider.caller(scope, realm)
        if not caller.development:
            self.limits.take(caller)
        return caller

    async def caller_of_peer(self, scope: Scope, realm: str | None, *, peer: str, named: tuple[str, str]) -> Caller:
        """Whom a trusted peer names, as realm and principal. ⚠ Only after its certificate was looked at."""
        if self._peers is None:
            raise LookupError("no peer is trusted here")
        caller = await self._peers.caller(scope, realm, peer=peer, named=named)
        self.limits.take(caller)
        return caller

    async def recheck(self, caller: Caller) -> None:
        """For requests that last: `NotAuthenticated` once the token has expired, or its principal or secret is gone."""
        if self._peers is not None and caller.issuer == PEER_ISSUER:
            await self._peers.recheck(caller)
        elif not caller.development:
            await self._provider.recheck(caller)

    def is_known_to_count(self, caller: Caller) -> bool:
        """Whether `recheck` lets the caller pass by what is in memory; False where it must be asked. Never waits."""
        if self._peers is not None and caller.issuer == PEER_ISSUER:
            return self._peers.is_known_to_count(caller)
        return caller.development or self._provider.is_known_to_count(caller)

    async def require(self, caller: Caller, right: Right, over: Securable = REALM) -> None:
        """`NotPermitted`, written down, unless the caller has the right there. ⚠ Ask before anything is looked up: what a
        caller may not see must look like what does not exist."""
        if not await self.allows(caller, right, over):
            raise self._denied(caller, right, over)

    def check(self, caller: Caller, right: Right, over: Securable = REALM) -> None:
        """The same for a thread that may wait for the store."""
        if not self.allows_now(caller, right, over):
            raise self._denied(caller, right, over)

    async def allows(self, caller: Caller, right: Right, over: Securable = REALM) -> bool:
        """The bare answer, for what is merely left out."""
        known = self.known(caller, right, over)
        return known if known is not None else await asyncio.to_thread(self._authorizer.allows, caller, right, over)

    def known(self, caller: Caller, right: Right, over: Securable = REALM) -> bool | None:
        """The same from memory; None if the store must be asked. Never waits."""
        return True if caller.development else self._authorizer.known(caller, right, over)

    def known_paths(self, caller: Caller, right: Right, catalog: str) -> frozenset[KeyPath] | None:
        """Where in the catalog the right holds, from memory; None if that is not known. Never waits."""
        return self._authorizer.known_paths(caller, right, catalog)

    def allows_now(self, caller: Caller, right: Right, over: Securable = REALM) -> bool:
        """The same for a thread that may wait for the store."""
        return caller.development or self._authorizer.allows(caller, right, over)

    async def allows_somewhere_async(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        """Without a thread for who is known to have the whole catalog."""
        if caller.development or self._authorizer.known(caller, right or Right.CATALOG_READ, Securable(catalog)):
            return True
        return await asyncio.to_thread(self.allows_somewhere, caller, right, catalog)

    def allows_somewhere(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        """Whether it holds anywhere in a catalog. May wait for the store."""
        return caller.development or self._authorizer.allows_somewhere(caller, right, catalog)

    def close(self) -> None:
        while self.denials.flush():  # ends: at most so many wait, and what the store does not take ends it too
            pass
        if self._on_close is not None:
            self._on_close()

    def _denied(self, caller: Caller, right: Right, over: Securable) -> NotPermitted:
        self.denials.add(caller, right, over)
        return NotPermitted(
            f"{caller.name!r} has no right {right} over {over}.",
            field="authorization",
            remedy="Ask for a grant of it to one of your roles.",
            right=str(right),
        )
