"""A stream that the server ends because its token has expired is opened again with a new one, or ends for good."""

from __future__ import annotations

import asyncio
import json

import httpx
import msgspec
import pytest

from headwater.consumers.clients.client_credentials import ClientCredentials
from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.clients.reader import AsyncReader, Reader
from headwater.consumers.clients.sse import AsyncHttpStream, HttpStream
from headwater.schemas.change import Change
from headwater.schemas.cursor import Cursor, Position, encode_cursor
from headwater.schemas.errors import NotAuthenticated
from headwater.schemas.http.feed_json import EndReason, FeedPage, Problem, Range, StreamEnd
from tests.support.models.feed_histories import POINTER, history

SERVER = "http://lake.test"
LOG = tuple(history(2))
EXPIRED = Problem(
    type="urn:expired", title="Expired", status=401, detail="the token has expired.", code="NOT_AUTHENTICATED", retriable=False
)
STREAMS_MAX = 3


class ExpiringTokens:
    """Every token serves one stream, which ends when it expires; the stream with the last one brings the Changes first."""

    def __init__(self) -> None:
        self.tokens = 0
        self.streams: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/oauth/tokens"):
            self.tokens += 1
            return httpx.Response(200, json={"access_token": f"t-{self.tokens}", "expires_in": 0})
        token = request.headers["authorization"]
        if token in self.streams:
            return httpx.Response(401, content=msgspec.json.encode(EXPIRED))
        self.streams.append(token)
        page = _event("changes", _page()) if len(self.streams) == STREAMS_MAX else ""
        end = StreamEnd(reason=EndReason.FAILED, cursor="", problem=EXPIRED)
        return httpx.Response(200, text=page + _event("end", end))


def _event(name: str, data: FeedPage | StreamEnd) -> str:
    return f"event: {name}\ndata: {json.dumps(msgspec.to_builtins(data))}\n\n"


def _page() -> FeedPage:
    newest = LOG[-1]
    cursor = encode_cursor(Cursor("r#1", {POINTER: Position(newest.seq, bytes.fromhex(newest.entry_id))}))
    return FeedPage(changes=LOG, cursor=cursor, range=Range(from_=0, to=newest.seq))


def _target(token: str = "") -> FeedTarget:
    return FeedTarget(server=SERVER, pointers=(POINTER,), token=token)


def test_a_follower_opens_its_stream_again_with_a_new_token() -> None:
    server = ExpiringTokens()
    with httpx.Client(auth=ClientCredentials(SERVER, "id", "secret"), transport=httpx.MockTransport(server)) as client:
        changes = Reader(HttpStream(client, _target()), sleep=lambda _: None).changes()
        assert (next(changes), next(changes)) == LOG
    assert server.streams == ["Bearer t-1", "Bearer t-2", "Bearer t-3"]


def test_a_follower_on_an_event_loop_does_the_same() -> None:
    server = ExpiringTokens()

    async def sleep(_: float) -> None:
        return

    async def follow() -> list[Change]:
        auth = ClientCredentials(SERVER, "id", "secret")
        async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(server)) as client:
            changes = AsyncReader(AsyncHttpStream(client, _target()), sleep=sleep).changes()
            return [await anext(changes), await anext(changes)]

    assert tuple(asyncio.run(follow())) == LOG
    assert len(server.streams) == STREAMS_MAX


def test_a_token_that_nobody_renews_ends_the_follower() -> None:
    server = ExpiringTokens()
    with httpx.Client(transport=httpx.MockTransport(server)) as client:
        changes = Reader(HttpStream(client, _target("static")), sleep=lambda _: None).changes()
        with pytest.raises(NotAuthenticated, match="expired"):
            next(changes)
    assert server.streams == ["Bearer static"]
