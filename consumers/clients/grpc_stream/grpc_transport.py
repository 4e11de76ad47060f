"""The transports that httpx clients send through when the server's address is grpc:// or grpcs://."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import httpx
import msgspec

from headwater.consumers.clients.grpc_stream.call_table import exchange
from headwater.consumers.clients.grpc_stream.channel import open_channel
from headwater.consumers.clients.grpc_stream.event_stream import EventStream
from headwater.consumers.clients.grpc_stream.exchange import Answered, Asked, HttpQuestion, question_of
from headwater.consumers.clients.grpc_stream.feed_calls import subscribe
from headwater.consumers.clients.grpc_stream.statuses import problem_of
from headwater.schemas.rpc.services import RpcMethod

STREAM = ("feed", "stream")
MIRRORED = ("authorization", "accept-language", "traceparent", "tracestate", "x-correlation-id", "x-plan-id")
"""Request headers that are passed on as metadata."""

Metadata = list[tuple[str, str]]


class _Call:
    """One request: what is requested, its timeout, and its metadata."""

    def __init__(self, request: httpx.Request, body: bytes) -> None:
        self.question: HttpQuestion = question_of(request, body)
        timeouts = request.extensions.get("timeout", {})
        self.seconds: float | None = timeouts.get("read")
        self.metadata: Metadata = [(name, request.headers[name]) for name in MIRRORED if name in request.headers]
        if self.question.realm:
            self.metadata.append(("x-headwater-realm", self.question.realm))

    @property
    def is_stream(self) -> bool:
        return self.question.method == "GET" and self.question.parts == STREAM


class GrpcTransport(httpx.BaseTransport):
    """Thread-safe, like its channel."""

    def __init__(self, server: str, ca: str = "") -> None:
        self._channel = open_channel(server, ca, for_loop=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        call = _Call(request, request.read())
        if call.is_stream:
            return self._subscribed(call)
        try:
            return _response(self._answer(call))
        except grpc.RpcError as error:
            return _refused(error)

    def close(self) -> None:
        self._channel.close()

    def _answer(self, call: _Call) -> Answered:
        steps = exchange(call.question)
        try:
            one = next(steps)
            while True:
                one = steps.send(self._messages(call, one))
        except StopIteration as done:
            answer: Answered = done.value
            return answer

    def _messages(self, call: _Call, one: Asked) -> list[Any]:
        made = _method(self._channel, one.method)(one.message, metadata=call.metadata, timeout=call.seconds)
        if not one.method.is_stream:
            return [made]
        found = []
        for message in made:
            found.append(message)
            if one.until is not None and one.until(message):
                made.cancel()
                break
        return found

    def _subscribed(self, call: _Call) -> httpx.Response:
        one = subscribe(call.question)
        stream = _method(self._channel, one.method)(one.message, metadata=call.metadata)
        messages = iter(stream)
        try:
            first = next(messages, None)
        except grpc.RpcError as error:
            return _refused(error)
        events = _SyncEvents(stream, messages, first, EventStream(call.question.one("after")))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=events)


class _SyncEvents(httpx.SyncByteStream):
    def __init__(self, stream: Any, messages: Iterator[Any], first: Any, events: EventStream) -> None:
        self._stream = stream
        self._messages = messages
        self._first = first
        self._events = events

    def __iter__(self) -> Iterator[bytes]:
        try:
            if self._first is not None:
                yield from self._events.events(self._first)
            for message in self._messages:
                yield from self._events.events(message)
        except grpc.RpcError as error:
            yield self._events.failed(error)

    def close(self) -> None:
        self._stream.cancel()


class AsyncGrpcTransport(httpx.AsyncBaseTransport):
    """The same for an event loop. The channel is opened on the loop that sends first."""

    def __init__(self, server: str, ca: str = "") -> None:
        self._server = server
        self._ca = ca
        self._opened: Any = None

    @property
    def _channel(self) -> Any:
        if self._opened is None:
            self._opened = open_channel(self._server, self._ca, for_loop=True)
        return self._opened

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = _Call(request, await request.aread())
        if call.is_stream:
            return await self._subscribed(call)
        try:
            return _response(await self._answer(call))
        except grpc.RpcError as error:
            return _refused(error)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _answer(self, call: _Call) -> Answered:
        steps = exchange(call.question)
        try:
            one = next(steps)
            while True:
                one = steps.send(await self._messages(call, one))
        except StopIteration as done:
            answer: Answered = done.value
            return answer

    async def _messages(self, call: _Call, one: Asked) -> list[Any]:
        made = _method(self._channel, one.method)(one.message, metadata=call.metadata, timeout=call.seconds)
        if not one.method.is_stream:
            return [await made]
        found = []
        async for message in made:
            found.append(message)
            if one.until is not None and one.until(message):
                made.cancel()
                break
        return found

    async def _subscribed(self, call: _Call) -> httpx.Response:
        one = subscribe(call.question)
        stream = _method(self._channel, one.method)(one.message, metadata=call.metadata)
        messages = aiter(stream)
        try:
            first = await anext(messages, None)
        except grpc.RpcError as error:
            return _refused(error)
        events = _AsyncEvents(stream, messages, first, EventStream(call.question.one("after")))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=events)


class _AsyncEvents(httpx.AsyncByteStream):
    def __init__(self, stream: Any, messages: AsyncIterator[Any], first: Any, events: EventStream) -> None:
        self._stream = stream
        self._messages = messages
        self._first = first
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._first is not None:
                for event in self._events.events(self._first):
                    yield event
            async for message in self._messages:
                for event in self._events.events(message):
                    yield event
        except grpc.RpcError as error:
            yield self._events.failed(error)

    async def aclose(self) -> None:
        self._stream.cancel()


def _method(channel: Any, method: RpcMethod) -> Any:
    kind = channel.unary_stream if method.is_stream else channel.unary_unary
    return kind(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )


def _response(answer: Answered) -> httpx.Response:
    return httpx.Response(answer.status, content=answer.body, headers=answer.headers)


def _refused(error: grpc.RpcError) -> httpx.Response:
    """Raises a transport error if no server has answered."""
    problem = problem_of(error)
    return httpx.Response(problem.status, content=msgspec.json.encode(problem))
