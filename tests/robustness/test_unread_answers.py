"""Clients that ask for large answers and never read them: a share of the memory is theirs, for a while, and no more."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

import headwater
from tests.support.servers.feed_server import FeedServer, feed_server

CONNECTIONS = 30
SETTINGS = {"request_bytes_max": 1_000_000, "stream_stall_seconds": 3}
BUFFERED = 64 * 1024
SECONDS = 60.0
ESTABLISHED = "01"


def test_unread_answers_are_refused_and_aborted(tmp_path: Path) -> None:
    with (
        feed_server(f"sqlite:///{tmp_path}/lake.db", settings=SETTINGS) as server,
        server.client() as http,
        headwater.open(server.store_url) as engine,
    ):
        pointer = engine.realm().catalog("lake").branch().pointer
        for n in range(12):
            operations = [
                {"op": "put", "key": [f"n{n}-{k}"], "type": "NAMESPACE", "content": {"properties": {"p": "x" * 9_000}}}
                for k in range(80)
            ]
            assert http.post("/commit", json={"catalog": "lake", "operations": operations}).status_code == 200
        size = len(http.get("/changes", params={"pointer": pointer}).content)
        assert size > 8_000_000, "more than the kernel keeps of a connection"
        asked = f"GET /feed/v1/default/changes?pointer={pointer} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        with ExitStack() as open_connections:
            connections = [open_connections.enter_context(socket.socket()) for _ in range(CONNECTIONS)]
            for connection in connections:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFERED)
                connection.settimeout(SECONDS)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(asked)
            heads = [_head(connection) for connection in connections]
            served = [connection for connection, head in zip(connections, heads, strict=True) if b" 200 " in head]
            refused = [head for head in heads if b" 429 " in head]
            assert served and refused and len(served) + len(refused) == CONNECTIONS, heads
            assert all(b"retry-after" in head.lower() for head in refused)
            assert httpx.get(f"{server.url}/livez", timeout=SECONDS).status_code == 200
            _wait_until_given_up(server, len(served))
            assert not _established(server.port) & {connection.getsockname()[1] for connection in served}, (
                "hung up, still unread"
            )
            assert all(_rest(connection) < size for connection in served), "cut off before the end"
            assert len(http.get("/changes", params={"pointer": pointer}).content) == size, "and there is room again"


def _head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(256)
    return head


def _wait_until_given_up(server: FeedServer, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while (found := server.log_text.count("an answer was not read")) < count:
        assert time.monotonic() < deadline, f"{found} of {count}"
        time.sleep(0.1)


def _established(port: int) -> set[int]:
    """The clients' ports of the server's connections, as Linux tells them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {_port(remote) for _, local, remote, state, *_ in lines if _port(local) == port and state == ESTABLISHED}


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)


def _rest(connection: socket.socket) -> int:
    found = 0
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    try:
        while piece := connection.recv(1 << 20):
            found += len(piece)
    except ConnectionError:
        pass
    return found
