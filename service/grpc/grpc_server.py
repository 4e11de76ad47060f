"""The gRPC server of one worker: every method of the table, health, reflection, TLS, and a stop in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.schemas.rpc.services import SERVICES, RpcMethod, all_methods
from headwater.service.config import ServeConfig
from headwater.service.feed.stream_connection import SlowReader
from headwater.service.gate.answers import seconds_to_read
from headwater.service.grpc.admission import receive_one
from headwater.service.grpc.call_context import CallContext, call_context, localized
from headwater.service.grpc.grpc_errors import STATUS_DETAILS, internal_status, status_of
from headwater.service.grpc.open_services import Health, Reflection
from headwater.service.grpc.pipeline import Pipeline, Refused
from headwater.service.grpc.rpc import Rpc
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.grpc.runtime import Runtime
from headwater.service.grpc.subscribing import ReaderStalled
from headwater.service.http.responses import Receive

Identity = Callable[[bytes], bytes]
HANDSHAKE_MS_MAX = 10_000
IDLE_MS_MAX = 5 * 60 * 1_000
"""How long a connection may stay open without a call: it occupies a file descriptor. Clients reconnect by themselves."""
SECONDS_OVER = 60_000
"""Milliseconds that a connection beyond its age may continue with the calls that it has open."""
PINGS_EVERY_MS = 10_000
"""Clients that ask more often whether the server lives are sent away; gRPC's own limit of 5 min would send readers away that
want to notice a dead connection."""

_CODES = {one.value[0]: one for one in grpc.StatusCode}
_log = logging.getLogger(__name__)


class GrpcServer:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._config = runtime.service.config
        self._server: Any = None
        self._names = [service.full_name for service in SERVICES]
        self._health = Health(self._names, self._config.stall_seconds)

    async def start(self) -> None:
        self._server = grpc.aio.server(options=_options(self._config))
        handlers = {method.path: self._handler(method, rpc) for method, rpc in checked_rows(RPCS).items()}
        self._server.add_generic_rpc_handlers((_Handlers(handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if self._config.grpc_reflection:
            shown = Reflection([*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME])
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(shown, self._server)
        _listen(self._server, self._config)
        await self._server.start()
        self._runtime.service.metrics.registry.register(self._runtime.counts)
        self._runtime.service.stopping.call(self._health.begin_to_stop)

    async def stop(self, grace_seconds: float) -> None:
        """Streams have ended with their cursors by then; calls that are in flight may end."""
        self._health.stop()
        await self._server.stop(grace_seconds)
        await asyncio.to_thread(self._runtime.directories.close)

    def _handler(self, method: RpcMethod, rpc: Rpc) -> grpc.RpcMethodHandler[Any, Any]:
        pipeline = Pipeline(self._runtime, method, rpc)
        if method.is_stream:

            async def stream(messages: AsyncIterator[bytes], servicer: Any) -> None:
                receive = receive_one(messages)
                await self._answered(method, servicer, lambda context: self._streamed(pipeline, context, receive, servicer))

            return grpc.stream_stream_rpc_method_handler(stream)

        if method.takes_stream:

            async def gathered(parts: AsyncIterator[bytes], servicer: Any) -> bytes:
                answer: bytes = await self._answered(method, servicer, lambda context: pipeline.gathered(context, parts))
                return answer

            return grpc.stream_unary_rpc_method_handler(gathered)

        async def unary(messages: AsyncIterator[bytes], servicer: Any) -> bytes:
            receive = receive_one(messages)
            count = partial(self._count_until_sent, servicer)
            answer: bytes = await self._answered(method, servicer, lambda context: pipeline.unary(context, receive, count))
            return answer

        return grpc.stream_unary_rpc_method_handler(unary)

    async def _answered(self, method: RpcMethod, servicer: Any, run: Callable[[CallContext], Awaitable[Any]]) -> Any:
        """The first stage: builds the context; and the last: errors become statuses."""
        metadata = servicer.invocation_metadata() or ()
        context = call_context(
            method.name,
            metadata,
            servicer.peer(),
            servicer.time_remaining(),
            self._runtime.next_id(),
            _peer_names(servicer) if self._config.grpc_trusted_peers else frozenset(),
        )
        shown = (("x-correlation-id", context.correlation_id), ("x-request-id", context.request_id))
        if context.is_correlated or method.is_stream:
            await servicer.send_initial_metadata(shown)  # ⚠ a message to the kernel of its own: a tenth of what a call takes
        servicer.set_trailing_metadata(shown)
        try:
            return await run(context)
        except Refused as refused:
            status = Status.FromString(refused.status)
        except HeadwaterError as error:
            if error.http_status >= 500:
                _log.warning("%s failed: %s", method.name, error, extra={"request_id": context.request_id})
            folder = self._config.messages_dir
            status = status_of(error, localized(context, folder), folder)  # ⚠ the pipeline's own context never comes back here
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception:
            _log.exception("a call failed", extra={"request_id": context.request_id, "route": method.name})
            status = internal_status(context)
        trailers = (*shown, (STATUS_DETAILS, status.SerializeToString()))
        code = _CODES[status.code]
        return await servicer.abort(code, status.message, trailers)

    def _count_until_sent(self, servicer: Any, owner: Hashable, size: int, is_done: bool) -> None:
        """⚠ The transport would keep an answer that is not read for as long as its connection lasts: the call is given up."""
        budgets, call = self._runtime.budgets, asyncio.current_task()
        if call is None:
            raise LookupError("a call runs in a task")
        budgets.take_answer(owner, size, is_done=is_done)
        giving_up = asyncio.get_running_loop().call_later(seconds_to_read(size, self._config.stall_seconds), call.cancel)

        def sent(_: Any) -> None:
            giving_up.cancel()
            budgets.give_answer_back(owner, size)

        servicer.add_done_callback(sent)

    async def _streamed(self, pipeline: Pipeline, context: CallContext, receive: Receive, servicer: Any) -> None:
        parts = pipeline.stream(context, receive)
        stall_seconds = self._config.stall_seconds
        async with contextlib.aclosing(cast(Any, parts)):
            async for part in parts:
                writing = asyncio.ensure_future(servicer.write(part))
                try:
                    done, _ = await asyncio.wait([writing], timeout=stall_seconds)
                    if not done:
                        await _stalled(parts)
                    writing.result()
                finally:
                    writing.add_done_callback(_forget)  # of a reader that is gone: nobody asks what became of it


def _peer_names(servicer: Any) -> frozenset[str]:
    """⚠ Not `peer_identities`, which falls back to the common name. gRPC has checked the certificate by then."""
    names = servicer.auth_context().get("x509_subject_alternative_name") or ()
    return frozenset(name.decode("utf-8", "replace") for name in names)


def _forget(written: asyncio.Future[None]) -> None:
    if not written.cancelled():
        written.exception()


async def _stalled(parts: AsyncIterator[bytes]) -> None:
    """Tells the stream, which says from where its reader may continue."""
    try:
        await cast(Any, parts).athrow(SlowReader())
    except SlowReader:
        raise ReaderStalled("the reader did not take a message in time.", field="stream", remedy="Call again.") from None


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._handlers.get(handler_call_details.method)


def checked_rows(rows: Mapping[str, Rpc]) -> dict[RpcMethod, Rpc]:
    """⚠ A method without a row, or a row without a right, stops the server: nothing is served that nobody thought about."""
    found: dict[RpcMethod, Rpc] = {}
    for method in all_methods():
        rpc = rows.get(method.name)
        if rpc is None:
            raise LookupError(f"{method.name} is in no row of the table of methods")
        if not rpc.routes or any(route.needs is None or route.budget is None for route in rpc.routes):
            raise LookupError(f"{method.name} has no right or no budget")
        if any(route.needs.is_public != (rpc.public is not None) for route in rpc.routes if route.needs is not None):
            raise LookupError(f"{method.name} asks for a token where its route does not, or the other way round")
        answers = [one for one in (rpc.serve, rpc.gather, rpc.reply, rpc.answer, rpc.public) if one is not None]
        streams = (rpc.serve is not None, rpc.gather is not None)
        if len(answers) != 1 or streams != (method.is_stream, method.takes_stream):
            raise LookupError(f"{method.name} has an answer of the wrong kind")
        found[method] = rpc
    for name in rows.keys() - {method.name for method in found}:
        raise LookupError(f"{name} is in the table, and in no proto")
    return found


def _options(config: ServeConfig) -> list[tuple[str, int]]:
    bytes_max = config.grpc_message_bytes_max
    return [
        ("grpc.max_receive_message_length", bytes_max),
        ("grpc.max_send_message_length", bytes_max),
        ("grpc.so_reuseport", 1 if config.workers > 1 else 0),
        ("grpc.max_connection_age_ms", int(config.grpc_connection_seconds * 1_000)),
        ("grpc.max_connection_age_grace_ms", SECONDS_OVER),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
        ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
        ("grpc.http2.min_ping_interval_without_data_ms", PINGS_EVERY_MS),
    ]


def _listen(server: Any, config: ServeConfig) -> None:
    host = f"[{config.host}]" if ":" in config.host else config.host
    address = f"{host}:{config.grpc_port}"
    try:
        if config.has_tls:
            server.add_secure_port(address, _credentials(config))
        else:
            server.add_insecure_port(address)
    except RuntimeError as error:
        raise InvalidInput(
            f"port {config.grpc_port} cannot be listened on: {error}.", field="grpc_port", remedy="Choose another one."
        ) from None


def _credentials(config: ServeConfig) -> grpc.ServerCredentials:
    key = Path(config.tls_key).read_bytes()
    if config.tls_key_password:
        key = _plain_key(key, config.tls_key_password)
    pair = (key, Path(config.tls_certificate).read_bytes())
    client_ca = Path(config.grpc_client_ca).read_bytes() if config.grpc_client_ca else None
    return grpc.ssl_server_credentials([pair], client_ca, require_client_auth=client_ca is not None)


def _plain_key(key: bytes, password: str) -> bytes:
    """gRPC takes no password: the key is decrypted in memory."""
    from cryptography.hazmat.primitives import serialization

    loaded = serialization.load_pem_private_key(key, password.encode())
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
