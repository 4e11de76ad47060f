"""The entry point of requests under `/iceberg`; errors have the specification's shape."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import NamedTuple

from starlette.routing import BaseRoute, Mount

from headwater.schemas.errors import (
    CommitConflict,
    HeadwaterError,
    MalformedMetadata,
    MethodNotAllowed,
    RouteNotFound,
)
from headwater.service.auth.caller import caller_of
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.tokens.token_endpoint import FORM_BYTES_MAX, dev_token
from headwater.service.feed.service import Service
from headwater.service.http.bodies import read_body
from headwater.service.http.raw_paths import segments_below
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Message, Receive, Response, Scope, Send
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.error_shape import error_response, internal_error
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.rights import PUBLIC, require_route
from headwater.service.iceberg.routes import IcebergRoute, find_route, refused
from headwater.service.idempotency.keyed_requests import EndpointOptions, answer_once

PREFIX = "/iceberg"
_log = logging.getLogger(__name__)


class MetricsRoute(NamedTuple):
    """Under which name the request is counted."""

    path: str


class IcebergEndpoint:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._lakes = Lakes(service.config.storage, keys_kept_seconds=service.config.idempotency.kept_seconds)
        config = service.config
        self._options = EndpointOptions(config.idempotency, config.request_bytes_max, config.messages_dir)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = MetricsRoute(f"{PREFIX}/unknown")
        try:
            answer = await self._answer(scope, receive)
        except HeadwaterError as error:
            if isinstance(error, CommitConflict):
                self._service.commits.conflict(caller_of(scope).realm)
            if error.http_status >= 500:
                _log.warning("an iceberg request failed: %s", error)
            answer = error_response(error)
        except RecursionError:  # whatever is read or written of a request is so before its commit
            answer = error_response(MalformedMetadata("the request is nested too deeply.", field="body"))
        except Exception:
            _log.exception("an iceberg request failed", extra={"path": scope["path"]})
            answer = internal_error()
        await _send(send, answer, with_body=scope["method"] != "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        segments = segments_below(scope, PREFIX, slashes_at_ends=True)
        found = find_route(segments)
        if found is None:
            raise RouteNotFound(f"There is nothing at {scope['path'][:200]!r}.", remedy="See /iceberg/v1/config.")
        route = found.by_method.get(scope["method"])
        if route is None:
            raise MethodNotAllowed(f"{scope['method']} is not for this path.", remedy=f"Use {', '.join(found.by_method)}.")
        scope["route"] = MetricsRoute(PREFIX + route.path)
        if route.handler is None:
            raise refused(route)
        if (route.method, route.path) in PUBLIC:
            return await self._token(scope, await read_body(scope, receive, FORM_BYTES_MAX))
        caller = await self._service.access.caller(scope, None)
        body = await read_body(scope, receive, self._service.config.request_bytes_max)
        feed = await self._service.realm(caller.realm)
        call = IcebergCall(feed, self._lakes, scope, found.names, body, Viewer(self._service.access, caller, feed))
        await require_route(self._service.access, caller, route.method, route.path, call)

        async def handle(_: Receive) -> Response:
            if inspect.iscoroutinefunction(route.handler):
                answer: Response = await route.handler(call)
                return answer
            return await asyncio.to_thread(_handle, route, call)

        if not route.changes:
            return await handle(receive)
        again = _received(body)
        return await answer_once(self._options, feed.kernel, scope, again, PREFIX + route.path, handle, refused=error_response)

    async def _token(self, scope: Scope, body: bytes) -> Response:
        """Of the realm that a header names, or the default one: the path has none."""
        endpoint = self._service.access.tokens
        if endpoint is None:
            return dev_token(body)
        return await endpoint.answer(scope, body, named_realm(scope) or self._service.config.default_realm)


def iceberg_routes(service: Service) -> list[BaseRoute]:
    return [Mount(PREFIX, app=IcebergEndpoint(service))]


def _handle(route: IcebergRoute, call: IcebergCall) -> Response:
    if route.handler is None:
        raise refused(route)
    answer = route.handler(call)
    if not isinstance(answer, Response):
        raise TypeError(f"{route.path} is for the event loop")
    return answer


def _received(body: bytes) -> Receive:
    """The body once more, for the one who compares requests of one key."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _send(send: Send, answer: Response, *, with_body: bool) -> None:
    headers = list(answer.headers)
    if answer.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})
