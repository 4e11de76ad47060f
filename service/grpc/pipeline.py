"""Runs one call through the stages in their fixed order: context, locale, metering, tracing, access, idempotency, handler.

Each stage gets the CallContext as an argument and passes it on; nothing is kept in a variable of the thread or the task.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from typing import Any, cast

import msgspec
from google.protobuf.message import Message

from headwater.persistence.records.idempotency_rows import IdempotencyRows, KeyedRequest
from headwater.schemas.errors import CommitConflict, HeadwaterError
from headwater.schemas.rpc.services import RpcMethod
from headwater.service.feed.stream_connection import SlowReader
from headwater.service.gate.answers import SMALL_ANSWER_BYTES
from headwater.service.gate.bodies import SMALL_BODY_BYTES
from headwater.service.gate.gate import SLOW_SECONDS
from headwater.service.gate.request import Request
from headwater.service.grpc.admission import Admission, receive_one
from headwater.service.grpc.call_context import CallContext, localized
from headwater.service.grpc.grpc_errors import late_error, status_of
from headwater.service.grpc.messages.answer_sizes import meta_alone, smaller_page, too_large
from headwater.service.grpc.read_retries import read_again
from headwater.service.grpc.rpc import (
    Gathered,
    Rpc,
    RpcCall,
    make_request,
    with_run,
)
from headwater.service.grpc.rpc_audit import SeenCall, audit_rpc
from headwater.service.grpc.runtime import Runtime
from headwater.service.http.preconditions import as_precondition
from headwater.service.http.responses import Receive, Response
from headwater.service.idempotency.request_key import idempotency_key
from headwater.service.idempotency.run_once import REPLAYED, IdempotentRun, once
from headwater.service.observability.logs import ACCESS

REFUSED = (b"x-grpc-refused", b"true")
"""Marks a kept response that is a status, not a message."""

FAILED = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE"})
"""What leaves a line in the log in any case, as 5xx does of HTTP."""

CountAnswer = Callable[[Hashable, int, bool], None]
"""Counts so many bytes of an answer for its reader until they are sent; the last says whether something was done for it."""

_log = logging.getLogger(__name__)


class Refused(Exception):
    """An error that was stored under its key, to be returned again."""

    def __init__(self, status: bytes) -> None:
        super().__init__("refused before")
        self.status = status


class Pipeline:
    """The steps of one method."""

    STAGES = ("context", "locale", "metering", "tracing", "access", "idempotency", "handler")

    def __init__(self, runtime: Runtime, method: RpcMethod, rpc: Rpc) -> None:
        self._runtime = runtime
        self._service = runtime.service
        self.method = method
        self._rpc = rpc
        self._admission = Admission(runtime, method, rpc)
        self._is_audited = method.name.partition("/")[0].rpartition(".")[2] in runtime.service.config.audited
        self._bytes_max = runtime.service.config.grpc_message_bytes_max
        self._is_read = not method.takes_stream and "idempotency" not in method.request.DESCRIPTOR.fields_by_name

    # ── unary ───────────────────────────────────────────────────────────────────────────────────────────────

    async def unary(self, context: CallContext, receive: Receive, count: CountAnswer) -> bytes:
        """The bytes of the response; raises what the call is refused with."""
        context = localized(context, self._service.config.messages_dir)
        seen = SeenCall()
        return await self._metered(context, seen, lambda: self._traced_unary(context, seen, receive, count))

    async def _traced_unary(self, context: CallContext, seen: SeenCall, receive: Receive, count: CountAnswer) -> bytes:
        with self._span(context):
            if self._rpc.public is not None:
                return (await self._admission.for_everybody(context, receive, self._rpc.public)).SerializeToString()
            admitted = await self._admission.admit(context, seen, receive)
            try:
                call = admitted.call
                has_key = self._rpc.is_keyed and idempotency_key(admitted.request.scope) is not None
                running = self._idempotent(call, admitted.request)
                answer = await (_to_its_end(running) if has_key else running)
                if len(answer) > self._bytes_max:
                    answer = await self._smaller(call, answer)
                if len(answer) > SMALL_ANSWER_BYTES:
                    count(call.caller.identity, len(answer), not self._is_read)
                return answer
            finally:
                admitted.leave()

    async def _smaller(self, call: RpcCall, answer: bytes) -> bytes:
        """⚠ What clients do not take resets the call, and hides the cause. A page that is asked for again is asked for in full:
        an id may name another key by now."""
        if not self._is_read:
            return meta_alone(self.method.response, answer)
        while len(answer) > self._bytes_max:
            message = smaller_page(call.message, len(answer), self._bytes_max)
            if message is None:
                raise too_large(len(answer), self._bytes_max)
            call = msgspec.structs.replace(call, message=message)
            bound = await self._admission.bound_to(call)
            request, needs = make_request(call, bound, None), bound.route.needs
            if needs is None:
                raise LookupError(f"{bound.route.path} has no right")
            await self._admission.authorized(request, needs, call.caller)
            answer = (await self._handled(call, request)).SerializeToString()
        return answer

    async def gathered(self, context: CallContext, parts: AsyncIterator[bytes]) -> bytes:
        """The one answer to a stream of the client's."""
        context = localized(context, self._service.config.messages_dir)
        seen = SeenCall()
        return await self._metered(context, seen, lambda: self._traced_gathered(context, seen, parts))

    async def _traced_gathered(self, context: CallContext, seen: SeenCall, parts: AsyncIterator[bytes]) -> bytes:
        with self._span(context):
            admitted = await self._admission.admit(context, seen, receive_one(parts))
            try:
                call, request = admitted.call, admitted.request
                if self._rpc.gather is None:
                    raise LookupError("the row takes no stream")
                later = (await self._admission.parsed_aside(raw) async for raw in parts)
                found = await self._rpc.gather(call, request, idempotency_key(request.scope), later)
                return await self._idempotent(call, request, found)
            finally:
                admitted.leave()

    # ── streams ─────────────────────────────────────────────────────────────────────────────────────────────

    async def stream(self, context: CallContext, receive: Receive) -> AsyncIterator[bytes]:
        context = localized(context, self._service.config.messages_dir)
        seen = SeenCall()
        with self._metering(context, seen), self._counting_streams(), self._span(context):
            admitted = await self._admission.admit(context, seen, receive)
            try:
                if self._rpc.serve is None:
                    raise LookupError("the row has no stream")
                parts = cast(AsyncGenerator[bytes, None], self._rpc.serve(admitted.call, admitted.request))
                async with aclosing(parts):
                    async for part in parts:
                        try:
                            yield part
                        except SlowReader as slow:  # the stream itself says from where its reader may go on
                            await parts.athrow(slow)
                            raise
            finally:
                admitted.leave()

    @contextmanager
    def _counting_streams(self) -> Iterator[None]:
        self._runtime.counts.streams += 1
        try:
            yield
        finally:
            self._runtime.counts.streams -= 1

    # ── stages ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _metered(self, context: CallContext, seen: SeenCall, proceed: Callable[[], Awaitable[bytes]]) -> bytes:
        with self._metering(context, seen):
            return await proceed()

    @contextmanager
    def _metering(self, context: CallContext, seen: SeenCall) -> Iterator[None]:
        started, status = time.perf_counter(), "OK"
        try:
            yield
        except HeadwaterError as error:
            status = error.grpc_status
            raise
        except Refused as refused:
            status = "REFUSED"
            seen.refused_before(refused.status)
            raise
        except (GeneratorExit, asyncio.CancelledError):
            status = "CANCELLED"
            raise
        except Exception:
            status = "INTERNAL"
            raise
        finally:
            self._count(context, seen, status, time.perf_counter() - started)

    def _count(self, context: CallContext, seen: SeenCall, status: str, seconds: float) -> None:
        self._runtime.counts.add(self.method.name, status, seconds)
        is_slow = seconds > SLOW_SECONDS and not self.method.is_stream
        if self._service.config.log_requests or is_slow or status in FAILED:
            ACCESS.info("call", extra=_fields(context, status, seconds))
        if self._is_audited:
            audit_rpc(context, seen, status, seconds)

    def _span(self, context: CallContext) -> Any:
        tracing = self._service.tracing
        return nullcontext() if tracing is None else tracing.request(context.scope, context.method, context.request_id)

    async def _idempotent(self, call: RpcCall, request: Request, gathered: Gathered | None = None) -> bytes:
        key = idempotency_key(request.scope)
        if key is None or not self._rpc.is_keyed:
            if self._is_read:
                return (await read_again(call.context, lambda: self._handled(call, request))).SerializeToString()
            return (await self._handled(call, request, gathered)).SerializeToString()
        fingerprint = _fingerprint(self.method, call.message) if gathered is None else gathered.fingerprint
        asked = KeyedRequest(principal=call.caller.owner_id, key=key, route=self.method.name, fingerprint=fingerprint)

        async def run(under: IdempotentRun | None) -> Response:
            message = await self._handled(call, with_run(request, under), gathered)
            return Response(200, [], message.SerializeToString())

        def kept(response: Response) -> Response:
            if self._rpc.without_secret is None or REFUSED in response.headers:
                return response
            message = self.method.response.FromString(response.body)
            self._rpc.without_secret(message)
            return response._replace(body=message.SerializeToString())

        folder = self._service.config.messages_dir
        response = await once(
            IdempotencyRows(request.kernel),
            asked,
            run,
            refused=lambda error: Response(
                error.http_status, [REFUSED], status_of(error, call.context, folder).SerializeToString()
            ),
            options=self._service.config.idempotency,
            development=call.caller.development,
            kept=kept,
        )
        if REFUSED in [tuple(one) for one in response.headers]:
            raise Refused(response.body)
        return self._replayed(response) if REPLAYED in [tuple(one) for one in response.headers] else response.body

    def _replayed(self, response: Response) -> bytes:
        message = self.method.response.FromString(response.body)
        if "meta" in message.DESCRIPTOR.fields_by_name:
            cast(Any, message).meta.replayed = True
        return message.SerializeToString()

    async def _handled(self, call: RpcCall, request: Request, gathered: Gathered | None = None) -> Message:
        if call.context.is_late:  # nobody waits for the answer any more; what has begun may still land
            raise late_error()
        try:
            if gathered is not None:
                return await asyncio.to_thread(gathered.publish, request)
            if self._rpc.answer is not None:
                return await self._rpc.answer(call, request)
            response = await request.handle()
        except CommitConflict as error:
            self._service.commits.conflict(call.caller.realm)
            raise as_precondition(request.scope, error) from error
        except HeadwaterError as error:
            raise as_precondition(request.scope, error) from error
        if response is None or self._rpc.reply is None:
            raise LookupError(f"{self.method.name} sends by itself, or has no answer")
        if len(response.body) > SMALL_BODY_BYTES:
            return await asyncio.to_thread(self._rpc.reply, call, request, response)
        return self._rpc.reply(call, request, response)


async def _to_its_end(work: Coroutine[Any, Any, bytes]) -> bytes:
    """⚠ A call that is cancelled, or whose deadline is over, continues until its answer is stored. Otherwise its key would stay
    claimed, and a retry would have to wait until the runner counts as dead. Its budget is held as long."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # marks it as retrieved: there is no caller to report it to
        raise


def _fingerprint(method: RpcMethod, message: Message) -> bytes:
    """⚠ Without the key: two keys may not make one request two, nor may the place where the key stands."""
    plain = method.request()
    plain.CopyFrom(message)
    plain.ClearField("idempotency")
    return hashlib.sha256(method.name.encode() + b"\0" + plain.SerializeToString(deterministic=True)).digest()


def _fields(context: CallContext, status: str, seconds: float) -> dict[str, object]:
    return {
        "request_id": context.request_id,
        "method": "gRPC",
        "route": context.method,
        "status": status,
        "seconds": round(seconds, 6),
        "correlation_id": context.correlation_id,
        "plan_id": context.plan_id or None,
    }
