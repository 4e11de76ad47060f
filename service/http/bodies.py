"""Reads request bodies within limits, as bytes or as the struct that a route expects."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec

from headwater.schemas.errors import InvalidInput, RequestTooLarge, RequestTooSlow
from headwater.service.http.responses import Receive, Scope, header

T = TypeVar("T")

DRAINED_FACTOR = 4
"""So many times the limit is read and dropped, for a caller that is still sending hears no answer."""


BODY_SECONDS_MAX = 60.0
"""⚠ Bodies are read of strangers too, who ask for a token: one that never ends must not keep its place for ever."""


async def read_body(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            return await _read(scope, receive, bytes_max)
    except TimeoutError:
        raise RequestTooSlow(
            f"the body did not come within {BODY_SECONDS_MAX:g} s.",
            field="body",
            remedy="Send it again, in one go.",
            seconds_max=BODY_SECONDS_MAX,
        ) from None


async def _read(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidInput("the request ended before its body did.", field="body", remedy="Send it again.")
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size <= bytes_max:
            pieces.append(piece)
        elif size > DRAINED_FACTOR * bytes_max:
            break
        if not message.get("more_body", False):
            break
    if size > bytes_max:
        stated = header(scope, b"content-length")
        raise RequestTooLarge(
            f"the body has {stated.decode('latin-1') if stated else 'more than ' + str(bytes_max)} bytes.",
            field="body",
            remedy=f"Send at most {bytes_max} bytes.",
            bytes_max=bytes_max,
        )
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


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
