"""What one call may cost: the gRPC port has the budgets of the gate, and reads nothing of who has not proven who they are."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from headwater.producer.access.rights import Right
from headwater.schemas.rpc import catalog_pb2, common_pb2, feed_pb2, namespace_pb2
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.gate.bodies import SMALL_BODY_BYTES
from headwater.service.gate.budgets import BODIES_OF_CALLER
from headwater.service.grpc.runtime import ARRIVING_MAX
from tests.support.fixtures.grpc_rig import SECONDS, GrpcRig, bearer, grpc_rig
from tests.support.fixtures.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    header_block,
)

SIGN_IN = "io.headwater.tenant.v1.TokenService/CreateToken"
"""Its message is the proof."""
METHODS = sorted((one for one in all_methods() if one.name != SIGN_IN), key=lambda one: one.name)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-budgets")) as made:
        made.rig.principal("alpha", "nobody")
        yield made


def _method(name: str) -> RpcMethod:
    return next(one for one in METHODS if one.name.endswith(name))


LIST, COMMIT = _method("CatalogService/ListCatalogs"), _method("FeedService/Commit")
CREATE = _method("NamespaceService/CreateNamespace")


@contextmanager
def _unfinished(port: GrpcRig, method: RpcMethod, *metadata: tuple[str, str]) -> Iterator[Any]:
    """A call whose message never comes."""
    over = threading.Event()

    def never() -> Iterator[bytes]:
        over.wait()
        yield from ()

    kind: Callable[..., Any] = port.channel.stream_stream if method.is_stream else port.channel.stream_unary
    made = kind(method.path, request_serializer=None, response_deserializer=method.response.FromString)
    begin = made if method.is_stream else made.future
    call = begin(never(), metadata=metadata, timeout=SECONDS)
    try:
        yield call
    finally:
        call.cancel()
        over.set()


def _refusal(port: GrpcRig, method: RpcMethod, message: Message, token: str) -> grpc.StatusCode:
    return port.status(method, message, bearer(token))


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.name.rpartition(".")[2])
def test_a_call_without_proof_is_refused_before_its_message_is_read(port: GrpcRig, method: RpcMethod) -> None:
    with _unfinished(port, method) as call:
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_sign_in_whose_secret_never_arrives_times_out(port: GrpcRig) -> None:
    with _unfinished(port, next(one for one in all_methods() if one.name == SIGN_IN)) as call:
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_messages_that_never_arrive_delay_no_other_caller(port: GrpcRig) -> None:
    nobody = bearer(port.rig.token("alpha", "nobody"))
    request = catalog_pb2.ListCatalogsRequest()
    with ExitStack() as calls:
        for _ in range(ARRIVING_MAX + 20):
            calls.enter_context(_unfinished(port, LIST, nobody))
        assert port.call(LIST, request, bearer(port.rig.token("alpha"))).catalogs
    assert port.status(LIST, request, nobody) is grpc.StatusCode.PERMISSION_DENIED, "theirs are over: it is answered"
    assert port.rig.gate.budgets.requests == 0


def test_a_message_with_too_many_elements_is_refused_before_it_is_decoded(port: GrpcRig) -> None:
    """Of who has no right as of who has all."""
    request = feed_pb2.CommitRequest(catalog="lake", operations=[feed_pb2.Operation()] * 250_001)
    for token in (port.rig.token("alpha", "nobody"), port.rig.token("alpha")):
        assert _refusal(port, COMMIT, request, token) is grpc.StatusCode.RESOURCE_EXHAUSTED
    text = "[" + "[]," * 125_000 + "[]]"
    operation = feed_pb2.Operation(op="put", key=["a"], type="NAMESPACE", content=text)
    request = feed_pb2.CommitRequest(catalog="lake", operations=[operation])
    assert _refusal(port, COMMIT, request, port.rig.token("alpha")) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_messages_of_one_caller_fill_their_share_of_the_memory_and_no_more(port: GrpcRig) -> None:
    rig, token = port.rig, port.rig.token("alpha")
    scope = {"type": "http", "path": "/", "headers": [(b"authorization", f"Bearer {token}".encode())], "client": ("::1", 1)}
    owner = rig.run(rig.service.access.caller(scope, None)).identity
    budgets, share = rig.gate.budgets, BODIES_OF_CALLER * rig.config.request_bytes_max
    name = common_pb2.Name(catalog="lake", path=["large"])
    request = namespace_pb2.CreateNamespaceRequest(name=name, properties={"much": "x" * SMALL_BODY_BYTES})
    budgets.take_bytes(owner, share - SMALL_BODY_BYTES)
    try:
        assert _refusal(port, CREATE, request, token) is grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        budgets.give_bytes_back(owner, share - SMALL_BODY_BYTES)
    port.call(CREATE, request, bearer(token))
    assert (budgets.body_bytes, budgets.requests) == (0, 0), "everything is given back"


# ── answers that are not read ───────────────────────────────────────────────────────────────────────────────

CHANGES = _method("FeedService/GetChanges")


def _asked(address: tuple[str, int], method: RpcMethod, message: Message, token: str) -> socket.socket:
    """A connection that sends one call and reads nothing: gRPC's own clients always read."""
    block = header_block(method.path, authorization=f"Bearer {token}")
    raw = message.SerializeToString()
    connection = socket.create_connection(address, timeout=SECONDS)
    sent = frame(DATA, END_STREAM, 1, b"\0" + len(raw).to_bytes(4, "big") + raw)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, block) + sent)
    return connection


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_answers_that_one_caller_does_not_read_fill_its_share_and_no_more(tmp_path: Path) -> None:
    with grpc_rig(tmp_path, request_bytes_max=250_000) as port:
        budgets, root = port.rig.gate.budgets, port.rig.token("alpha")
        for number in range(6):
            content = {"properties": {"much": "x" * 90_000}}
            operations = [{"op": "put", "key": [f"n{number}-{n}"], "type": "NAMESPACE", "content": content} for n in range(2)]
            body = {"catalog": "lake", "message": "large", "operations": operations}
            port.rig.ask("POST", "/feed/v1/alpha/commit", token=root, json=body).raise_for_status()
        request = feed_pb2.GetChangesRequest(source=feed_pb2.FeedSource(catalog="lake"), after="earliest")
        host, _, number_of_port = port.url.removeprefix("grpc://").partition(":")
        with closing(_asked((host, int(number_of_port)), CHANGES, request, root)):
            share = BODIES_OF_CALLER * port.rig.config.request_bytes_max
            _until(lambda: budgets.answer_bytes >= share, "the answer must be counted while it waits")
            assert port.status(CHANGES, request, bearer(root)) is grpc.StatusCode.RESOURCE_EXHAUSTED
            reader = bearer(port.rig.principal("alpha", "reader", Right.FEED_READ))
            assert port.call(CHANGES, request, reader).frame.changes, "others are answered"
            assert budgets.answer_bytes >= share
        _until(lambda: budgets.answer_bytes == 0, "what was counted must be given back when the connection ends")
        assert port.status(CHANGES, request, bearer(root)) is grpc.StatusCode.OK


def test_an_unread_answer_is_abandoned_while_its_connection_stays(tmp_path: Path) -> None:
    with grpc_rig(tmp_path, stall_seconds=0.3) as port:
        budgets, root = port.rig.gate.budgets, port.rig.token("alpha")
        content = {"properties": {"much": "x" * 90_000}}
        body = {
            "catalog": "lake",
            "message": "large",
            "operations": [{"op": "put", "key": ["n"], "type": "NAMESPACE", "content": content}],
        }
        port.rig.ask("POST", "/feed/v1/alpha/commit", token=root, json=body).raise_for_status()
        request = feed_pb2.GetChangesRequest(source=feed_pb2.FeedSource(catalog="lake"), after="earliest")
        host, _, number_of_port = port.url.removeprefix("grpc://").partition(":")
        with closing(_asked((host, int(number_of_port)), CHANGES, request, root)) as connection:
            _until(lambda: budgets.answer_bytes > 0, "the answer must be counted while it waits")
            _until(lambda: budgets.answer_bytes == 0, "an answer that nobody reads must be given up")
            connection.settimeout(SECONDS)
            assert RST_STREAM in _frames(connection), "the call must have been ended, not the count alone"
        assert port.status(CHANGES, request, bearer(root)) is grpc.StatusCode.OK


def _frames(connection: socket.socket) -> set[int]:
    """The types of frames that came until the call was reset."""
    received, types = b"", set[int]()
    while RST_STREAM not in types and (data := connection.recv(1 << 16)):
        received += data
        while len(received) >= 9 and len(received) >= 9 + (size := int.from_bytes(received[:3], "big")):
            types.add(received[3])
            received = received[9 + size :]
    return types


def test_a_reader_that_disconnects_during_a_write_causes_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with grpc_rig(tmp_path) as port:
        root = port.rig.token("alpha")
        for number in range(6):
            content = {"properties": {"much": "x" * 90_000}}
            operations = [{"op": "put", "key": [f"n{number}"], "type": "NAMESPACE", "content": content}]
            port.rig.ask(
                "POST", "/feed/v1/alpha/commit", token=root, json={"catalog": "lake", "operations": operations}
            ).raise_for_status()
        request = feed_pb2.GetSnapshotRequest(source=feed_pb2.FeedSource(catalog="lake"))
        host, _, number_of_port = port.url.removeprefix("grpc://").partition(":")
        with closing(_asked((host, int(number_of_port)), _method("FeedService/GetSnapshot"), request, root)):
            _until(lambda: port.rig.gate.budgets.requests == 1, "the stream must be open")
            time.sleep(0.2)  # the write waits for its reader
            assert port.rig.gate.budgets.requests == 1
        _until(lambda: port.rig.gate.budgets.requests == 0, "the stream must end with its reader")
        port.rig.run(_collected())
    assert not [one for one in caplog.records if one.name == "asyncio"]


async def _collected() -> None:
    await asyncio.sleep(0.05)
    gc.collect()
