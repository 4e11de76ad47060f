"""Polls or long-polls pages of the HTTP feed: the transport that every network lets through.

Polling without changes costs the server next to nothing: each request names the response that is known (ETag), and is answered
with 304.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Generic, TypeVar

import httpx
import msgspec

from headwater.consumers.clients.feed_http import PAGE_CHANGES, FeedTarget, Query, error_of, received_of, timeout, unreachable
from headwater.consumers.clients.transport import Received
from headwater.schemas.cursor import is_cursor
from headwater.schemas.errors import ChainBroken
from headwater.schemas.frame import Frame

WAIT_SECONDS = 20.0
"""How long the server holds a request when it has nothing new."""
C = TypeVar("C", httpx.Client, httpx.AsyncClient)


class _PollRequest:
    """One series of requests: what to send next, and what a response means."""

    def __init__(self, target: FeedTarget, after: str, *, limit: int, wait_seconds: float) -> None:
        self.after = after
        self._target = target
        self._limit = limit
        self._wait_seconds = wait_seconds
        self._etag = ""
        self._heads: dict[str, int] = {}

    @property
    def url(self) -> str:
        return self._target.url("changes")

    @property
    def query(self) -> Query:
        """⚠ Waits only with a token. `latest` is answered at once: if that response came after a wait and were lost, the next
        request would begin at a later `latest`."""
        query = [*self._target.query(self.after), ("limit", self._limit)]
        return [*query, ("wait", self._wait_seconds)] if self._wait_seconds and is_cursor(self.after) else query

    @property
    def headers(self) -> dict[str, str]:
        return self._target.headers | ({"if-none-match": self._etag} if self._etag else {})

    @property
    def timeout(self) -> httpx.Timeout:
        return timeout(self._wait_seconds)

    def answer(self, response: httpx.Response) -> Received:
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return Received(cursor=self.after, heads=self._heads)
        if response.status_code != httpx.codes.OK:
            raise error_of(response.status_code, response.content, response.headers)
        received = received_of(response.content, self._target)
        is_same_question = received.cursor == self.after
        self._etag = response.headers.get("etag", "") if is_same_question else ""
        self.after, self._heads = received.cursor, received.heads
        return received


class _Poll(Generic[C]):
    """What to request. The client is the caller's: pools, proxies and certificates are set there."""

    def __init__(self, client: C, target: FeedTarget, *, limit: int = PAGE_CHANGES, wait_seconds: float = WAIT_SECONDS) -> None:
        self._client: C = client
        self._target = target
        self._limit = limit
        self._wait_seconds = wait_seconds

    def _news(self, after: str, follow: bool) -> _PollRequest:
        return _PollRequest(self._target, after, limit=self._limit, wait_seconds=self._wait_seconds if follow else 0.0)

    def _log_of(self, pointer: str, from_seq: int) -> _PollRequest:
        return _PollRequest(_of_pointer(self._target, pointer), str(from_seq), limit=self._limit, wait_seconds=0.0)


class HttpPoll(_Poll[httpx.Client]):
    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        asking = self._news(after, follow)
        while True:
            yield (received := self._ask(asking))
            if not follow and not _advances(received):
                return

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        """The log's side: fills gaps."""
        asking = self._log_of(pointer, from_seq)
        while from_seq < to_seq:
            frame = _repairing(self._ask(asking), from_seq)
            yield frame
            from_seq = frame.to_seq

    def _ask(self, asking: _PollRequest) -> Received:
        try:
            response = self._client.get(asking.url, params=asking.query, headers=asking.headers, timeout=asking.timeout)
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        return asking.answer(response)


class AsyncHttpPoll(_Poll[httpx.AsyncClient]):
    """The same for an event loop."""

    async def receive(self, after: str, *, follow: bool) -> AsyncIterator[Received]:
        asking = self._news(after, follow)
        while True:
            yield (received := await self._ask(asking))
            if not follow and not _advances(received):
                return

    async def frames(self, pointer: str, from_seq: int, to_seq: int) -> AsyncIterator[Frame]:
        asking = self._log_of(pointer, from_seq)
        while from_seq < to_seq:
            frame = _repairing(await self._ask(asking), from_seq)
            yield frame
            from_seq = frame.to_seq

    async def _ask(self, asking: _PollRequest) -> Received:
        try:
            response = await self._client.get(asking.url, params=asking.query, headers=asking.headers, timeout=asking.timeout)
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        return asking.answer(response)


def _of_pointer(target: FeedTarget, pointer: str) -> FeedTarget:
    return msgspec.structs.replace(target, pointers=(pointer,))


def _advances(received: Received) -> bool:
    return any(frame.to_seq > frame.from_seq for frame in received.frames)


def _repairing(received: Received, from_seq: int) -> Frame:
    """⚠ A log that has nothing after what was announced must not be asked forever."""
    for frame in received.frames:
        if frame.from_seq <= from_seq < frame.to_seq:
            return frame
    raise ChainBroken(f"the log has nothing after entry {from_seq}, but later entries were announced.", seq=from_seq + 1)
