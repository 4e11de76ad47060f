"""One request behind the gate: what it matched, who calls, and its body, read and decoded once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.auth.obligation_guard import ObligationGuard
from headwater.service.gate.answers import SMALL_ANSWER_BYTES, send_in_pieces
from headwater.service.http.correlation import with_correlation
from headwater.service.http.parameters import parse_query
from headwater.service.http.preconditions import expected_version
from headwater.service.http.responses import Message, Receive, Response, Scope, Send, header
from headwater.service.idempotency.run_once import IdempotentRun
from headwater.service.operations.realm_feeds import RealmFeed

if TYPE_CHECKING:
    from headwater.service.feed.service import Service
    from headwater.service.gate.route import Route

LEVELS = "\x1f"
"""Separates the levels of a key in paths and queries."""
BEARER = (b"www-authenticate", b'Bearer realm="headwater"')
UNKNOWN_ROUTE = "unknown"

T = TypeVar("T", bound=msgspec.Struct)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class Request:
    """APIs extend it with what their handlers ask for."""

    caller: Caller
    """Set by the gate, unless the route is public."""
    feed: RealmFeed
    """The caller's realm; of `::system::` only for what serves its feed."""
    kernel: RealmKernel
    refuses_unknown_parameters = True
    serves_system = False
    """Whether the API has anything for `::system::`, which has no catalogs."""
    serves_system_feed = False
    """Whether it reads the log of `::system::`."""

    def __init__(
        self,
        service: Service,
        scope: Scope,
        receive: Receive,
        send: Send,
        id: bytes,
        route: Route | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.service = service
        self.scope = scope
        self.receive = receive
        self._send = send
        self.id = id
        self.route = route
        self.names: Mapping[str, str] = names if names is not None else {}
        self.body = b""
        self.run: IdempotentRun | None = None
        """What a keyed request runs under."""
        self.status = 0
        """That was sent; 0 before."""
        self._decoded: Any = None

    @property
    def access(self) -> Access:
        return self.service.access

    @property
    def guard(self) -> ObligationGuard:
        """What the caller must enforce to be given files and values of tables."""
        return ObligationGuard(self.service.obligations, self.kernel, self.access, self.caller)

    @property
    def key_route(self) -> str:
        """What the keys of its route are kept under."""
        return self.route_path

    @property
    def realm(self) -> str | None:
        """Realm of the caller, once known; else the one in the path."""
        caller: Caller | None = self.__dict__.get("caller")
        return self.names.get("realm") if caller is None else caller.realm

    @property
    def route_path(self) -> str:
        """Under which it is counted."""
        return UNKNOWN_ROUTE if self.route is None else self.route.path

    @cached_property
    def query(self) -> Mapping[str, Any]:
        """The route's parameters, checked; others are refused."""
        return parse_query(self.scope["query_string"], () if self.route is None else self.route.parameters)

    @property
    def version(self) -> str | None:
        """What If-Match expects."""
        return expected_version(self.scope)

    def header(self, name: bytes) -> str:
        return (header(self.scope, name) or b"").decode("latin-1")

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a key that the path or the query names."""
        text = self.names[name] if name in self.names else self.query.get(name)
        if not text:
            return ()
        levels = tuple(str(text).split(LEVELS))
        if not all(levels):
            raise InvalidInput("a level is empty.", field=name, remedy="Part levels by %1F, and leave none empty.")
        return levels

    def read(self, type: type[T]) -> T:
        """The body as the struct that the route declares. The gate has decoded it already."""
        if not isinstance(self._decoded, type):
            self._decoded = decode_body(self.body, _decoder(type))
        return cast(T, self._decoded)

    def decoded_as(self, body: msgspec.Struct) -> None:
        """For requests whose body came in another form than JSON."""
        self._decoded = body

    async def handle(self) -> Response | None:
        """Runs the handler; APIs that look something up first override it."""
        route = self.route
        if route is None or route.handler is None:
            raise LookupError("the route has no handler")
        if route.on_loop:
            return await cast(Callable[[Request], Awaitable[Response | None]], route.handler)(self)
        return await asyncio.to_thread(cast(Callable[[Request], Response], route.handler), self)

    @property
    def send_frame(self) -> Send:
        """For what follows the start of an answer: it goes to the server below as it is."""
        return self._send

    async def send(self, message: Message) -> None:
        """For those who send by themselves: the status is seen, and the request id added."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = with_correlation([*message["headers"], (b"x-request-id", self.id)], self.scope)
        await self._send(message)

    async def respond(self, response: Response) -> bool:
        """Whether its reader has taken it."""
        self.status = response.status
        headers = [*response.headers, (b"x-request-id", self.id)]
        if response.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(response.body)))
        await self._send(
            {"type": "http.response.start", "status": response.status, "headers": with_correlation(headers, self.scope)}
        )
        body = b"" if self.scope["method"] == "HEAD" else response.body
        if len(body) > SMALL_ANSWER_BYTES:
            return await send_in_pieces(self._send, body, self.service.config.stall_seconds)
        await self._send({"type": "http.response.body", "body": body})
        return True


def _decoder(type: type[T]) -> msgspec.json.Decoder[T]:
    found = _decoders.get(type)
    if found is None:
        found = _decoders[type] = msgspec.json.Decoder(type)
    return found


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The fault names the path in the body, as `$.operations[0]`."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        raise InvalidInput(
            f"{what}.", field=where.rstrip("`") or "body", remedy="`/openapi.json` describes the body."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}.", field="body", remedy="Send a JSON object.") from None
