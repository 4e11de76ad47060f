"""The gRPC port of real `headwater serve` processes: TLS and client certificates, several workers, kills, ports in use."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import headwater
from headwater.schemas.rpc import catalog_pb2, common_pb2, namespace_pb2
from headwater.schemas.rpc.services import Stub
from tests.support.servers.feed_server import FeedServer, feed_server, start_server
from tests.support.servers.ports import free_port
from tests.support.servers.self_signed import self_signed

SECONDS = 60
CREATES = 24
KILLED_AFTER = 8
"""Answers, behind which the server is killed while others are in flight."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with headwater.open(url, create=True) as engine:
        engine.ensure_realm().ensure_catalog("lake")
    return url


def _create(channel: grpc.Channel, number: int, *, waits: bool = False) -> namespace_pb2.CreateNamespaceResponse:
    request = namespace_pb2.CreateNamespaceRequest(
        name=common_pb2.Name(catalog="lake", path=[f"n{number}"]), idempotency=common_pb2.Idempotency(key=f"create-{number}")
    )
    made: namespace_pb2.CreateNamespaceResponse = Stub(channel, "NamespaceService").CreateNamespace(
        request, timeout=SECONDS, wait_for_ready=waits
    )
    return made


def _created(channel: grpc.Channel, number: int) -> namespace_pb2.CreateNamespaceResponse:
    """Sent until the claim of the killed server has run out; ABORTED asks for exactly that."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return _create(channel, number, waits=True)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_tls_requests_the_clients_certificate_if_configured(tmp_path: Path, store: str) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "client").mkdir()
    certificate, key = self_signed(tmp_path / "server")
    client, client_key = self_signed(tmp_path / "client")
    port = free_port()
    tls = ("--tls-certificate", certificate, "--tls-key", key)
    settings = {"grpc_port": port, "grpc_client_ca": client}
    trusted = Path(certificate).read_bytes()
    shown = grpc.ssl_channel_credentials(trusted, Path(client_key).read_bytes(), Path(client).read_bytes())
    stranger = grpc.ssl_channel_credentials(trusted, Path(key).read_bytes(), Path(certificate).read_bytes())
    with feed_server(store, *tls, settings=settings, certificate=certificate):
        address, request = f"127.0.0.1:{port}", catalog_pb2.ListCatalogsRequest()
        with grpc.secure_channel(address, shown) as channel:
            answer = Stub(channel, "CatalogService").ListCatalogs(request, timeout=SECONDS)
            assert [one.name for one in answer.catalogs] == ["lake"]
        for refused in (grpc.ssl_channel_credentials(trusted), stranger, None):
            with grpc.insecure_channel(address) if refused is None else grpc.secure_channel(address, refused) as channel:
                with pytest.raises(grpc.RpcError) as error:
                    Stub(channel, "CatalogService").ListCatalogs(request, timeout=SECONDS)
                assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_keyed_creates_around_a_kill_are_applied_once_each(tmp_path: Path, store: str) -> None:
    """Two workers. The process group is killed while creates are in flight; every create is sent again under its key."""
    http, port = free_port(), free_port()
    settings: dict[str, object] = {"grpc_port": port, "idempotency_running_seconds": 2}
    workers = ("--workers", "2")
    process = start_server(store, http, tmp_path / "first.log", *workers, settings=settings, own_group=True)
    server = FeedServer(process, http, store, tmp_path / "first.log")
    address, answered, failed = f"127.0.0.1:{port}", dict[int, str](), list[int]()
    killing = threading.Lock()
    try:
        server.wait_until_ready()

        def create(number: int) -> None:
            with grpc.insecure_channel(address) as channel:
                try:
                    answered[number] = _create(channel, number).meta.entry_id
                except grpc.RpcError:
                    failed.append(number)
            if len(answered) >= KILLED_AFTER and killing.acquire(blocking=False):  # once, and never released
                os.killpg(process.pid, signal.SIGKILL)

        with grpc.insecure_channel(address) as channel:
            checked = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=SECONDS, wait_for_ready=True
            )
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(create, range(CREATES)):
                pass
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert answered and failed, "the kill must fall between the creates"
    with feed_server(store, *workers, settings=settings), grpc.insecure_channel(address) as channel:
        _refused_in_one_line(store, port, *workers)  # ⚠ its workers share the port with each other, and with nobody else
        for number in range(CREATES):
            made = _created(channel, number)
            if number in answered:
                assert made.meta.replayed and made.meta.entry_id == answered[number]
    with headwater.open(store) as engine:
        created = [op.key for change in engine.realm().catalog("lake").branch().changes() for op in change.operations]
    assert sorted(created) == sorted((f"n{number}",) for number in range(CREATES))


def test_a_port_that_is_in_use_is_refused_in_one_line(store: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        _refused_in_one_line(store, taken.getsockname()[1])


def _refused_in_one_line(store: str, port: int, *flags: str) -> None:
    command = [sys.executable, "-m", "headwater", "--set", f"grpc_port={port}", "serve", "--dev", "--store", store, *flags]
    ended = subprocess.run([*command, "--port", str(free_port())], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    [line] = [one for one in ended.stderr.splitlines() if one.startswith("error")]
    assert str(port) in line and "Traceback" not in ended.stderr
