"""The interfaces that a setting can replace by an entry point: who proves identities, and who decides."""

from __future__ import annotations

from typing import Protocol

from headwater.schemas.change import KeyPath
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.http.responses import Scope

AUTHORIZER_GROUP = "headwater.authorizers"
"""An entry point of this group names a callable that takes `AccessParts` and gives an `Authorizer`."""
PRINCIPALS_GROUP = "headwater.principal_providers"
"""The same for a `PrincipalProvider`."""


class PrincipalProvider(Protocol):
    async def caller(self, scope: Scope, realm: str | None) -> Caller:
        """Who sends the request, to that realm, or to the one that its token names where the path has none.

        `NotAuthenticated` if nothing proves it, `NotPermitted` if it is proven for another realm; neither says whether the
        realm that was asked for exists.
        """
        ...

    async def recheck(self, caller: Caller) -> None:
        """`NotAuthenticated` if what proved the caller counts no more: asked with every page of a request that lasts."""
        ...

    def is_known_to_count(self, caller: Caller) -> bool:
        """Whether `recheck` would let the caller pass by what is in memory and fresh; False where it must be asked. Called on
        the event loop for each frame of a stream: it must not wait."""
        ...


class Authorizer(Protocol):
    """Asked with every request. May ask the store or another service; called off the event loop unless `known` answers."""

    def known(self, caller: Caller, right: Right, over: Securable) -> bool | None:
        """The answer if it is in memory and fresh, else None. Called on the event loop: it must not wait."""
        ...

    def known_paths(self, caller: Caller, right: Right, catalog: str) -> frozenset[KeyPath] | None:
        """The paths in a catalog at and below which the right holds, if they are in memory and fresh; None if they are not, or
        if the right does not go by paths. Readers with the same paths are served together. It must not wait."""
        ...

    def allows(self, caller: Caller, right: Right, over: Securable) -> bool: ...

    def allows_somewhere(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        """Whether it, or any right at all, holds at the catalog or anywhere in it."""
        ...
