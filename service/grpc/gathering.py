"""Streams of a client's: the first message says what all of them are about, and one answer follows the last.

Nothing of a stream is seen before its end. Its key is claimed then, with a fingerprint of all its messages, so a stream that is
sent again is answered as before, and another one under the same key is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import Message

from headwater.schemas.errors import Conflict, InvalidInput, RequestTooLarge
from headwater.service.grpc.rpc import RpcCall

STREAM_SECONDS = 240
STREAM_BYTES_MAX = 1024 * 1024 * 1024


async def each_part(
    call: RpcCall, key: str | None, later: AsyncIterator[Message], fields: tuple[str, ...], digest: Any
) -> AsyncIterator[Any]:
    """The messages of one stream, each checked against the first. ⚠ A stream has one target and at most one key."""
    first, size = call.message, 0
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            part: Any = first
            while part is not None:
                if part is not first:
                    _require_same(first, part, key, fields)
                raw = _rows_alone(part, fields).SerializeToString(deterministic=True)
                size += len(raw)
                if size > STREAM_BYTES_MAX:
                    raise RequestTooLarge(
                        f"the stream has more than {STREAM_BYTES_MAX} bytes.", field="stream", remedy="Send it in several."
                    )
                digest.update(raw)
                yield part
                part = await anext(later, None)
    except TimeoutError:
        raise Conflict(
            f"the stream took longer than {STREAM_SECONDS} seconds; nothing was published.",
            field="stream",
            remedy="Send it in several parts.",
        ) from None


def new_digest(message: Any, fields: tuple[str, ...]) -> Any:
    """Begun with what the stream is about. Rows are hashed after it, regardless of how they are divided into messages."""
    digest = hashlib.sha256()
    for name in fields:
        value = getattr(message, name)
        digest.update(value.SerializeToString(deterministic=True) if isinstance(value, Message) else str(value).encode())
        digest.update(b"\0")
    return digest


def _require_same(first: Any, part: Any, key: str | None, fields: tuple[str, ...]) -> None:
    if part.idempotency.key and part.idempotency.key != (key or ""):
        raise InvalidInput("the stream has two keys.", field="idempotency.key", remedy="Send one key, with the first message.")
    for name in fields:
        value = getattr(part, name)
        is_said = part.HasField(name) if isinstance(value, Message) else bool(value)
        if is_said and value != getattr(first, name):
            raise InvalidInput(
                "it is not that of the first message of the stream.", field=name, remedy="Send one stream for each."
            )


def _rows_alone(part: Any, fields: tuple[str, ...]) -> Any:
    """⚠ Serialized messages of one repeated field are the same bytes, however they are parted."""
    rows = type(part)()
    rows.CopyFrom(part)
    for name in (*fields, "idempotency"):
        rows.ClearField(name)
    return rows
