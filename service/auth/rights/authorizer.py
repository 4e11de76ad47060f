"""Decides by the realm's records whether a caller has a right over something."""

from __future__ import annotations

import threading

from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.rows import SYSTEM_REALM
from headwater.producer.access.effective import Held
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CatalogNotFound, InvalidName
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.realm_rights import RealmRights, RealmRole
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.operations.realm_feeds import RealmFeed, RealmFeeds

NO_PATHS: frozenset[KeyPath] = frozenset()
WHOLE_CATALOG: frozenset[KeyPath] = frozenset({()})


class RightsOfRealms:
    """What each realm that is served says of its principals; `::system::` is one of them. Thread-safe."""

    def __init__(self, feeds: RealmFeeds) -> None:
        self._feeds = feeds
        self._system: tuple[RealmRights, HeadWatch] | None = None
        self._lock = threading.Lock()

    def known(self, realm: str) -> RealmRights | None:
        """From memory; None if the store must be asked."""
        if realm == SYSTEM_REALM:
            return None if self._system is None else self._system[0]
        feed = self._feeds.known(realm)
        return None if feed is None else self._of(feed)

    def require(self, realm: str) -> RealmRights:
        """The rights of an ACTIVE realm. May query the store."""
        return self._of_system() if realm == SYSTEM_REALM else self._of(self._feeds.require(realm))

    def feed(self, realm: str) -> RealmFeed | None:
        return None if realm == SYSTEM_REALM else self._feeds.require(realm)

    def known_feed(self, realm: str) -> RealmFeed | None:
        return None if realm == SYSTEM_REALM else self._feeds.known(realm)

    def close(self) -> None:
        if self._system is not None:
            self._system[1].close()

    def _of(self, feed: RealmFeed) -> RealmRights:
        found: RealmRights | None = feed.attached.get(RealmRights)
        if found is None:
            with self._lock:
                found = feed.attached.setdefault(RealmRights, RealmRights(feed.kernel, feed.watch))
        return found

    def _of_system(self) -> RealmRights:
        with self._lock:
            if self._system is None:
                kernel = self._feeds.store.system
                watch = HeadWatch(kernel)
                self._system = RealmRights(kernel, watch), watch
            return self._system[0]


class RecordAuthorizer:
    def __init__(self, realms: RightsOfRealms) -> None:
        self._realms = realms

    def known(self, caller: Caller, right: Right, over: Securable) -> bool | None:
        rights = self._known_rights(caller)
        of_realm = None if rights is None else rights.known_roles(caller.name, caller.principal_id, caller.roles)
        if rights is None or of_realm is None:
            return None
        if of_realm.held.allows(right):
            return True
        if over.catalog is None:
            return False
        held = self._known_in_catalog(caller, rights, of_realm, over.catalog)
        return None if held is None else held.allows(right, over.key)

    def known_paths(self, caller: Caller, right: Right, catalog: str) -> frozenset[KeyPath] | None:
        rights = self._known_rights(caller)
        of_realm = None if rights is None else rights.known_roles(caller.name, caller.principal_id, caller.roles)
        if rights is None or of_realm is None:
            return None
        if of_realm.held.allows(right):
            return WHOLE_CATALOG
        held = self._known_in_catalog(caller, rights, of_realm, catalog)
        return None if held is None else held.paths.get(right, NO_PATHS)

    def _known_rights(self, caller: Caller) -> RealmRights | None:
        rights = self._realms.known(caller.realm)
        return rights if rights is not None and rights.kernel.realm == caller.instance else None

    def _known_in_catalog(self, caller: Caller, rights: RealmRights, of_realm: RealmRole, name: str) -> Held | None:
        feed = self._realms.known_feed(caller.realm)
        catalog = None if feed is None else feed.known_catalog(name)
        return None if catalog is None else rights.known_in_catalog(catalog.id, of_realm.roles)

    def allows(self, caller: Caller, right: Right, over: Securable) -> bool:
        rights = self._realms.require(caller.realm)
        if rights.kernel.realm != caller.instance:
            return False
        of_realm = rights.roles(caller.name, caller.principal_id, caller.roles)
        if of_realm.held.allows(right):
            return True
        catalog_id = None if over.catalog is None else self._catalog_id(caller.realm, over.catalog)
        return catalog_id is not None and rights.in_catalog(catalog_id, of_realm.roles).allows(right, over.key)

    def allows_somewhere(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        rights = self._realms.require(caller.realm)
        if rights.kernel.realm != caller.instance:
            return False
        of_realm = rights.roles(caller.name, caller.principal_id, caller.roles)
        catalog_id = self._catalog_id(caller.realm, catalog)
        held = [of_realm.held] + ([] if catalog_id is None else [rights.in_catalog(catalog_id, of_realm.roles)])
        return any(bool(one.paths) if right is None else one.allows_somewhere(right) for one in held)

    def _catalog_id(self, realm: str, name: str) -> int | None:
        """None for what does not exist: a caller without rights over the realm cannot distinguish it from what is hidden."""
        feed = self._realms.feed(realm)
        if feed is None:
            return None
        try:
            return (feed.known_catalog(name) or feed.read_catalog(name)).id
        except (CatalogNotFound, InvalidName):
            return None
