"""The entry point of every feed request: request id, metrics, errors and access log.

The feed's own paths are looked up in a table; the hot ones are answered right here, close to plain ASGI. All other paths go to
a Starlette router, where further APIs are mounted.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import time

from starlette.exceptions import HTTPException
from starlette.routing import Router

from headwater.schemas.errors import HeadwaterError, MethodNotAllowed, NotServing, RouteNotFound
from headwater.service.auth.caller import Caller
from headwater.service.auth.feed_view import Viewer
from headwater.service.errors.languages import language_of
from headwater.service.errors.problems import BEARER, internal_problem, problem_body, problem_headers, problem_of
from headwater.service.feed.commit_route import commit_response
from headwater.service.feed.feed_handlers import Handler
from headwater.service.feed.feed_routes import CHANGES_ROUTE, COMMIT_ROUTE, STREAM_ROUTE, RouteMatch, find_route
from headwater.service.feed.service import Service
from headwater.service.feed.stream import serve_stream
from headwater.service.http.correlation import correlation_id, with_correlation
from headwater.service.http.origins import check_origin
from headwater.service.http.responses import Message, Receive, Response, Scope, Send, header, send_response
from headwater.service.idempotency.keyed_requests import EndpointOptions, answer_once
from headwater.service.observability.logs import ACCESS

FEED_PREFIX = "/feed/v1/"
SLOW_SECONDS = 1.0
"""Requests that take longer leave a line in the log, but for those that wait by wish."""
UNKNOWN_ROUTE = "unknown"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_log = logging.getLogger(__name__)


class FeedEndpoint:
    def __init__(self, service: Service, others: Router) -> None:
        self._service = service
        self._others = others
        config = service.config
        self._options = EndpointOptions(config.idempotency, config.request_bytes_max, config.messages_dir)
        # Made here and not at import: workers are forked, and no two of them may make the same ids.
        self._ids = (b"%b%08x" % (worker, number) for worker in [os.urandom(4).hex().encode()] for number in itertools.count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = _given_request_id(scope) or next(self._ids)
        call = _Call(scope, send, request_id, self._service.config.messages_dir)
        tracing = self._service.tracing
        try:
            if self._service.config.dev:
                check_origin(scope)
            if tracing is None:
                await self._serve(call, receive)
            else:
                with tracing.request(scope, scope["path"], request_id.decode()):
                    await self._serve(call, receive)
        except HeadwaterError as error:
            await call.refuse(error)
        except HTTPException as error:
            await call.refuse(_as_ours(error, scope))
        except Exception:
            _log.exception("a request failed", extra=call.fields(time.perf_counter() - started))
            await call.fail()
        self._count(call, time.perf_counter() - started)

    async def _serve(self, call: _Call, receive: Receive) -> None:
        scope = call.scope
        path: str = scope["path"]
        if not path.startswith(FEED_PREFIX):
            scope["app"] = self  # makes the router raise what it refuses, instead of answering in its own way
            await self._others(scope, receive, call.send_counted)
            route = scope.get("route")
            call.route = getattr(route, "path", UNKNOWN_ROUTE)
            return
        found = find_route(path)
        if found is None:
            raise _no_route(path)
        await self._serve_feed(call, found, receive)

    async def _serve_feed(self, call: _Call, found: RouteMatch, receive: Receive) -> None:
        service, scope = self._service, call.scope
        route = found.by_method.get(scope["method"])
        if route is None:
            raise _no_method(scope["method"], list(found.by_method))
        call.route, call.realm = route.path, found.realm
        caller = await service.access.caller(scope, found.realm)
        if route.path is CHANGES_ROUTE:
            feed = await service.realm(found.realm)
            viewer = Viewer(service.access, caller, feed)
            call.answer(await service.changes.answer(feed, scope["query_string"], header(scope, b"if-none-match"), viewer))
        elif route.path is COMMIT_ROUTE:
            call.answer(await commit_response(service, found.realm, scope, receive))
        elif route.path is STREAM_ROUTE:
            await self._stream(call, found, receive, caller)
            return
        elif route.handler is not None:
            call.answer(await self._handled(route.handler, route.path, found, scope, receive))
        await call.sent()

    async def _handled(self, handler: Handler, route: str, found: RouteMatch, scope: Scope, receive: Receive) -> Response:
        service = self._service
        feed = await service.realm(found.realm)

        async def handle(receive: Receive) -> Response:
            return await handler(service, feed, scope, receive, found.rest)

        return await answer_once(self._options, feed.kernel, scope, receive, route, handle)

    async def _stream(self, call: _Call, found: RouteMatch, receive: Receive, caller: Caller) -> None:
        service = self._service
        if service.stopping.is_set:
            raise NotServing("the server is stopping.", remedy="Come again, with the same cursor.")
        feed = await service.realm(found.realm)
        with service.streams.one_of(caller):
            await serve_stream(
                feed,
                call.scope,
                receive,
                call.send_counted,
                call.request_id,
                limits=service.limits,
                stopping=service.stopping,
                streams=service.streams,
                viewer=Viewer(service.access, caller, feed),
            )

    def _count(self, call: _Call, seconds: float) -> None:
        self._service.metrics.requests.add(call.route, call.scope["method"], call.status, seconds)
        waits = call.route in (CHANGES_ROUTE, STREAM_ROUTE)
        if self._service.config.log_requests or call.status >= 500 or (seconds > SLOW_SECONDS and not waits):
            ACCESS.info("request", extra=call.fields(seconds))


class _Call:
    """One request on its way through."""

    def __init__(self, scope: Scope, send: Send, request_id: bytes, messages_dir: str = "") -> None:
        self.scope = scope
        self.request_id = request_id
        self.status = 0
        self.route = UNKNOWN_ROUTE
        self.realm: str | None = None
        self._send = send
        self._messages_dir = messages_dir
        self._answer: Response | None = None

    def answer(self, answer: Response) -> None:
        self._answer = answer

    async def sent(self) -> None:
        if self._answer is not None:
            self.status = self._answer.status
            headers = with_correlation(self._answer.headers, self.scope)
            answer = self._answer if headers is self._answer.headers else self._answer._replace(headers=headers)
            await send_response(self._send, answer, self.request_id)

    async def send_counted(self, message: Message) -> None:
        """For those who send by themselves: the status is seen, and the request id added."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status == 401 and not any(name == b"www-authenticate" for name, _ in message["headers"]):
                message["headers"] = [*message["headers"], BEARER]
            if not any(name == b"x-request-id" for name, _ in message["headers"]):
                message["headers"] = [*message["headers"], (b"x-request-id", self.request_id)]
            message["headers"] = with_correlation(list(message["headers"]), self.scope)
        await self._send(message)

    async def refuse(self, error: HeadwaterError) -> None:
        if self.status:  # something was sent already: there is no second answer
            return
        language = language_of(self.scope, self._messages_dir)
        problem = problem_of(
            error,
            request_id=self.request_id.decode(),
            realm=self.realm,
            language=language,
            messages_dir=self._messages_dir,
        )
        headers = problem_headers(problem, language)
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", str(error.facts.get("allowed", "")).encode()))
        self._answer = Response(problem.status, headers, problem_body(problem))
        await self.sent()

    async def fail(self) -> None:
        if not self.status:
            problem = internal_problem(self.request_id.decode())
            self._answer = Response(500, problem_headers(problem), problem_body(problem))
            await self.sent()

    def fields(self, seconds: float) -> dict[str, object]:
        return {
            "request_id": self.request_id.decode(),
            "method": self.scope["method"],
            "route": self.route,
            "path": self.scope["path"],
            "status": self.status,
            "seconds": round(seconds, 6),
            "realm": self.realm,
            "correlation_id": (correlation_id(self.scope) or b"").decode() or None,
        }


def _given_request_id(scope: Scope) -> bytes | None:
    """The caller's, if it is one that may be repeated in headers and logs."""
    given = header(scope, b"x-request-id")
    return given if given is not None and _REQUEST_ID.fullmatch(given) else None


def _as_ours(error: HTTPException, scope: Scope) -> HeadwaterError:
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return _no_method(scope["method"], allowed.split(", "))
    return _no_route(scope["path"])


def _no_route(path: str) -> RouteNotFound:
    return RouteNotFound(f"there is nothing at {path[:200]!r}.", remedy="`/openapi.json` lists what there is.")


def _no_method(method: str, allowed: list[str]) -> MethodNotAllowed:
    return MethodNotAllowed(f"{method} is not for this path.", remedy=f"Use {', '.join(allowed)}.", allowed=", ".join(allowed))
