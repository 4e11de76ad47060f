"""The entry point of requests under `/api`; errors have the shape that Nessie's clients read.

`/api/v2/…` is the default catalog, `/api/catalogs/{catalog}/v2/…` any other one.
"""

from __future__ import annotations

import logging
import zlib
from typing import NamedTuple

from starlette.routing import BaseRoute, Match, Mount

from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.schemas.errors import (
    CommitConflict,
    HeadwaterError,
    InvalidInput,
    MethodNotAllowed,
    RequestTooLarge,
    RouteNotFound,
)
from headwater.service.auth.caller import CALLER_IN_SCOPE, Caller
from headwater.service.auth.rights.rights import Securable
from headwater.service.dev_realm import DEV_REALM
from headwater.service.feed.service import Service
from headwater.service.http.bodies import read_body
from headwater.service.http.raw_paths import segments_below
from headwater.service.http.responses import Receive, Response, Scope, Send, header
from headwater.service.idempotency.request_key import keyed_request
from headwater.service.idempotency.run_once import once_async
from headwater.service.nessie.error_shape import error_response, internal_error
from headwater.service.nessie.request_runner import RequestRunner
from headwater.service.nessie.routes import NessieRoute, RouteMatch, find_route

PREFIX = "/api"
VERSION = "v2"
_log = logging.getLogger(__name__)


class MetricsRoute(NamedTuple):
    """Under which name the request is counted."""

    path: str


UNKNOWN = MetricsRoute(f"{PREFIX}/unknown")


class NessieEndpoint:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = UNKNOWN
        try:
            answer = await self._answer(scope, receive)
        except HeadwaterError as error:
            if isinstance(error, CommitConflict):
                caller: Caller | None = scope.get(CALLER_IN_SCOPE)
                self._service.commits.conflict(DEV_REALM if caller is None else caller.realm)
            if error.http_status >= 500:
                _log.warning("a nessie request failed: %s", error)
            answer = error_response(error, scope)
        except Exception:
            _log.exception("a nessie request failed", extra={"path": scope["path"]})
            answer = internal_error()
        await _send(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        service = self._service
        named, found, route = _routed(scope)
        catalog = service.config.nessie_catalog if named is None else named
        caller = await service.access.caller(scope, None)
        if not route.by_key:
            await service.access.require(caller, route.right, Securable(catalog))
        body = await _body(scope, receive, service.config.request_bytes_max)
        feed = await service.realm(caller.realm)

        asked = RequestRunner(service.access, feed, catalog, route, found.names, scope, body)
        if not route.mutates or header(scope, b"idempotency-key") is None:
            return await asked.run(None)
        await asked.check()
        return await once_async(
            IdempotencyRows(feed.kernel),
            keyed_request(scope, body, caller.owner_id, route.path),
            asked.run,
            refused=lambda error: error_response(error, scope),
            options=service.config.idempotency,
            development=caller.development,
        )


class PrefixMount(Mount):
    """Everything below a path, whatever characters the rest of it has: keys may hold line breaks, which a pattern stops at."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            return Match.FULL, {}
        return Match.NONE, {}


def nessie_routes(service: Service) -> list[BaseRoute]:
    return [PrefixMount(PREFIX, app=NessieEndpoint(service))]


def _routed(scope: Scope) -> tuple[str | None, RouteMatch, NessieRoute]:
    """The catalog that the path names, if it does."""
    segments, catalog = segments_below(scope, PREFIX, slashes_at_ends=True), None
    if segments[:1] == ["catalogs"] and len(segments) > 2:
        catalog, segments = segments[1], segments[2:]
    found = find_route(segments[1:]) if segments[:1] == [VERSION] else None
    if found is None:
        raise RouteNotFound(f"there is nothing at {scope['path'][:200]!r}.", remedy="See docs/nessie.md.")
    route = found.by_method.get(scope["method"])
    if route is None:
        allowed = ", ".join(found.by_method)
        raise MethodNotAllowed(f"{scope['method']} is not for this path.", remedy=f"Use {allowed}.", allowed=allowed)
    scope["route"] = MetricsRoute(f"{PREFIX}/{VERSION}{route.path}")
    return catalog, found, route


async def _body(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    """Nessie's own client packs every body. ⚠ What a few packed bytes unfold to is bounded like a plain body."""
    body = await read_body(scope, receive, bytes_max)
    encoding = header(scope, b"content-encoding")
    if encoding is None or encoding.lower() == b"identity" or not body:
        return body
    if encoding.lower() != b"gzip":
        raise InvalidInput(
            f"{encoding[:40].decode('latin-1')!r} is not read here.", field="Content-Encoding", remedy="Use gzip."
        )
    unpacking = zlib.decompressobj(wbits=31)
    try:
        plain = unpacking.decompress(body, bytes_max)
    except zlib.error as error:
        raise InvalidInput(f"the body is not gzip: {error}.", field="body", remedy="Send it as it is.") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise RequestTooLarge(
            f"the body decompresses to more than {bytes_max} bytes, or is cut.",
            field="body",
            remedy=f"Send at most {bytes_max} bytes.",
            bytes_max=bytes_max,
        )
    return plain


async def _send(send: Send, answer: Response) -> None:
    headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
