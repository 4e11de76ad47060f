"""Enforces what a route needs: before its body is read, and again for what the body names."""

from __future__ import annotations

import asyncio

from headwater.persistence.rows import SYSTEM_REALM
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import NotPermitted
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import Request
from headwater.service.gate.route import Needs


async def authorize(request: Request, needs: Needs) -> None:
    """By the path and the query, before anything of the body is read."""
    if request.caller.development:
        return
    access, caller = request.access, request.caller
    if needs.path is not None:
        for right, over in needs.path(request):
            await access.require(caller, right, over)
    if needs.somewhere is not None:
        catalog = needs.somewhere(request)
        if not await access.allows_somewhere_async(caller, needs.right, catalog):
            await access.require(caller, needs.right or Right.CATALOG_READ, Securable(catalog))
            raise NotPermitted("it may not be read.", field="authorization")  # granted in between: the next try finds it


async def authorize_body(request: Request, needs: Needs) -> None:
    """By what the body names. ⚠ Before an answer is looked up that was kept under the request's key."""
    if needs.body is not None and not request.caller.development:
        for right, over in needs.body(request):
            await request.access.require(request.caller, right, over)
    if needs.check is not None:
        await needs.check(request)


async def authorize_anywhere(request: Request, needs: Needs) -> None:
    """⚠ No large body is read for a caller that holds none of these rights anywhere: it may not have what the body names."""
    if request.caller.development or not needs.anywhere:
        return
    if not await asyncio.to_thread(_holds_anywhere, request, needs.anywhere):
        await request.access.require(request.caller, needs.anywhere[0])
        raise NotPermitted("it may not be asked for.", field="authorization")  # granted in between: the next try finds it


def _holds_anywhere(request: Request, rights: tuple[Right, ...]) -> bool:
    access, caller = request.access, request.caller
    if any(access.allows_now(caller, right) for right in rights):
        return True
    if caller.realm == SYSTEM_REALM:
        return False
    named = request.names.get("catalog") or request.names.get("prefix", "").partition("@")[0]
    if named:
        return any(access.allows_somewhere(caller, right, named) for right in rights)
    return any(access.allows_somewhere(caller, right, one.name) for one in Catalogs(request.kernel).list() for right in rights)
