"""Subscribe: the reader follows in the same hub as those of the HTTP stream, over a bounded queue of frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from headwater.schemas.errors import CommitRetriesExhausted
from headwater.schemas.http.feed_json import EndReason
from headwater.schemas.rpc import feed_pb2
from headwater.service.auth.feed_view import Viewer
from headwater.service.feed.changes import read_page
from headwater.service.feed.feed_query import FeedQuery, start_positions
from headwater.service.feed.named_branch import with_pointers
from headwater.service.feed.service import Service
from headwater.service.feed.stream import Stream
from headwater.service.feed.stream_connection import ReaderGone, SlowReader, StreamConnection
from headwater.service.grpc.messages.frames import ChangeFrames
from headwater.service.operations.realm_feeds import RealmFeed

QUEUE_BYTES_MAX = 1024 * 1024
"""Bytes of frames that wait for the transport, in addition to what it has in flight itself."""


class ReaderStalled(CommitRetriesExhausted):
    """A reader did not take a frame in time; it comes back with the cursor."""

    code = "SLOW_READER"


class QueueConnection(StreamConnection):
    """Frames wait in a queue that the call drains; a full queue is waited for, as a socket is."""

    def __init__(self, stall_seconds: float) -> None:
        self.taken_cursor: str | None = None
        """Behind the last frame that the transport has taken; None before the first."""
        self._stall_seconds = stall_seconds
        self._frames: deque[tuple[bytes, str | None]] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.is_gone = False
        self._on_gone: Callable[[], None] = lambda: None

    def start(self, frame: Any) -> Awaitable[None] | None:
        self.check()
        for part in frame:
            self._frames.append(part)
            self._bytes += len(part[0])
        self._filled.set()
        if self._bytes <= QUEUE_BYTES_MAX:
            return None
        self._drained.clear()
        return self._wait_until_drained()

    async def _wait_until_drained(self) -> None:
        await self._drained.wait()

    async def finish(self, rest: Awaitable[None]) -> None:
        try:
            await asyncio.wait_for(asyncio.ensure_future(rest), self._stall_seconds)
        except TimeoutError:
            raise SlowReader from None

    def take(self) -> tuple[bytes, str | None] | None:
        """The next message, and the cursor after it if it ends a frame. A half-empty queue counts as drained."""
        if not self._frames:
            self._filled.clear()
            return None
        frame = self._frames.popleft()
        self._bytes -= len(frame[0])
        if self._bytes <= QUEUE_BYTES_MAX // 2:
            self._drained.set()
        return frame

    async def wait_for_frame(self) -> None:
        await self._filled.wait()

    def wake(self) -> None:
        self._filled.set()

    def close(self) -> None:
        self.is_gone = True
        self._on_gone()


async def subscribe(
    service: Service, feed: RealmFeed, query: FeedQuery, viewer: Viewer, frames: ChangeFrames
) -> AsyncIterator[bytes]:
    """Refusals before the first frame are statuses; so are later ones, with the cursor in the error's facts."""
    query = await with_pointers(feed, viewer, query)
    view = await viewer.view(query.pointers)
    positions = await start_positions(feed.pages, query)
    await read_page(feed.pages, positions, query, view=view)  # what cannot continue is refused before anything is sent
    connection = QueueConnection(service.limits.stall_seconds)
    heartbeat_seconds = query.heartbeat_seconds or service.limits.heartbeat_seconds
    made = frames.stream_messages
    stream = Stream(feed, query, positions, service.hubs, viewer, connection, heartbeat_seconds, frame=made)
    started_at = stream.cursor
    service.streams.open.add(stream)
    running = asyncio.ensure_future(stream.run())
    running.add_done_callback(lambda _: connection.wake())
    try:
        while True:
            frame = connection.take()
            if frame is not None:
                yield frame[0]
                connection.taken_cursor = frame[1] or connection.taken_cursor  # ⚠ only now has the transport taken it
            elif running.done():
                break
            else:
                await connection.wait_for_frame()
        yield _ended(running.result(), stream.cursor)
    except SlowReader:
        service.streams.slow_ended += 1
        raise ReaderStalled(
            "the reader did not take a frame in time.",
            field="stream",
            remedy="Subscribe again after the cursor.",
            cursor=connection.taken_cursor or started_at,
        ) from None
    finally:
        service.streams.open.discard(stream)
        connection.close()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, ReaderGone, SlowReader, Exception):
            await running


def _ended(reason: EndReason, cursor: str) -> bytes:
    return feed_pb2.SubscribeResponse(end=feed_pb2.End(reason=reason, cursor=cursor)).SerializeToString()
