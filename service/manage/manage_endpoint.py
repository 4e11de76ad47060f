"""The entry point of requests under `/manage/v1`: checks the right, and runs each once under its key."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from starlette.routing import BaseRoute, Mount

from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import (
    CommitConflict,
    HeadwaterError,
    InvalidInput,
    MethodNotAllowed,
    RecordChanged,
    RouteNotFound,
)
from headwater.service.feed.service import Service
from headwater.service.http.bodies import read_body
from headwater.service.http.parameters import parse_query
from headwater.service.http.preconditions import expected_version, precondition_failed
from headwater.service.http.raw_paths import segments_below
from headwater.service.http.responses import Receive, Response, Scope, Send
from headwater.service.idempotency.keyed_requests import EndpointOptions, answer_once
from headwater.service.manage.call import ManageCall
from headwater.service.manage.principals import without_secret
from headwater.service.manage.route import IN_REALM, PREFIX, ManageRoute, Over, securable_of
from headwater.service.manage.routes import RouteMatch, find_route

IN_SYSTEM = tuple(f"{IN_REALM}/{word}" for word in ("principals", "principal-roles", "denials", "usage"))

VERSION_FIELDS = ("version", "expected_head")
"""What an operation calls an ETag that cannot be any version of its record."""


class MetricsRoute(NamedTuple):
    """Under which name the request is counted."""

    path: str


class ManageEndpoint:
    def __init__(self, service: Service) -> None:
        self._service = service
        config = service.config
        self._options = EndpointOptions(config.idempotency, config.request_bytes_max, config.messages_dir)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is refused goes on to the door in front, which tells it as problem+json."""
        scope["route"] = MetricsRoute(f"{PREFIX}/unknown")
        segments = segments_below(scope, PREFIX, slashes_at_ends=False)
        found = find_route(segments)
        if found is None:
            raise RouteNotFound(f"there is nothing at {scope['path'][:200]!r}.", remedy="`/openapi.json` lists what there is.")
        route = found.by_method.get(scope["method"])
        if route is None:
            allowed = ", ".join(found.by_method)
            raise MethodNotAllowed(f"{scope['method']} is not for this path.", remedy=f"Use {allowed}.", allowed=allowed)
        _check_realm(route, found)
        scope["route"] = MetricsRoute(route.path)
        await _send(send, await self._answer(route, found, scope, receive))

    async def _answer(self, route: ManageRoute, found: RouteMatch, scope: Scope, receive: Receive) -> Response:
        access = self._service.access
        realm = SYSTEM_REALM if route.over is Over.SYSTEM else found.names["realm"]
        caller = await access.caller(scope, realm)
        query = parse_query(scope["query_string"], route.parameters)
        over = securable_of(route, found.names, query)
        if over is not None:
            await access.require(caller, route.right, over)
        kernel = await self._kernel(realm)

        async def handle(receive: Receive) -> Response:
            body = await read_body(scope, receive, self._service.config.request_bytes_max)
            call = ManageCall(kernel, access, caller, scope, found.names, query, body, self._service.config.storage_roots)
            try:
                return await asyncio.to_thread(route.handler, call)
            except (RecordChanged, CommitConflict, InvalidInput) as changed:
                raise _as_precondition(scope, changed) from changed

        kept = without_secret if route.has_secret else None
        return await answer_once(self._options, kernel, scope, receive, route.path, handle, kept=kept)

    async def _kernel(self, realm: str) -> RealmKernel:
        if realm == SYSTEM_REALM:
            return self._service.feeds.store.system
        return (await self._service.realm(realm)).kernel


def manage_routes(service: Service) -> list[BaseRoute]:
    return [Mount(PREFIX, app=ManageEndpoint(service))]


def _check_realm(route: ManageRoute, found: RouteMatch) -> None:
    """The system realm has principals and roles, but neither catalogs nor policies."""
    is_of_system = found.names.get("realm") == SYSTEM_REALM and route.over is not Over.SYSTEM
    if is_of_system and not route.path.startswith(IN_SYSTEM):
        raise RouteNotFound("the system realm has principals, roles and denials alone.", remedy="Name another realm.")


def _as_precondition(scope: Scope, changed: HeadwaterError) -> HeadwaterError:
    """Whoever said If-Match is told that it does not; the others that somebody was faster."""
    if expected_version(scope) is None:
        return changed
    if isinstance(changed, InvalidInput) and changed.field not in VERSION_FIELDS:
        return changed
    conflicts = changed.facts.get("conflicts")
    if isinstance(conflicts, list) and not all(isinstance(one, dict) and one["kind"] == "UNEXPECTED_HASH" for one in conflicts):
        return changed
    return precondition_failed(changed.message)


async def _send(send: Send, answer: Response) -> None:
    headers = list(answer.headers)
    if answer.status != 204:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
