"""Authentication under `--dev`, on loopback only: every request is the development principal's."""

from __future__ import annotations

import asyncio

from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.change import KeyPath
from headwater.service.auth.caller import Caller, development_caller
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Scope
from headwater.service.operations.realm_feeds import RealmFeeds


class DevelopmentProvider:
    """Tokens are neither asked for nor looked at."""

    def __init__(self, feeds: RealmFeeds, default_realm: str) -> None:
        self._feeds = feeds
        self._default_realm = default_realm
        self._system = development_caller(SYSTEM_REALM, SYSTEM_REALM)
        self._known: dict[str, Caller] = {}

    async def caller(self, scope: Scope, realm: str | None) -> Caller:
        name = realm or named_realm(scope) or self._default_realm
        if name == SYSTEM_REALM:
            return self._system
        feed = self._feeds.known(name)
        if feed is None:
            feed = await asyncio.to_thread(self._feeds.require, name)
        caller = self._known.get(name)
        if caller is None or caller.instance != feed.kernel.realm:
            caller = self._known[name] = development_caller(name, feed.kernel.realm)  # bounded: realms that exist
        return caller

    async def recheck(self, caller: Caller) -> None:
        return

    def is_known_to_count(self, caller: Caller) -> bool:
        return True


class EverythingAllowed:
    def known(self, caller: Caller, right: Right, over: Securable) -> bool | None:
        return caller.development

    def known_paths(self, caller: Caller, right: Right, catalog: str) -> frozenset[KeyPath] | None:
        return None

    def allows(self, caller: Caller, right: Right, over: Securable) -> bool:
        return caller.development

    def allows_somewhere(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        return caller.development
