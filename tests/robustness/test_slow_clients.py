"""Clients that never finish what they began to send: the server continues answering all others."""

from __future__ import annotations

import http.client
import os
import resource
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from tests.support.servers.feed_server import FeedServer, feed_server

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
CONNECTIONS = 10_000 if SOAK else 1_500
HEADERS = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = (
    b"POST /feed/v1/default/commit HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)
FORM = (
    b"POST /manage/v1/default/oauth/tokens HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ng"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTIONS + 500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CONNECTIONS + 1_000), hard))
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('slow')}/lake.db") as one:
        yield one


@pytest.mark.parametrize(
    "beginnings",
    [(HEADERS,), (BODY,), (FORM,), (b"", HEADERS, BODY, FORM)],
    ids=["headers", "bodies", "forms", "all of them"],
)
def test_requests_that_never_end_delay_no_other_caller(server: FeedServer, beginnings: tuple[bytes, ...]) -> None:
    with ExitStack() as open_connections:
        for number in range(CONNECTIONS):
            connection = open_connections.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            connection.sendall(beginnings[number % len(beginnings)])
        waits_ms = [_answered_ms(server.port) for _ in range(21)]
        assert httpx.get(f"{server.feed}/pointers", timeout=60).status_code == 200
    later_ms = statistics.median(waits_ms[1:])
    print(f"{CONNECTIONS} connections open: /livez after {waits_ms[0]:.0f} ms while they are taken in, then {later_ms:.0f} ms")


def _answered_ms(port: int) -> float:
    """On a connection of its own."""
    began = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 200
    return (time.perf_counter() - began) * 1_000
