"""What a caller may see of pointers: all of it, some keys, or nothing.

A pointer that may not be seen is refused with the very error of one that does not exist. Within a branch keys are seen where
`feed.read` is held at or above them; asked with every page, so that what was revoked is not shown any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from headwater.persistence.realms.realm_records import REALMS_POINTER
from headwater.persistence.records.principal_records import GRANTS_POINTER, PRINCIPALS_POINTER, ROLES_POINTER
from headwater.producer.access.effective import is_held
from headwater.producer.access.policies import POLICIES_POINTER
from headwater.producer.pointer_names import (
    CATALOGS,
    CONNECTORS,
    parse_access_pointer,
    parse_reference_pointer,
    parse_statistics_pointer,
)
from headwater.schemas.change import Change, KeyPath
from headwater.schemas.errors import PointerNotFound
from headwater.schemas.redaction import MaySee, as_seen
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import REALM, Right, Securable
from headwater.service.operations.realm_feeds import RealmFeed

REALM_POINTER_RIGHTS = {
    PRINCIPALS_POINTER: Right.ACCESS_MANAGE,
    ROLES_POINTER: Right.ACCESS_MANAGE,
    GRANTS_POINTER: Right.ACCESS_MANAGE,
    POLICIES_POINTER: Right.POLICY_READ,
    CATALOGS: Right.CATALOG_LIST,
    REALMS_POINTER: Right.FEED_READ,
    CONNECTORS: Right.CONNECTOR_READ,
}
"""Over the realm; all other pointers of a realm need `realm.manage`. `realms` is in `::system::` alone."""


class Need(NamedTuple):
    """What it takes to see a pointer."""

    right: Right
    catalog_id: int | None = None
    by_key: bool = False


@lru_cache(maxsize=10_000)
def need_of(pointer: str) -> Need:
    reference = parse_reference_pointer(pointer)
    if reference is not None:
        return Need(Right.FEED_READ, reference.catalog_id, by_key=True)
    access_of = parse_access_pointer(pointer)
    if access_of is not None:
        return Need(Right.CATALOG_MANAGE, access_of)
    statistics_of = parse_statistics_pointer(pointer)
    if statistics_of is not None:
        return Need(Right.STATISTICS_READ, statistics_of)
    return Need(REALM_POINTER_RIGHTS.get(pointer, Right.REALM_MANAGE))


class SeenPaths(msgspec.Struct, frozen=True):
    """Sees a key at or below one of its paths. Equal for all who hold `feed.read` at the same paths."""

    paths: frozenset[KeyPath]

    def __call__(self, key: KeyPath) -> bool:
        return is_held(self.paths, key)


class FeedView(msgspec.Struct, frozen=True):
    """The view of a reader who may not see everything."""

    may_see: dict[str, MaySee]
    """By pointer; of others all keys are seen."""

    @property
    def key(self) -> Hashable:
        return tuple(self.may_see.items())

    def seen(self, change: Change) -> Change | None:
        may_see = self.may_see.get(change.pointer)
        return change if may_see is None else as_seen(change, may_see)


SEES_ALL: tuple[None] = (None,)


KnownFeedView = tuple[FeedView | None] | None


class Viewer:
    """One caller at the feed of one realm. Made once the gate has admitted the caller; later requests are checked again."""

    def __init__(self, access: Access, caller: Caller, feed: RealmFeed) -> None:
        self._access = access
        self._caller = caller
        self._feed = feed
        self._is_proven_now = True
        self._alike: Caller | None = None
        """The caller without the end of its token, for readers that wait; made when it is needed."""

    async def view(self, pointers: Iterable[str]) -> FeedView | None:
        """None where all of them are seen wholly. `PointerNotFound` for what may not be seen, `NotAuthenticated` for a token
        that has ended since."""
        caller = self._caller
        if caller.development:
            return None
        if not self._is_proven_now:
            await self._access.recheck(caller)
        self._is_proven_now = False
        may_see: dict[str, MaySee] = {}
        for pointer in pointers:
            over = self._known_over(pointer)
            if over is None:
                over = await asyncio.to_thread(self._securable, pointer)
            allowed = self._access.known(caller, need_of(pointer).right, over)
            if allowed is None:
                allowed = await self._access.allows(caller, need_of(pointer).right, over)
            if not allowed:
                may_see[pointer] = await asyncio.to_thread(self._by_key, pointer, over)
        return FeedView(may_see) if may_see else None

    async def may_see_catalog(self, name: str) -> bool:
        """Whether there is anything in it to read."""
        return self._caller.development or await self._access.allows_somewhere_async(self._caller, Right.FEED_READ, name)

    def known_view(self, pointers: tuple[str, ...], found: dict[Hashable, KnownFeedView]) -> KnownFeedView:
        """The same from memory, for an event loop that must not wait; None where `view` must say, or refuse, it.

        ⚠ `found` holds what was found for others a moment ago, while nothing waited: what holds for a caller holds for
        another token of the same principal, secret and key, but for the time at which that token ends.
        """
        caller = self._caller
        if caller.development:
            return SEES_ALL
        if caller.expires_at <= self._feed.kernel.store.clock.now_micros():
            return None
        if self._alike is None:
            self._alike = msgspec.structs.replace(caller, expires_at=0)
        key = (self._alike, pointers)
        if key not in found:
            found[key] = self._known_view(caller, pointers)
        return found[key]

    def _known_view(self, caller: Caller, pointers: tuple[str, ...]) -> KnownFeedView:
        if not self._access.is_known_to_count(caller):
            return None
        may_see: dict[str, MaySee] = {}
        for pointer in pointers:
            need = need_of(pointer)
            catalog = None if need.catalog_id is None else self._feed.known_catalog_name(need.catalog_id)
            if need.catalog_id is not None and catalog is None:
                return None
            allowed = self._access.known(caller, need.right, Securable(catalog))
            if allowed is None:
                return None
            if not allowed:
                paths = None if catalog is None or not need.by_key else self._access.known_paths(caller, need.right, catalog)
                if not paths:
                    return None
                may_see[pointer] = SeenPaths(paths)
        return (FeedView(may_see),) if may_see else SEES_ALL

    async def require_subscribing(self, pointers: Iterable[str]) -> None:
        """`subscription.manage` over the catalog of each pointer, or over the realm."""
        for pointer in pointers:
            over = self._known_over(pointer)
            if over is None:
                over = await asyncio.to_thread(self._securable, pointer)
            await self._access.require(self._caller, Right.SUBSCRIPTION_MANAGE, over)

    def view_now(self, pointer: str) -> FeedView | None:
        """The same of one pointer, for a thread that may wait for the store."""
        over = self._securable(pointer) if not self._caller.development else REALM
        if self._access.allows_now(self._caller, need_of(pointer).right, over):
            return None
        return FeedView({pointer: self._by_key(pointer, over)})

    def may_see_now(self, pointer: str) -> bool:
        """Whether it is there for this caller. May ask the store."""
        if self._caller.development:
            return True
        need, over = need_of(pointer), self._securable(pointer)
        if self._access.allows_now(self._caller, need.right, over):
            return True
        return need.by_key and over.catalog is not None and self._somewhere(over.catalog)

    def _known_over(self, pointer: str) -> Securable | None:
        """From memory; None if the store must be asked."""
        catalog_id = need_of(pointer).catalog_id
        if catalog_id is None:
            return REALM
        known = self._feed.known_catalog_name(catalog_id)
        return None if known is None else Securable(known)

    def _securable(self, pointer: str) -> Securable:
        """Pointers of a dropped catalog are visible only with the right over the realm."""
        catalog_id = need_of(pointer).catalog_id
        return REALM if catalog_id is None else Securable(self._feed.read_catalog_name(catalog_id))

    def _by_key(self, pointer: str, over: Securable) -> MaySee:
        catalog = over.catalog
        if not need_of(pointer).by_key or catalog is None or not self._somewhere(catalog):
            raise no_pointer(pointer)
        paths = self._access.known_paths(self._caller, Right.FEED_READ, catalog)
        if paths is not None:
            return SeenPaths(paths)
        return lambda key: self._access.allows_now(self._caller, Right.FEED_READ, Securable(catalog, key))

    def _somewhere(self, catalog: str) -> bool:
        return self._access.allows_somewhere(self._caller, Right.FEED_READ, catalog)


def no_pointer(pointer: str) -> PointerNotFound:
    """Word for word what the log says of a pointer that is not there."""
    return PointerNotFound(
        f"there is no pointer {pointer!r}.", field="pointer", remedy="List the pointers, or name a catalog and a branch."
    )
