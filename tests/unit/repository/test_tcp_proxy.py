"""An echo server behind the proxy: what a fault does to the request, the answer and the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.faults.tcp_proxy import CHUNK_BYTES, Fault, Outcome, TcpProxy


class EchoServer:
    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.received = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(CHUNK_BYTES):
                self.received += data
                connection.sendall(data)


@pytest.fixture
def server() -> Iterator[EchoServer]:
    echo = EchoServer()
    yield echo
    echo.listener.close()


@pytest.fixture
def proxy(server: EchoServer) -> Iterator[TcpProxy]:
    with TcpProxy(*server.listener.getsockname()) as made:
        yield made


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=5)


def test_without_a_fault_bytes_pass_both_ways(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_a_landed_request_reaches_the_server_and_its_answer_is_lost(proxy: TcpProxy, server: EchoServer) -> None:
    fault = proxy.arm(Fault(b"COMMIT", Outcome.LANDED, settle_seconds=0.02))
    with connect(proxy) as client:
        client.sendall(b"please COMMIT this")
        assert client.recv(100) == b""
    assert fault.fired and fault.wait_settled()
    assert bytes(server.received) == b"please COMMIT this"
    assert fault.answer_bytes_swallowed == len(server.received)


def test_a_request_that_does_not_land_never_reaches_the_server(proxy: TcpProxy, server: EchoServer) -> None:
    fault = proxy.arm(Fault(b"COMMIT", Outcome.NOT_LANDED))
    with connect(proxy) as client:
        client.sendall(b"please COMMIT this")
        assert client.recv(100) == b""
    assert fault.fired
    assert not server.received


def test_a_marker_across_two_chunks_is_found(proxy: TcpProxy, server: EchoServer) -> None:
    fault = proxy.arm(Fault(b"COMMIT", Outcome.NOT_LANDED))
    with connect(proxy) as client:
        client.sendall(b"COM")
        assert client.recv(100) == b"COM"
        client.sendall(b"MIT")
        assert client.recv(100) == b""
    assert fault.fired
    assert bytes(server.received) == b"COM"


def test_a_held_connection_stays_silent_and_a_fault_strikes_only_once(proxy: TcpProxy) -> None:
    fault = proxy.arm(Fault(b"x", Outcome.LANDED, hold_open=True, settle_seconds=0.02))
    with connect(proxy) as struck, connect(proxy) as spared:
        struck.sendall(b"x")
        assert fault.wait_settled()
        struck.settimeout(0.2)
        with pytest.raises(TimeoutError):
            struck.recv(1)
        spared.sendall(b"x")
        assert spared.recv(1) == b"x"


def test_cutting_all_connections_ends_each_of_them(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        assert proxy.cut_all() == 1
        assert client.recv(1) == b""
