"""Reads the HTTP stream of a feed (server-sent events).

A connection that is silent for too long is dead: the server sends heartbeats even if nothing changes. The reader reconnects
where the last event ended (Last-Event-ID).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple, TypedDict

import httpx
import msgspec

from headwater.consumers.clients.feed_http import (
    SILENT_SECONDS,
    FeedTarget,
    Query,
    error_of,
    problem_error,
    received_of,
    timeout,
    unreachable,
)
from headwater.consumers.clients.transport import Received
from headwater.schemas.cursor import is_cursor
from headwater.schemas.errors import FeedUnreachable, HeadwaterError, InvalidInput, NotAuthenticated
from headwater.schemas.http.feed_json import EndReason, StreamEnd, StreamEvent

HEARTBEAT_SECONDS = 5.0
EVENT_BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of one event: a stream that never ends an event must not fill the memory."""

_decode_end = msgspec.json.Decoder(StreamEnd).decode


class ServerSentEvent(msgspec.Struct, frozen=True):
    event: str
    data: str
    id: str


class StreamSettings(NamedTuple):
    target: FeedTarget
    heartbeat_seconds: float
    silent_seconds: float


class StreamRequest(TypedDict):
    """The arguments of `stream` of an HTTP client."""

    method: str
    url: str
    params: Query
    headers: dict[str, str]
    timeout: httpx.Timeout


class EventParser:
    """Parses events as the WHATWG standard defines them; `retry` is ignored. ⚠ Only LF, CR and CRLF end a line: commit messages
    may contain any other line separator."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._event = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            event = self._add(line.decode())
            if event is not None:
                yield event
        if self._size + len(self._rest) > EVENT_BYTES_MAX:
            raise InvalidInput(f"an event exceeds {EVENT_BYTES_MAX} bytes.", field="server")

    def _add(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._ended()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
                self._size += len(value)
            case "id" if "\0" not in value:
                self._id = value
        return None

    def _ended(self) -> ServerSentEvent | None:
        event = ServerSentEvent(self._event or "message", "\n".join(self._data), self._id) if self._data else None
        self._event, self._data, self._size = "", [], 0
        return event


class StreamExchange:
    """One request and what its bytes mean, without I/O: the sync and the async client only carry the bytes."""

    def __init__(self, settings: StreamSettings, after: str) -> None:
        self._settings = settings
        self._target = settings.target
        self._after = after
        self._parser = EventParser()

    def request(self) -> StreamRequest:
        """⚠ Last-Event-ID is the standard's way to resume, and takes precedence over `after`: proxies and browsers that repeat
        a request do not know `after`."""
        headers = self._target.headers | {"accept": "text/event-stream"}
        return {
            "method": "GET",
            "url": self._target.url("stream"),
            "params": [*self._target.query(self._after), ("heartbeat", self._settings.heartbeat_seconds)],
            "headers": headers | ({"last-event-id": self._after} if is_cursor(self._after) else {}),
            "timeout": timeout(self._settings.heartbeat_seconds, self._settings.silent_seconds),
        }

    def feed(self, chunk: bytes) -> Iterator[Received]:
        """Raises the error with which the server ends the stream. Events of a later version are skipped."""
        for event in self._parser.feed(chunk):
            match event.event:
                case StreamEvent.CHANGES | StreamEvent.BOOKMARK:
                    yield received_of(event.data, self._target)
                case StreamEvent.END:
                    raise self._ended(_decode_end(event.data))

    def failed(self, error: httpx.TransportError) -> HeadwaterError:
        return unreachable(self._target.server, error)

    def cut_off(self) -> FeedUnreachable:
        return FeedUnreachable(f"{self._target.server} has cut the stream off.", field="server")

    def _ended(self, end: StreamEnd) -> Exception:
        if end.reason is EndReason.FAILED and end.problem is not None:
            error = problem_error(end.problem)
            if not isinstance(error, NotAuthenticated):
                return error
            # The token has expired since the stream began. The next request brings a new one, or is refused for good.
            return FeedUnreachable(f"{self._target.server} has ended the stream: {error}", field="server", reason=error.code)
        message = f"{self._target.server} has ended the stream: {end.reason}."
        return FeedUnreachable(message, field="server", reason=str(end.reason))


class HttpStream:
    """Does not close the client that it is given."""

    def __init__(
        self,
        client: httpx.Client,
        target: FeedTarget,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._client = client
        self._settings = StreamSettings(target, heartbeat_seconds, silent_seconds)

    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        exchange = StreamExchange(self._settings, after)
        try:
            with self._client.stream(**exchange.request()) as response:
                if response.status_code != httpx.codes.OK:
                    raise error_of(response.status_code, response.read(), response.headers)
                for chunk in response.iter_bytes():
                    yield from exchange.feed(chunk)
        except httpx.TransportError as error:
            raise exchange.failed(error) from error
        raise exchange.cut_off()


class AsyncHttpStream:
    """The same for an event loop."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        target: FeedTarget,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._client = client
        self._settings = StreamSettings(target, heartbeat_seconds, silent_seconds)

    async def receive(self, after: str, *, follow: bool) -> AsyncIterator[Received]:
        exchange = StreamExchange(self._settings, after)
        try:
            async with self._client.stream(**exchange.request()) as response:
                if response.status_code != httpx.codes.OK:
                    raise error_of(response.status_code, await response.aread(), response.headers)
                async for chunk in response.aiter_bytes():
                    for received in exchange.feed(chunk):
                        yield received
        except httpx.TransportError as error:
            raise exchange.failed(error) from error
        raise exchange.cut_off()
