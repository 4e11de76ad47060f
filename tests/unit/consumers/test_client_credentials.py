"""Requests with a client's id and secret: the token is fetched first, and streams begin before they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx

from headwater.consumers.clients.client_credentials import ClientCredentials
from headwater.consumers.clients.connection import trust

SERVER = "http://lake.test"
STREAM = f"{SERVER}/feed/v1/default/stream"


class _Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Nobody may ask for more than the first event before it was given out."""

    def __init__(self) -> None:
        self.given = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.given < 2:
            self.given += 1
            yield b"event\n\n"
        raise AssertionError("the stream was read to its end")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def _answer(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/oauth/tokens"):
        return httpx.Response(200, json={"access_token": "t-1", "expires_in": 60})
    assert request.headers["authorization"] == "Bearer t-1"
    return httpx.Response(200, stream=_Endless())


def test_a_stream_begins_before_it_ends() -> None:
    auth = ClientCredentials(SERVER, "id", "secret")
    with httpx.Client(auth=auth, transport=httpx.MockTransport(_answer)) as client, client.stream("GET", STREAM) as response:
        assert next(response.iter_bytes()) == b"event\n\n"


def test_a_stream_on_an_event_loop_begins_before_it_ends() -> None:
    auth = ClientCredentials(SERVER, "id", "secret")

    async def read() -> bytes:
        client = httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(_answer))
        async with client, client.stream("GET", STREAM) as response:
            return await anext(response.aiter_bytes())

    assert asyncio.run(read()) == b"event\n\n"


def test_connections_without_certificates_of_their_own_load_the_systems_once() -> None:
    assert trust("") is trust("")
