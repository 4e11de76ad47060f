"""The endpoint of every request: match, authenticate, authorize, read the body, run once under its key, answer.

What each step needs is declared on the route (route.py). Errors leave in the shape of their API.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import time
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import CommitConflict, HeadwaterError, InvalidInput, MethodNotAllowed, RouteNotFound, Unsupported
from headwater.service.auth.caller import Caller
from headwater.service.auth.tokens.token_endpoint import peer_of
from headwater.service.gate.answers import SMALL_ANSWER_BYTES
from headwater.service.gate.bodies import SMALL_BODY_BYTES, BodyReader, drain
from headwater.service.gate.budgets import Budgets
from headwater.service.gate.request import Request
from headwater.service.gate.rights import authorize, authorize_anywhere, authorize_body
from headwater.service.gate.route import READING, Api, Budget, ErrorShape, Needs, Route
from headwater.service.gate.route_table import RouteMatch, RouteTable
from headwater.service.gate.starts import CROWD, Starts
from headwater.service.http.correlation import correlation_id
from headwater.service.http.hang_up import hang_up
from headwater.service.http.origins import check_origin
from headwater.service.http.parameters import refuse_repeated
from headwater.service.http.preconditions import as_precondition
from headwater.service.http.responses import Receive, Response, Scope, Send, header
from headwater.service.idempotency.request_key import keyed_request
from headwater.service.idempotency.run_once import IdempotentRun, once
from headwater.service.observability.audit import AuditedCall, write_audit
from headwater.service.observability.logs import ACCESS

if TYPE_CHECKING:
    from headwater.service.feed.service import Service

SLOW_SECONDS = 1.0
"""Requests that take longer leave a line in the log, but for those that wait by wish."""
NOTHING = (b"", b"null")
"""Bodies that are as good as none."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_log = logging.getLogger(__name__)


async def open_realm(service: Service, request: Request, caller: Caller) -> None:
    """The caller's realm, for the handler."""
    if caller.realm == SYSTEM_REALM and request.serves_system:
        feeds = service.feeds
        request.kernel = feeds.store.system
        if request.serves_system_feed:
            known = feeds.known_system
            request.feed = known if known is not None else await asyncio.to_thread(feeds.system)
    else:
        request.feed = await service.realm(caller.realm)
        request.kernel = request.feed.kernel


class Gate:
    """One per worker."""

    def __init__(self, service: Service, table: RouteTable, requests: Mapping[str, type[Request]]) -> None:
        """`requests` has the Request type of each API that has one of its own."""
        self._service = service
        self._table = table
        self._types = {api.name: requests.get(api.name, Request) for api in table.apis}
        self._audited = service.config.audited
        self._methods = {route.method for _, route in table.routes} | {"HEAD", "OPTIONS"}
        self.budgets = Budgets(service.config.request_bytes_max)
        self._starts = Starts()
        # Made here and not at import: workers are forked, and no two of them may make the same ids.
        self._ids = (b"%b%08x" % (worker, number) for worker in [os.urandom(4).hex().encode()] for number in itertools.count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        id = _given_request_id(scope) or next(self._ids)
        request: Request | None = None
        api = self._table.api(scope)
        errors = _errors(api)
        try:
            if self._service.config.dev:
                check_origin(scope)
            match = self._table.find(scope)
            route = match.by_method.get(scope["method"]) or _other_route(match, scope)
            request = self._types[api.name](self._service, scope, receive, send, id, route, match.names)
            if self.budgets.requests >= CROWD and not _is_reserved(route) and not self._starts.may_start():
                await self._starts.wait()
            tracing = self._service.tracing
            if tracing is None:
                response = await self._serve(request, route, errors)
            else:
                with tracing.request(scope, scope["path"], request.id.decode()):
                    response = await self._serve(request, route, errors)
        except HeadwaterError as error:
            request = request or Request(self._service, scope, receive, send, id)
            response = self._refused(error, request, errors)
        except RecursionError:  # what is read or written of a request is so before its commit
            request = request or Request(self._service, scope, receive, send, id)
            response = errors.error(InvalidInput("the request is nested too deeply.", field="body"), request)
        except Exception:
            request = request or Request(self._service, scope, receive, send, id)
            _log.exception("a request failed", extra=_fields(request, api, time.perf_counter() - started))
            response = errors.internal(request)
        except BaseException:  # given up by the server below: what it began may have landed
            self._audit(request or Request(self._service, scope, receive, send, id), api, time.perf_counter() - started)
            raise
        try:
            if response is not None and not request.status:  # else something was sent already: there is no second answer
                if len(response.body) <= SMALL_ANSWER_BYTES or scope["method"] == "HEAD":
                    await request.respond(response)
                else:
                    await self._respond_large(request, response, errors)
        finally:  # also of a client that went away
            seconds = time.perf_counter() - started
            self._count(request, api, seconds)
            if self._audited:
                self._audit(request, api, seconds)

    async def _respond_large(self, request: Request, response: Response, errors: ErrorShape) -> None:
        """Counts it until it is sent."""
        caller: Caller | None = request.__dict__.get("caller")
        owner = peer_of(request.scope) if caller is None else caller.identity
        size = len(response.body)
        try:
            self.budgets.take_answer(owner, size, is_done=request.scope["method"] not in READING)
        except HeadwaterError as error:
            await request.respond(self._refused(error, request, errors))
            return
        try:
            is_taken = await request.respond(response)
        finally:
            self.budgets.give_answer_back(owner, size)
        if not is_taken:
            self.budgets.given_up += 1
            await asyncio.to_thread(hang_up, request.scope)
            _log.warning("an answer was not read", extra={"request_id": request.id.decode(), "route": request.route_path})

    async def _serve(self, request: Request, route: Route, errors: ErrorShape) -> Response | None:
        needs, budget = route.needs, route.budget
        if needs is None or budget is None:
            raise LookupError("the table has let a route pass without a right or a budget")
        caller: Caller | None = None
        if not needs.is_public:
            realm = SYSTEM_REALM if needs.is_system else request.names.get("realm")
            caller = request.caller = await self._service.access.caller(request.scope, realm)
        if request.refuses_unknown_parameters:
            _ = request.query
        elif b"&" in request.scope["query_string"]:
            refuse_repeated(request.scope["query_string"], route.parameters)
        place = self.budgets.enter(budget, caller)
        try:
            if route.handler is None:
                raise Unsupported(f"{route.method} {route.path} is not supported.", remedy="`/openapi.json` lists what is.")
            if caller is not None:
                if needs.path is not None or needs.somewhere is not None:
                    await authorize(request, needs)
                feed = self._service.feeds.known(caller.realm)
                if feed is None:
                    await open_realm(self._service, request, caller)
                else:
                    request.feed, request.kernel = feed, feed.kernel
            if budget.bytes_max == 0:
                if route.method not in READING:
                    await drain(request.scope, request.receive)
                if not route.is_keyed and needs.body is None and needs.check is None:
                    # The hot reads: nothing is left to ask.
                    return await (_handled(request) if 412 in route.also else request.handle())
                return await self._authorized(request, route, needs, errors)
            owner = peer_of(request.scope) if caller is None else caller.identity
            return await self._with_body(request, route, needs, budget, owner, errors)
        finally:
            self.budgets.leave(place)

    async def _with_body(
        self, request: Request, route: Route, needs: Needs, budget: Budget, owner: Hashable, errors: ErrorShape
    ) -> Response | None:
        bytes_max = self._service.config.request_bytes_max if budget.bytes_max is None else budget.bytes_max
        reader = BodyReader(self.budgets, budget, owner, bytes_max)
        try:
            request.body = await reader.read(
                request.scope, request.receive, (lambda: authorize_anywhere(request, needs)) if needs.anywhere else None
            )
            if route.body is not None and not (route.body_is_optional and request.body.strip() in NOTHING):
                if len(request.body) <= SMALL_BODY_BYTES:
                    request.read(route.body)
                else:
                    await asyncio.to_thread(request.read, route.body)
            return await self._authorized(request, route, needs, errors)
        finally:
            reader.close()

    async def _authorized(self, request: Request, route: Route, needs: Needs, errors: ErrorShape) -> Response | None:
        if needs.body is not None or needs.check is not None:
            await authorize_body(request, needs)
        if not route.is_keyed or header(request.scope, b"idempotency-key") is None:
            return await _handled(request)
        return await self._once(request, route, errors)

    async def _once(self, request: Request, route: Route, errors: ErrorShape) -> Response:
        caller, scope = request.caller, request.scope
        if len(request.body) <= SMALL_BODY_BYTES:
            asked = keyed_request(scope, request.body, caller.owner_id, request.key_route)
        else:
            asked = await asyncio.to_thread(keyed_request, scope, request.body, caller.owner_id, request.key_route)

        async def run(under: IdempotentRun | None) -> Response:
            request.run = under
            response = await _handled(request)
            if response is None:
                raise LookupError("a keyed route sends by itself")
            return response

        return await once(
            IdempotencyRows(request.kernel),
            asked,
            run,
            refused=lambda error: errors.error(error, request),
            options=self._service.config.idempotency,
            development=caller.development,
            kept=route.kept,
        )

    def _refused(self, error: HeadwaterError, request: Request, errors: ErrorShape) -> Response:
        if isinstance(error, CommitConflict) and request.realm is not None:
            self._service.commits.conflict(request.realm)
        response = errors.error(error, request)
        if response.status >= 500:
            _log.warning("%s %s failed: %s", request.scope["method"], request.route_path, error)
        return response

    def _count(self, request: Request, api: Api, seconds: float) -> None:
        route = request.route
        path = f"{api.prefix}/unknown".lstrip("/") if route is None else route.path
        method = request.scope["method"]  # ⚠ callers invent methods, and what is counted stays in memory
        self._service.metrics.requests.add(path, method if method in self._methods else "other", request.status, seconds)
        is_slow = seconds > SLOW_SECONDS and (route is None or not route.is_long)
        if self._service.config.log_requests or request.status >= 500 or is_slow:
            ACCESS.info("request", extra=_fields(request, api, seconds))

    def _audit(self, request: Request, api: Api, seconds: float) -> None:
        if api.name not in self._audited:
            return
        caller: Caller | None = request.__dict__.get("caller")
        write_audit(
            AuditedCall(
                service=api.name,
                method=request.scope["method"],
                route=request.route_path,
                names=request.names,
                status=request.status,
                seconds=seconds,
                request_id=request.id.decode(),
                correlation_id=(correlation_id(request.scope) or request.id).decode(),
                peer=peer_of(request.scope),
                principal=None if caller is None else caller.name,
                realm=request.realm,
            )
        )


async def _handled(request: Request) -> Response | None:
    try:
        return await request.handle()
    except HeadwaterError as error:
        if request.route is None or 412 not in request.route.also:
            raise
        refused = as_precondition(request.scope, error)
        if refused is error:
            raise
        raise refused from error


def _other_route(match: RouteMatch, scope: Scope) -> Route:
    """The route for a method that is not in the table: HEAD is served as GET without a body; any other has none."""
    if not match.by_method:
        raise RouteNotFound(f"there is nothing at {scope['path'][:200]!r}.", remedy="`/openapi.json` lists what there is.")
    if scope["method"] == "HEAD" and match.api.head_as_get and "GET" in match.by_method:
        return match.by_method["GET"]
    allowed = ", ".join(match.by_method)
    raise MethodNotAllowed(f"{scope['method']} is not for this path.", remedy=f"Use {allowed}.", allowed=allowed)


def _is_reserved(route: Route) -> bool:
    return route.budget is not None and route.budget.is_reserved


def _errors(api: Api) -> ErrorShape:
    if api.errors is None:
        raise LookupError("the table has let an API pass without an error shape")
    return api.errors


def _given_request_id(scope: Scope) -> bytes | None:
    """The caller's, if it is one that may be repeated in headers and logs."""
    given = header(scope, b"x-request-id")
    return given if given is not None and _REQUEST_ID.fullmatch(given) else None


def _fields(request: Request, api: Api, seconds: float) -> dict[str, object]:
    return {
        "request_id": request.id.decode(),
        "method": request.scope["method"],
        "route": request.route_path,
        "path": request.scope["path"],
        "status": request.status,
        "seconds": round(seconds, 6),
        "realm": request.realm,
        "correlation_id": (correlation_id(request.scope) or b"").decode() or None,
    }
