"""A handler's response: status, headers and body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

from headwater.schemas.errors import InvalidInput

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")

_encode = msgspec.json.Encoder().encode


class Response(NamedTuple):
    status: int
    headers: Headers
    body: bytes


def json_response(value: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, [JSON, NO_STORE, *headers], _encode(value))


def is_repeated(scope: Scope, name: bytes) -> bool:
    """⚠ Then a proxy may have inspected the other copy."""
    return len([key for key, _ in scope["headers"] if key == name]) > 1


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of that name, in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


def one_header(scope: Scope, name: bytes, said: str) -> bytes | None:
    """For a header that orders something: one that comes twice is refused."""
    if is_repeated(scope, name):
        raise InvalidInput("it comes more than once.", field=said, remedy="Send it once.")
    return header(scope, name)
