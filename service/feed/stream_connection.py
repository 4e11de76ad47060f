"""The connection of one stream: events go out one at a time, and a reader that does not take them, or goes, is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from headwater.schemas.http.feed_json import StreamEnd, StreamEvent
from headwater.service.http.responses import Message, Receive, Send
from headwater.service.http.started import started
from headwater.service.operations.timer_wheel import TimerWheel

EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY_MILLISECONDS = 1_000

_encode = msgspec.json.Encoder().encode


class SlowReader(Exception):
    """A frame was not taken in time."""


class ReaderGone(Exception):
    """The connection was closed by the reader."""


def event_message(event: StreamEvent, cursor: str, data: bytes) -> Message:
    body = b"event: %b\nid: %b\ndata: %b\n\n" % (event.encode(), cursor.encode(), data)
    return {"type": "http.response.body", "body": body, "more_body": True}


class StreamConnection:
    """The connection to one reader: frames go out one at a time, and its silence is noticed."""

    def __init__(
        self, receive: Receive, send: Send, stall_seconds: float, wheel: TimerWheel, send_frame: Send | None = None
    ) -> None:
        """`send_frame` is for frames alone: each costs what it costs, for every reader."""
        self._receive = receive
        self._send = send
        self._send_frame = send if send_frame is None else send_frame
        self._stall_seconds = stall_seconds
        self._wheel = wheel
        self.is_gone = False
        self._on_gone: Callable[[], None] = _ignore
        self._watching = asyncio.ensure_future(self._watch())

    async def open(self, request_id: bytes) -> None:
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM, (b"x-request-id", request_id)]}
        )
        await self._send({"type": "http.response.body", "body": b"retry: %d\n\n" % RETRY_MILLISECONDS, "more_body": True})

    def start(self, frame: Message) -> Awaitable[None] | None:
        """Sends a frame; None if the buffers below have taken it, else what is left to wait for."""
        self.check()
        return started(self._send_frame(frame))

    async def finish(self, rest: Awaitable[None]) -> None:
        sending = asyncio.ensure_future(rest)
        if await self._wheel.wait(sending, self._stall_seconds):
            sending.result()
            return
        # The frame is half out and cannot be taken back: give it the same time again, so that the last one can follow it.
        if not await self._wheel.wait(sending, self._stall_seconds):
            sending.cancel()
            raise ReaderGone
        raise SlowReader

    async def end(self, end: StreamEnd) -> None:
        rest = self.start(event_message(StreamEvent.END, end.cursor, _encode(end)))
        if rest is not None:
            await self.finish(rest)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def when_gone(self, notify: Callable[[], None]) -> None:
        self._on_gone = notify

    def check(self) -> None:
        if self.is_gone:
            raise ReaderGone

    def close(self) -> None:
        self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self._on_gone()


def _ignore() -> None:
    return
