"""A request that was read, and the catalog that it is about, enter; its handler's answer leaves.

A catalog is remembered while the list of catalogs stays the same. One that is remembered wrongly costs one more look, no wrong
answer: what is not found there is looked for in the one that has the name now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headwater.persistence.log.committed_requests import RequestKey
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.schemas.errors import CatalogNotFound, ReferenceNotFound, RouteNotFound
from headwater.service.auth.access import Access
from headwater.service.auth.caller import caller_of
from headwater.service.auth.rights.rights import Securable
from headwater.service.http.responses import Response, Scope
from headwater.service.idempotency.run_once import IdempotentRun
from headwater.service.nessie.call import NessieCall
from headwater.service.nessie.operations.catalog_view import CatalogView
from headwater.service.nessie.routes import NessieRoute
from headwater.service.operations.realm_feeds import RealmFeed


class RequestRunner:
    def __init__(
        self,
        access: Access,
        feed: RealmFeed,
        catalog: str,
        route: NessieRoute,
        names: Mapping[str, str],
        scope: Scope,
        body: bytes,
    ) -> None:
        self._access = access
        self._feed = feed
        self._catalog = catalog
        self._route = route
        self._names = names
        self._scope = scope
        self._body = body

    async def check(self) -> None:
        """⚠ Of a request that may be answered as it was before: what it needs is asked for all the same."""
        if self._route.ask_first is not None:
            catalog = self._feed.known_catalog(self._catalog) or await self._read_catalog()
            await self._route.ask_first(self._call(catalog, None))

    async def run(self, under: IdempotentRun | None) -> Response:
        known = self._feed.known_catalog(self._catalog)
        if known is None:
            return await self._handle(await self._read_catalog(), under)
        try:
            return await self._handle(known, under)
        except ReferenceNotFound:
            there = await self._read_catalog()
            if there.id == known.id:
                raise
        return await self._handle(there, under)

    async def _handle(self, catalog: Catalog, under: IdempotentRun | None) -> Response:
        call = self._call(catalog, None if under is None else under.request)
        if self._route.on_loop is not None:
            return await self._route.on_loop(call)
        if self._route.handler is None:
            raise RouteNotFound(f"{self._route.path} has no handler.")
        return await asyncio.to_thread(self._route.handler, call)

    def _call(self, catalog: Catalog, request_id: str | RequestKey | None) -> NessieCall:
        view = CatalogView(self._feed.kernel, catalog)
        return NessieCall(view, self._scope, self._names, self._body, self._access, request_id)

    async def _read_catalog(self) -> Catalog:
        """⚠ That there is no such catalog is told only to those who may see it if there were."""
        try:
            return await asyncio.to_thread(self._feed.read_catalog, self._catalog)
        except CatalogNotFound:
            await self._access.require(caller_of(self._scope), self._route.right, Securable(self._catalog))
            raise
