"""The least that a fan-out can cost: an ASGI application that sends the same bytes to everybody in a list."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

FRAME = b'event: changes\nid: x\ndata: {"changes":[{"message":"fan-out","rest":"%b"}]}\n\n' % (b"x" * 1_360)
"""As large as a frame of one small commit."""

_readers: dict[Send, None] = {}


async def app(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["path"] == "/stream":
        await _stream(receive, send)
    else:
        if scope["path"] == "/commit":
            await receive()
            for reader in tuple(_readers):
                await reader({"type": "http.response.body", "body": FRAME, "more_body": True})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"keep-alive")]})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


async def _stream(receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"event: bookmark\ndata: {}\n\n", "more_body": True})
    _readers[send] = None
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        del _readers[send]
