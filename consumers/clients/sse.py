"""Reads events of the HTTP stream (server-sent events).

The connection is read with a limit on silence: the server's heartbeats keep it alive, however long nothing changes; one that
brings nothing at all is dead. It is taken up again where the last event ended (Last-Event-ID).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

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
from headwater.schemas.errors import FeedUnreachable, InvalidInput
from headwater.schemas.http.feed_json import EndReason, StreamEnd, StreamEvent

HEARTBEAT_SECONDS = 5.0
EVENT_BYTES_MAX = 256 * 1024 * 1024
"""Of one event: a stream that never ends one must not fill the memory."""

_decode_end = msgspec.json.Decoder(StreamEnd).decode


class ServerSentEvent(msgspec.Struct, frozen=True):
    event: str
    data: str
    id: str


class EventParser:
    """Bytes enter as they come; events leave with the empty line that ends them. As the WHATWG standard has it; `retry` is not
    used. ⚠ Lines end with LF, CR or both and with nothing else: texts of commits may hold every other separator of lines."""

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


class HttpStream:
    """The client is the caller's."""

    def __init__(
        self,
        client: httpx.Client,
        target: FeedTarget,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._client = client
        self._request = _Request(target, heartbeat_seconds, silent_seconds)

    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        request, parser = self._request, EventParser()
        try:
            with self._client.stream(
                "GET", request.url, params=request.query(after), headers=request.headers(after), timeout=request.timeout
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise error_of(response.status_code, response.read(), response.headers)
                for chunk in response.iter_bytes():
                    for event in parser.feed(chunk):
                        if (received := request.received(event)) is not None:
                            yield received
        except httpx.TransportError as error:
            raise unreachable(request.server, error) from error
        raise _cut_off(request.server)


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
        self._request = _Request(target, heartbeat_seconds, silent_seconds)

    async def receive(self, after: str, *, follow: bool) -> AsyncIterator[Received]:
        request, parser = self._request, EventParser()
        try:
            async with self._client.stream(
                "GET", request.url, params=request.query(after), headers=request.headers(after), timeout=request.timeout
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise error_of(response.status_code, await response.aread(), response.headers)
                async for chunk in response.aiter_bytes():
                    for event in parser.feed(chunk):
                        if (received := request.received(event)) is not None:
                            yield received
        except httpx.TransportError as error:
            raise unreachable(request.server, error) from error
        raise _cut_off(request.server)


class _Request:
    """What is sent, and what an event means."""

    def __init__(self, target: FeedTarget, heartbeat_seconds: float, silent_seconds: float) -> None:
        self.server = target.server
        self.url = target.url("stream")
        self.timeout = timeout(heartbeat_seconds, silent_seconds)
        self._target = target
        self._heartbeat_seconds = heartbeat_seconds

    def query(self, after: str) -> Query:
        return [*self._target.query(after), ("heartbeat", self._heartbeat_seconds)]

    def headers(self, after: str) -> dict[str, str]:
        """⚠ The standard's way to resume, and it wins over `after`: proxies and browsers that repeat a request know none."""
        headers = self._target.headers | {"accept": "text/event-stream"}
        return headers | ({"last-event-id": after} if is_cursor(after) else {})

    def received(self, event: ServerSentEvent) -> Received | None:
        match event.event:
            case StreamEvent.CHANGES | StreamEvent.BOOKMARK:
                return received_of(event.data, self._target)
            case StreamEvent.END:
                raise self._ended(_decode_end(event.data))
        return None  # what a later version says is skipped

    def _ended(self, end: StreamEnd) -> Exception:
        if end.reason is EndReason.FAILED and end.problem is not None:
            return problem_error(end.problem)
        return FeedUnreachable(f"{self.server} has ended the stream: {end.reason}.", field="server", reason=str(end.reason))


def _cut_off(server: str) -> FeedUnreachable:
    return FeedUnreachable(f"{server} has cut the stream off.", field="server")
