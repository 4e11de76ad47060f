"""One row of the method table: the route whose right it needs and whose handler it calls, and how messages are translated.

A call becomes the Request of its HTTP sibling, so rights, idempotency, preconditions and handlers are the same code. What is
new with gRPC has a route of its own, which is in no HTTP table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from google.protobuf.message import DecodeError, Message

from headwater.schemas.errors import InvalidInput, RequestTooLarge
from headwater.service.auth.caller import Caller
from headwater.service.feed.feed_routes import FEED_API
from headwater.service.gate.request import LEVELS, Request
from headwater.service.gate.route import ELEMENTS_MAX, Route
from headwater.service.grpc.call_context import IDEMPOTENCY_KEY, CallContext
from headwater.service.http.responses import Response, Scope
from headwater.service.iceberg.routes import ICEBERG
from headwater.service.idempotency.run_once import IdempotentRun
from headwater.service.manage.routes import MANAGE

if TYPE_CHECKING:
    from headwater.service.feed.service import Service
    from headwater.service.grpc.runtime import Runtime


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What a message comes to: a route, the names in its path, its query, its body and the version that it expects."""

    route: Route
    names: Mapping[str, str] = {}
    query: Mapping[str, str | Sequence[str]] = {}
    body: msgspec.Struct | None = None
    version: str | None = None


class RpcCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a row's functions get: the context, the caller and the message."""

    runtime: Runtime
    context: CallContext
    caller: Caller
    message: Any


Bind = Callable[[RpcCall], Bound] | Callable[[RpcCall], Awaitable[Bound]]
Reply = Callable[[RpcCall, Any, Response], Message]
"""From the call, the Request and the handler's response."""
Answer = Callable[[RpcCall, Any], Awaitable[Message]]
Serve = Callable[[RpcCall, Any], AsyncIterator[bytes]]


class Gathered(msgspec.Struct, frozen=True):
    """What a client's stream came to: a fingerprint of all its messages, and what answers it, called with the Request."""

    fingerprint: bytes
    publish: Callable[[Any], Message]


Gather = Callable[[RpcCall, Any, str | None, AsyncIterator[Message]], Awaitable[Gathered]]
"""From the call of the first message: the Request, the key, and the messages after the first."""

Public = Callable[["Service", CallContext, Any], Awaitable[Message]]


class Rpc(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    routes: tuple[Route, ...]
    """The rights that it may need: those of the route that a message is bound to. ⚠ Checked before anything is looked up."""
    bind: Bind
    reply: Reply | None = None
    """Makes a message of the response of the route's handler."""
    answer: Answer | None = None
    """In place of the handler and `reply`: calls the operation itself."""
    serve: Serve | None = None
    """Set for a method that answers with a stream."""
    gather: Gather | None = None
    """Set for a method that takes a stream."""
    public: Public | None = None
    """Set for a method that needs no token; its route must be public too."""
    is_keyed: bool = False
    is_system: bool = False
    without_secret: Callable[[Any], None] | None = None
    """Takes the secret out of an answer before it is kept under its key."""


def sibling(method: str, path: str) -> Route:
    """The HTTP route that a method shares its right and handler with."""
    for api in (FEED_API, MANAGE, ICEBERG):
        for route in api.routes:
            if route.method == method and route.path == path:
                return route
    raise LookupError(f"there is no route {method} {path}")


def make_request(call: RpcCall, bound: Bound, key: str | None) -> Request:
    """The Request of the sibling route, with its path, query and body as the message says them."""
    context, route = call.context, bound.route
    headers = [one for one in context.scope["headers"] if one[0] != IDEMPOTENCY_KEY]
    if key is not None:
        headers.append((IDEMPOTENCY_KEY, key.encode("utf-8", "replace")))
    if bound.version is not None:
        headers.append((b"if-match", b'"%b"' % bound.version.encode("utf-8", "replace")))
    query = urlencode(bound.query, doseq=True).encode()
    scope: Scope = {**context.scope, "method": route.method, "query_string": query, "headers": headers}
    names = {"realm": call.caller.realm, **bound.names}
    made: Request = call.runtime.request_type(route)(
        call.runtime.service, scope, _nothing, _nowhere, context.request_id.encode(), route, names
    )
    made.caller = call.caller
    if bound.body is not None:
        made.body = msgspec.json.encode(bound.body)
        made.decoded_as(bound.body)
    return made


def check_message_elements(message: Message) -> None:
    """⚠ Of a large message, before anything is made of its elements: a few bytes each, they may be millions. Those of JSON in
    its texts were counted when it came."""
    waiting, count = [message], 0
    while waiting:
        one = waiting.pop()
        for field, value in one.ListFields():
            many = value if field.is_repeated else (value,)
            count += len(many)
            if count > ELEMENTS_MAX:
                raise RequestTooLarge(
                    f"the message has more than {ELEMENTS_MAX} elements.",
                    field="message",
                    remedy=f"Send at most {ELEMENTS_MAX}, in several calls.",
                    elements_max=ELEMENTS_MAX,
                )
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            waiting.extend(many)


def parsed(kind: type[Any], raw: bytes, field: str) -> Any:
    try:
        return kind.FromString(raw)
    except (DecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(
            f"the bytes are no {kind.DESCRIPTOR.name}: {str(error)[:100]}.", field=field, remedy="Use the published protos."
        ) from None


def with_run(request: Request, run: IdempotentRun | None) -> Request:
    request.run = run
    return request


def joined(levels: Sequence[str], field: str) -> str:
    """Levels as one part of a path; none may be empty or hold the separator."""
    if not levels or not all(levels):
        raise InvalidInput("it is empty, or one of its levels is.", field=field, remedy="Name every level.")
    if any(LEVELS in level for level in levels):
        raise InvalidInput("a level holds the control character 1F.", field=field, remedy="Leave it out.")
    return LEVELS.join(levels)


async def _nothing() -> Any:
    return {"type": "http.disconnect"}


async def _nowhere(message: Any) -> None:
    raise LookupError("a handler that sends by itself was called over gRPC")
