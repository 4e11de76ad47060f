"""Declares a route: what it matches, what right it needs, what it may cost, and what it answers.

A route without a right, a budget or an error shape does not start: see route_table.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import force_setattr, replace

from headwater.schemas.errors import HeadwaterError
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import Request
from headwater.service.http.parameters import Parameter
from headwater.service.http.responses import Response

Handler = Callable[[Any], Response] | Callable[[Any], Awaitable[Response | None]]
"""Takes the API's own Request. A coroutine runs on the event loop, anything else on a thread; None if it has sent by itself."""
Over = Callable[[Any], Iterable[tuple[Right, Securable]]]

READING = frozenset({"GET", "HEAD"})
FORM_BYTES_MAX = 64 * 1024
ELEMENTS_MAX = 250_000
"""Elements of a body: JSON is decoded while nothing else runs, and this many elements take less than a tenth of a second."""
BODY_SECONDS_MAX = 60.0
FORM_SECONDS_MAX = 10.0
UPLOADS_OF_CALLER_MAX = 2_048
UPLOADS_OF_ADDRESS_MAX = 64
REQUESTS_OF_CALLER_MAX = 4_096
STREAMS_OF_CALLER_MAX = 2_000


class ErrorShape(Protocol):
    """How an API renders errors."""

    media: str
    schema: dict[str, Any]
    """Schema of the body, as JSON Schema, for the OpenAPI."""

    def error(self, error: HeadwaterError, request: Request) -> Response: ...

    def internal(self, request: Request) -> Response:
        """The response to an internal error: it reveals no internals."""
        ...


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What one request, one caller and one address may cost a worker."""

    name: str
    bytes_max: int | None = 0
    """Maximum size of the body; None for the setting `request_bytes_max`."""
    elements_max: int = ELEMENTS_MAX
    seconds_max: float = BODY_SECONDS_MAX
    """For the body to arrive."""
    requests_of_caller_max: int = REQUESTS_OF_CALLER_MAX
    uploads_max: int = UPLOADS_OF_CALLER_MAX
    """Bodies that have not arrived yet, of one caller; of one address where nobody has proven who calls."""
    is_reserved: bool = False
    """Answered even when every other place of the worker is taken."""


NO_BODY = Budget(name="no-body")
BODY = Budget(name="body", bytes_max=None)
FORM = Budget(name="form", bytes_max=FORM_BYTES_MAX, seconds_max=FORM_SECONDS_MAX, uploads_max=UPLOADS_OF_ADDRESS_MAX)
MESSAGE = Budget(name="message", bytes_max=None)
"""The budget of any gRPC call: its message says which route it needs."""
STREAM = Budget(name="stream", requests_of_caller_max=STREAMS_OF_CALLER_MAX)
HEALTH = Budget(name="health", is_reserved=True)


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The right that a route needs, and over what. ⚠ Asked for before anything is looked up, and before an answer that was kept
    under an Idempotency-Key: a refusal is the same for what is there and what is not."""

    right: Right | None
    """None for any right at all, or where none is needed."""
    where: str
    """What it is over, in words."""
    path: Over | None = None
    """From the path and the query, before the body is read."""
    somewhere: Callable[[Any], str] | None = None
    """The catalog in which it must hold anywhere."""
    body: Over | None = None
    """What the body names, beside what the path does."""
    check: Callable[[Any], Awaitable[None]] | None = None
    """Asks by itself, after the body was read, where the answer depends on more than rights and keys."""
    also: Right | None = None
    """At the second place of a rename, for the docs."""
    anywhere: tuple[Right, ...] = ()
    """One of these must hold somewhere before more than a small body is read, where only the body says over what."""
    is_filtered: bool = False
    """The handler leaves out what may not be seen, or answers as if it were not there."""
    is_public: bool = False
    is_system: bool = False
    """A token of the system realm is needed."""

    @property
    def said(self) -> str:
        """For people."""
        return self.where if self.right is None else f"`{self.right}` over {self.where}"


def public(why: str) -> Needs:
    return Needs(right=None, where=why, is_public=True)


class Route(msgspec.Struct, frozen=True, eq=False):
    """What every route has comes first, in this order; what only some have is named."""

    method: str
    path: str
    summary: str
    handler: Handler | None
    """None for what a specification has and this server refuses."""
    needs: Needs | None
    budget: Budget | None = NO_BODY
    """A route that reads a body without a budget for it does not start."""
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Name and description of what it reads of the request's headers, beside what routes of its kind do."""
    body: type[msgspec.Struct] | None = None
    body_is_optional: bool = False
    form: dict[str, Any] | None = None
    """JSON Schema of an HTML form, instead of a JSON body."""
    answer: type[msgspec.Struct] | None = None
    answer_media: str = "application/json"
    status: int = 200
    also: tuple[int, ...] = ()
    """Further statuses beside those that every route may answer with; those of its API if it names none."""
    is_keyed: bool = True
    """A changing request with an Idempotency-Key runs once, and its answer is kept."""
    kept: Callable[[Response], Response] | None = None
    """What is kept of an answer that shows a secret."""
    is_long: bool = False
    """It waits by wish, so its time says nothing."""
    on_loop: bool = False
    """Found out by itself: the handler is a coroutine."""

    def __post_init__(self) -> None:
        force_setattr(self, "on_loop", inspect.iscoroutinefunction(self.handler))
        force_setattr(self, "is_keyed", self.is_keyed and self.method not in READING)


class Api(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Routes under one prefix, with one error shape."""

    name: str
    prefix: str
    """Prefix of every path; empty for the routes of the root."""
    summary: str
    errors: ErrorShape | None
    routes: tuple[Route, ...]
    alias: str = ""
    """A second prefix of the same routes, with a name in it."""
    alias_of: str = ""
    """The part of the paths that the alias stands for."""
    is_lenient: bool = False
    """Slashes at both ends of the names are passed over, for clients that join addresses carelessly."""
    head_as_get: bool = False
    """HEAD is answered as GET, without the body, on every path that has no HEAD of its own."""
    also: Callable[[Route], tuple[int, ...]] | None = None
    """Further statuses of its routes that name none themselves."""
    rejoin: Callable[[Sequence[str]], list[str]] | None = None
    """Gives segments another try where names may hold slashes."""

    def __post_init__(self) -> None:
        if self.also is not None:
            routes = tuple(route if route.also else replace(route, also=self.also(route)) for route in self.routes)
            force_setattr(self, "routes", routes)
