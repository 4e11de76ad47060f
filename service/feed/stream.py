"""`GET /stream`: server-sent events until the reader leaves, the server stops, or the feed cannot continue.

Every event has the cursor after it as its id, so a reader resumes with `Last-Event-ID`. Readers who have
caught up follow in a hub, which hands the same bytes to all of them; one who lags pulls from the log by itself. So a slow
reader costs one frame of memory, however far it lags. One that does not take a frame in time gets a typed last event with its
cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from headwater.schemas.cursor import Position
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.filters import Filter
from headwater.schemas.http.feed_json import EndReason, Problem, StreamEnd, StreamEvent
from headwater.service.auth.feed_view import Viewer
from headwater.service.errors.problems import problem_of
from headwater.service.feed.changes import read_page
from headwater.service.feed.feed_query import FeedQuery, start_positions, stream_query
from headwater.service.feed.named_branch import with_pointers
from headwater.service.feed.page_json import page_cursor, page_json, positions_cursor
from headwater.service.feed.stream_connection import ReaderGone, SlowReader, StreamConnection, event_message
from headwater.service.http.responses import Message, Receive, Scope, Send, one_header
from headwater.service.operations.feed_hub import FRAME_BYTES_MAX, Hubs
from headwater.service.operations.feed_pages import Page
from headwater.service.operations.followers import FoundViews, KnownView, SharedPage
from headwater.service.operations.realm_feeds import RealmFeed
from headwater.service.operations.timer_wheel import Timer

LAST_EVENT_ID_BYTES_MAX = 20_000


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_seconds: float
    stall_seconds: float
    """How long one frame may wait for its reader."""


class OpenStreams:
    """The streams that are open here, with where each of them stands, for metrics."""

    def __init__(self) -> None:
        self.open: set[Stream] = set()
        self.slow_ended = 0


class Stream:
    """One reader. It follows in a hub, which hands it frames, and reads by itself while it lags or the hub cannot serve it."""

    def __init__(
        self,
        feed: RealmFeed,
        query: FeedQuery,
        positions: dict[str, Position],
        hubs: Hubs,
        viewer: Viewer,
        connection: StreamConnection,
        heartbeat_seconds: float,
        *,
        frame: Callable[[Page, str, Filter], Any] | None = None,
    ) -> None:
        """`frame` makes what the connection sends of a page; server-sent events, if left out."""
        self._frame = stream_frame if frame is None else frame
        self.feed = feed
        self.query = query
        self.positions = positions
        self._pointers = tuple(positions)
        self._hubs = hubs
        self._viewer = viewer
        self._connection = connection
        self._heartbeat_seconds = heartbeat_seconds
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._unfinished: tuple[Awaitable[None], dict[str, Position]] | None = None
        """A frame that the connection has not taken yet, and where it ends."""
        self._released: asyncio.Future[None] | None = None
        connection.when_gone(self.released)

    @property
    def cursor(self) -> str:
        return positions_cursor(self.positions, self.feed.kernel.realm, self.query.filter)

    async def run(self) -> EndReason:
        """Frames without end: Changes as they come, and a bookmark whenever nothing else was to be said for a while."""
        page = await self._next()
        if not page.entries:
            await self._send(page)  # a reader learns at once where it stands
            page = await self._next()
        while not self._hubs.is_stopping:
            self._connection.check()
            if page.entries or page.advanced or self.is_due(self._loop.time()):
                await self._send(page)
            else:
                await self._follow()
            page = await self._next()
        return EndReason.SHUTDOWN

    async def _next(self) -> Page:
        """⚠ What the reader may see is asked for again with each frame: a stream may be open for days."""
        view = await self._viewer.view(self.positions)
        return await read_page(self.feed.pages, self.positions, self.query, FRAME_BYTES_MAX, view)

    async def _send(self, page: Page) -> None:
        rest = self._connection.start(self._frame(page, self.feed.kernel.realm, self.query.filter))
        await self._finish(rest, page.ends)

    async def _finish(self, rest: Awaitable[None] | None, ends: dict[str, Position]) -> None:
        """⚠ Only when the frame is on its way does the reader's position move."""
        try:
            if rest is not None:
                await self._connection.finish(rest)
        except SlowReader:
            self.positions = ends  # late, but it is out: the last event continues after it
            raise
        self.positions = ends
        self._sent_at = self._loop.time()

    # ── in a hub ────────────────────────────────────────────────────────────────────────────────────────────

    async def _follow(self) -> None:
        """Until the hub, the reader's going or the end of the server releases it."""
        hub = self._hubs.of(self.feed, self._pointers, self.query.filter)
        released = self._released = self._loop.create_future()
        beat: Timer

        def check_heartbeat() -> None:
            nonlocal beat
            quiet_seconds = self._loop.time() - self._sent_at
            if quiet_seconds >= self._heartbeat_seconds:
                hub.serve(self)
                quiet_seconds = 0.0
            beat = self._hubs.wheel.after(self._heartbeat_seconds - quiet_seconds, check_heartbeat)

        hub.join(self)
        beat = self._hubs.wheel.after(self._sent_at + self._heartbeat_seconds - self._loop.time(), check_heartbeat)
        try:
            await released
        finally:
            beat.cancel()
            hub.leave(self)
        if self._unfinished is not None:
            unfinished, self._unfinished = self._unfinished, None
            await self._finish(*unfinished)

    def known_view(self, found: FoundViews) -> KnownView:
        return self._viewer.known_view(self._pointers, found)

    def is_due(self, now: float) -> bool:
        return now - self._sent_at >= self._heartbeat_seconds

    def take(self, shared: SharedPage, now: float) -> bool:
        if self._connection.is_gone:
            return False
        rest = self._connection.start(shared.encoded(self._frame, self.feed.kernel.realm, self.query.filter))
        if rest is not None:
            self._unfinished = rest, shared.ends
            return False
        self.positions = shared.ends
        self._sent_at = now
        return True

    def released(self) -> None:
        if self._released is not None and not self._released.done():
            self._released.set_result(None)


def stream_frame(page: Page, realm: str, filter: Filter) -> Message:
    event = StreamEvent.CHANGES if page.entries else StreamEvent.BOOKMARK
    return event_message(event, page_cursor(page, realm, filter), page_json(page, realm, filter))


async def serve_stream(
    feed: RealmFeed,
    scope: Scope,
    receive: Receive,
    send: Send,
    request_id: bytes,
    *,
    send_frame: Send | None = None,
    limits: StreamLimits,
    hubs: Hubs,
    streams: OpenStreams,
    viewer: Viewer,
) -> None:
    """Refusals before the first frame are ordinary problems and raised; later ones are the last event."""
    last_event_id = one_header(scope, b"last-event-id", "Last-Event-ID")
    query = await with_pointers(feed, viewer, stream_query(scope["query_string"], _text(last_event_id)))
    view = await viewer.view(query.pointers)
    positions = await start_positions(feed.pages, query)
    await read_page(feed.pages, positions, query, view=view)  # what cannot continue is refused before anything is sent
    connection = StreamConnection(receive, send, limits.stall_seconds, hubs.wheel, send_frame)
    heartbeat_seconds = query.heartbeat_seconds or limits.heartbeat_seconds
    stream = Stream(feed, query, positions, hubs, viewer, connection, heartbeat_seconds)
    streams.open.add(stream)
    try:
        await connection.open(request_id)
        await connection.end(await _run(stream, request_id, streams))
    except (ReaderGone, SlowReader):
        return
    finally:
        streams.open.discard(stream)
        connection.close()


async def _run(stream: Stream, request_id: bytes, streams: OpenStreams) -> StreamEnd:
    problem: Problem | None = None
    try:
        reason = await stream.run()
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
