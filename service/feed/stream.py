"""`GET /stream`: server-sent events until the reader leaves, the server stops, or the feed cannot go on.

Every event has the cursor behind it as its id, so a reader comes back where it was with `Last-Event-ID`. The stream pulls from
the log: a slow reader costs one frame of memory, however far it lags. One that does not take a frame in time gets a typed last
event with its cursor.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from headwater.schemas.cursor import Position
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.http.feed_json import EndReason, Problem, StreamEnd, StreamEvent
from headwater.service.auth.caller import Caller
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.rate_limits import too_many
from headwater.service.errors.problems import problem_of
from headwater.service.feed.changes import read_page
from headwater.service.feed.feed_query import FeedQuery, start_positions, stream_query
from headwater.service.feed.page_json import page_cursor, page_json, positions_cursor
from headwater.service.http.responses import Receive, Scope, Send, header
from headwater.service.operations.feed_pages import Page
from headwater.service.operations.feed_wait import NewsWaiter, Stopping
from headwater.service.operations.realm_feeds import RealmFeed

EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY_MILLISECONDS = 1_000
FRAME_BYTES_MAX = 1024 * 1024
"""Smaller than a page: some frames lie in buffers below us before a slow reader is noticed."""
LAST_EVENT_ID_BYTES_MAX = 20_000

_encode = msgspec.json.Encoder().encode


class SlowReader(Exception):
    """A frame was not taken in time."""


class ReaderGone(Exception):
    """The connection was closed by the reader."""


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_seconds: float
    stall_seconds: float
    """How long one frame may wait for its reader."""


STREAMS_OF_ONE_MAX = 2_000
STREAMS_AGAIN_SECONDS = 10.0


class OpenStreams:
    """The streams that are open here, with where each of them stands, for metrics."""

    def __init__(self) -> None:
        self.open: set[Stream] = set()
        self.slow_ended = 0
        self._of_principals: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one_of(self, caller: Caller) -> Iterator[None]:
        """⚠ A stream keeps its place in the worker without end: one principal must not take those of all others."""
        owner = (caller.instance, caller.name)
        if not caller.development and self._of_principals[owner] >= STREAMS_OF_ONE_MAX:
            raise too_many(f"this principal has {STREAMS_OF_ONE_MAX} streams open here.", STREAMS_AGAIN_SECONDS)
        self._of_principals[owner] += 1
        try:
            yield
        finally:
            self._of_principals[owner] -= 1
            if not self._of_principals[owner]:
                del self._of_principals[owner]


class Stream:
    def __init__(
        self, feed: RealmFeed, query: FeedQuery, positions: dict[str, Position], stopping: Stopping, viewer: Viewer
    ) -> None:
        self.feed = feed
        self.query = query
        self.positions = positions
        self._stopping = stopping
        self._viewer = viewer

    @property
    def cursor(self) -> str:
        return positions_cursor(self.positions, self.feed.kernel.realm, self.query.filter)

    async def run(self, line: StreamConnection, heartbeat_seconds: float) -> EndReason:
        """Frames without end: Changes as they come, and a bookmark whenever nothing else was to be said for a while."""
        with NewsWaiter(self.feed.watch, self.positions, self._stopping) as waiter:
            line.when_gone(waiter.interrupt)
            page = await self._next()
            if not page.entries:
                await self._send(line, page)  # a reader learns at once where it stands
                page = await self._next()
            while not self._stopping.is_set:
                line.check()
                if page.entries or page.advanced:
                    await self._send(line, page)
                elif not await waiter.wait(self.positions, heartbeat_seconds) and not self._stopping.is_set:
                    line.check()
                    await self._send(line, page)
                page = await self._next()
        return EndReason.SHUTDOWN

    async def _next(self) -> Page:
        """⚠ What the reader may see is asked for anew with each frame: a stream may be open for days."""
        view = await self._viewer.view(self.positions)
        return await read_page(self.feed.pages, self.positions, self.query, FRAME_BYTES_MAX, view)

    async def _send(self, line: StreamConnection, page: Page) -> None:
        event = StreamEvent.CHANGES if page.entries else StreamEvent.BOOKMARK
        realm, filter = self.feed.kernel.realm, self.query.filter
        try:
            await line.send(event, page_cursor(page, realm, filter), page_json(page, realm, filter))
        except SlowReader:
            self.positions = page.ends  # late, but it is out: the last event goes on behind it
            raise
        self.positions = page.ends


class StreamConnection:
    """The connection to one reader: frames go out one at a time, and its silence is noticed."""

    def __init__(self, receive: Receive, send: Send, stall_seconds: float) -> None:
        self._receive = receive
        self._send = send
        self._stall_seconds = stall_seconds
        self._gone = False
        self._on_gone: Callable[[], None] = _ignore
        self._watching = asyncio.ensure_future(self._watch())

    async def open(self, request_id: bytes) -> None:
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM, (b"x-request-id", request_id)]}
        )
        await self._write(b"retry: %d\n\n" % RETRY_MILLISECONDS)

    async def send(self, event: StreamEvent, cursor: str, data: bytes) -> None:
        """⚠ Returns when the frame is on its way: only then does the reader's position move."""
        await self._write(b"event: %b\nid: %b\ndata: %b\n\n" % (event.encode(), cursor.encode(), data))

    async def end(self, end: StreamEnd) -> None:
        await self.send(StreamEvent.END, end.cursor, _encode(end))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def when_gone(self, notify: Callable[[], None]) -> None:
        self._on_gone = notify

    def check(self) -> None:
        if self._gone:
            raise ReaderGone

    def close(self) -> None:
        self._watching.cancel()

    async def _write(self, data: bytes) -> None:
        self.check()
        sending = asyncio.ensure_future(self._send_body(data))
        done, _ = await asyncio.wait({sending}, timeout=self._stall_seconds)
        if done:
            sending.result()
            return
        # The frame is half out and cannot be taken back: give it the same time again, so that the last one can follow it.
        done, _ = await asyncio.wait({sending}, timeout=self._stall_seconds)
        if not done:
            sending.cancel()
            raise ReaderGone
        raise SlowReader

    async def _send_body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._on_gone()


def _ignore() -> None:
    return


async def serve_stream(
    feed: RealmFeed,
    scope: Scope,
    receive: Receive,
    send: Send,
    request_id: bytes,
    *,
    limits: StreamLimits,
    stopping: Stopping,
    streams: OpenStreams,
    viewer: Viewer,
) -> None:
    """Refusals before the first frame are ordinary problems and raised; later ones are the last event."""
    last_event_id = header(scope, b"last-event-id")
    query = stream_query(scope["query_string"], _text(last_event_id))
    view = await viewer.view(query.pointers)
    positions = await start_positions(feed.pages, query)
    await read_page(feed.pages, positions, query, view=view)  # what cannot go on is refused before anything is sent
    stream = Stream(feed, query, positions, stopping, viewer)
    line = StreamConnection(receive, send, limits.stall_seconds)
    streams.open.add(stream)
    try:
        await line.open(request_id)
        end = await _run(stream, line, query.heartbeat_seconds or limits.heartbeat_seconds, request_id, streams)
        await line.end(end)
    except (ReaderGone, SlowReader):
        return
    finally:
        streams.open.discard(stream)
        line.close()


async def _run(
    stream: Stream, line: StreamConnection, heartbeat_seconds: float, request_id: bytes, streams: OpenStreams
) -> StreamEnd:
    problem: Problem | None = None
    try:
        reason = await stream.run(line, heartbeat_seconds)
    except SlowReader:
        streams.slow_ended += 1
        reason = EndReason.SLOW
    except HeadwaterError as error:
        reason = EndReason.FAILED
        problem = problem_of(error, request_id=request_id.decode("latin-1"), realm=stream.feed.name)
    return StreamEnd(reason=reason, cursor=stream.cursor, problem=problem)


def _text(last_event_id: bytes | None) -> str | None:
    if not last_event_id or len(last_event_id) > LAST_EVENT_ID_BYTES_MAX:
        return None
    return last_event_id.decode("latin-1")
