"""Health and reflection ask for no token: whoever holds their streams open, or reads nothing, keeps nobody else waiting."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headwater.service.grpc.open_services import STREAMS_OF_ADDRESS_MAX
from tests.support.fixtures.grpc_rig import GrpcRig, grpc_rig
from tests.support.fixtures.http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, header_block

SECONDS = 60
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
EVERYTHING = health_pb2.HealthCheckRequest()
NO_WINDOW = b"\0\4\0\0\0\0"
"""SETTINGS_INITIAL_WINDOW_SIZE = 0: not a byte of an answer may be sent."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path, stall_seconds=1.0) as made:
        yield made


def _watch(port: GrpcRig) -> Any:
    return health_pb2_grpc.HealthStub(port.channel).Watch(EVERYTHING, timeout=SECONDS)


def _reflect(port: GrpcRig) -> Any:
    def asked() -> Iterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="*")
        time.sleep(SECONDS)

    return reflection_pb2_grpc.ServerReflectionStub(port.channel).ServerReflectionInfo(asked(), timeout=SECONDS)


def _watches_and_reads_nothing(port: GrpcRig) -> socket.socket:
    host, _, number = port.url.removeprefix("grpc://").partition(":")
    block = header_block("/grpc.health.v1.Health/Watch")
    connection = socket.create_connection((host, int(number)), timeout=SECONDS)
    settings, message = frame(SETTINGS, 0, 0, NO_WINDOW), frame(DATA, END_STREAM, 1, bytes(5))
    connection.sendall(PREFACE + settings + frame(HEADERS, END_HEADERS, 1, block) + message)
    return connection


def test_a_watcher_that_reads_nothing_keeps_neither_watchers_nor_the_servers_end_waiting(port: GrpcRig) -> None:
    with closing(_watches_and_reads_nothing(port)):
        watching = _watch(port)
        assert next(watching).status == SERVING
        port.rig.run(_stopping(port))
        assert next(watching).status == NOT_SERVING
        assert health_pb2_grpc.HealthStub(port.channel).Check(EVERYTHING, timeout=SECONDS).status == NOT_SERVING


async def _stopping(port: GrpcRig) -> None:
    port.rig.service.stopping.set()


@pytest.mark.parametrize("begin", [_watch, _reflect], ids=["health", "reflection"])
def test_an_address_has_so_many_streams_without_a_token_and_no_more(port: GrpcRig, begin: Callable[[GrpcRig], Any]) -> None:
    with ExitStack() as streams:
        for _ in range(STREAMS_OF_ADDRESS_MAX):
            one = begin(port)
            streams.callback(one.cancel)
            next(one)
        with pytest.raises(grpc.RpcError) as refused:
            next(begin(port))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert health_pb2_grpc.HealthStub(port.channel).Check(EVERYTHING, timeout=SECONDS).status == SERVING
    deadline = time.monotonic() + SECONDS
    while True:  # the places are given back
        again = begin(port)
        try:
            next(again)
            break
        except grpc.RpcError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        finally:
            again.cancel()


def test_a_service_that_is_not_here_is_unknown(port: GrpcRig) -> None:
    stub, absent = health_pb2_grpc.HealthStub(port.channel), health_pb2.HealthCheckRequest(service="io.headwater.Absent")
    with pytest.raises(grpc.RpcError) as missing:
        stub.Check(absent, timeout=SECONDS)
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    watching = stub.Watch(absent, timeout=SECONDS)
    assert next(watching).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watching.cancel()
