"""A real server on SQLite enters; requests per second, commits per second and the time from commit to event leave.

The load comes from other processes over plain sockets, with answers counted and not parsed, so that it is not the client that
is measured. Both share the machine's cores with the server: on two cores, what is left to it is at most one and a bit.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from bench.context import Context
from bench.measures import Measure
from tests.feed_server import FeedServer, events, feed_server

TITLE = "Feed over HTTP"
CLIENTS = 8
PAGE_CHANGES = 100
COMMITS_A_SECOND = 200
POINTER = "cat/1/heads/main"
SUBJECT = "sqlite, 1 worker"


def run(context: Context) -> Iterator[Measure]:
    if "sqlite" not in context.kinds:
        return
    with tempfile.TemporaryDirectory() as folder, feed_server(f"sqlite:///{folder}/lake.db") as server:
        commit_many(server, 2 * PAGE_CHANGES)
        idle = f"/feed/v1/default/changes?pointer={POINTER}&after=latest"
        etag = httpx.get(server.url + idle).headers["etag"]
        yield from measured(server, "nothing new, empty page", get(idle), context.seconds)
        yield from measured(server, "nothing new, 304", get(idle, f"If-None-Match: {etag}"), context.seconds)
        page = f"/feed/v1/default/changes?pointer={POINTER}&after=10&limit={PAGE_CHANGES}"
        yield from measured(server, f"page of {PAGE_CHANGES}", get(page), context.seconds)
        yield _rate("page of 100, size", "kB", len(httpx.get(server.url + page).content) / 1_000)
        yield from measured(server, f"commits, {CLIENTS} clients", post, context.seconds)
        latencies = sorted(commit_to_event(server, max(2.0, context.seconds)))
        yield _rate(f"commit to event at {COMMITS_A_SECOND}/s, p50", "ms", 1_000 * statistics.median(latencies))
        yield _rate(f"commit to event at {COMMITS_A_SECOND}/s, p99", "ms", 1_000 * latencies[int(len(latencies) * 0.99)])


def measured(server: FeedServer, name: str, make: MakeRequest, seconds: float) -> Iterator[Measure]:
    """The rate, and what one request takes of the server's cores: other programs cannot take that away."""
    used_before = cpu_seconds(server)
    rate, requests = load(server, make, seconds)
    used = cpu_seconds(server) - used_before
    yield _rate(name, "req/s", rate)
    yield _rate(f"{name}, time on core", "µs/req", 1e6 * used / requests)


def cpu_seconds(server: FeedServer) -> float:
    """Of the one worker, since it began."""
    worker = next(line["worker"] for line in server.log if line["message"] == "serving")
    fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rate(name: str, unit: str, value: float) -> Measure:
    return Measure("feed", SUBJECT, name, value, unit)


# ── load over plain sockets ─────────────────────────────────────────────────────────────────────────────────

MakeRequest = Callable[[int, int], bytes]
"""From the number of the client and of the request."""


def get(target: str, *headers: str) -> MakeRequest:
    lines = "".join(f"{header}\r\n" for header in headers)
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    return lambda client, number: request


def post(client: int, number: int) -> bytes:
    content = {"metadata_location": f"s3://lake/t{client}/{number}.json", "snapshot_id": number, "schema_id": 0}
    operation = {"op": "put", "key": [f"t{client}"], "type": "ICEBERG_TABLE", "content": content}
    body = json.dumps({"catalog": "lake", "operations": [operation], "author": "bench", "message": "m"}).encode()
    return b"POST /feed/v1/default/commit HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def load(server: FeedServer, make: MakeRequest, seconds: float) -> tuple[float, int]:
    """The rate, and how many requests were sent in all. All clients are in one process of their own, each with one request
    in flight on a connection that is kept."""
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    generator = context.Process(target=_generate, args=(server.port, make, seconds, results))
    generator.start()
    rate, requests = results.get(timeout=seconds * 3 + 60)
    generator.join()
    return rate, requests


def _generate(port: int, make: MakeRequest, seconds: float, results: Any) -> None:
    import selectors

    selector = selectors.DefaultSelector()
    clients = [_Client(port, n, make) for n in range(CLIENTS)]
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send()
    warm = time.perf_counter() + min(1.0, seconds / 2)
    started, counted = 0.0, 0
    while True:
        now = time.perf_counter()
        if not started and now >= warm:
            started, counted = now, 0
        elif started and now - started >= seconds:
            break
        for key, _ in selector.select(1.0):
            counted += key.data.receive()
    results.put((counted / (time.perf_counter() - started), sum(client.sent for client in clients)))


class _Client:
    """Sends the next request when the answer to the last is whole."""

    def __init__(self, port: int, number: int, make: MakeRequest) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number, self._make, self.sent = number, make, 0
        self._missing = 0
        self._head = b""

    def send(self) -> None:
        self.socket.sendall(self._make(self._number, self.sent))
        self.sent += 1

    def receive(self) -> int:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed a connection that was to be kept")
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return 0
            status = head[9:12]
            if status not in (b"200", b"304"):
                raise ConnectionError(f"the server answered {self._head[:500]!r}")
            length = 0 if status == b"304" else int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self._missing, self._head = length - len(body), b""
        if self._missing > 0:
            return 0
        self.send()
        return 1


# ── commits and their events ────────────────────────────────────────────────────────────────────────────────


def commit_many(server: FeedServer, count: int) -> None:
    with server.client() as http:
        for number in range(count):
            body = post(0, number).partition(b"\r\n\r\n")[2]
            http.post("/commit", content=body).raise_for_status()


def commit_to_event(server: FeedServer, seconds: float) -> list[float]:
    """Seconds from sending a commit to having its event in hand, at a steady rate."""
    sent: dict[str, float] = {}
    latencies: list[float] = []
    total = int(seconds * COMMITS_A_SECOND)

    def read() -> None:
        with httpx.stream("GET", f"{server.feed}/stream?pointer={POINTER}&after=latest", timeout=60) as stream:
            ready.set()
            for event in events(stream.iter_lines()):
                now = time.perf_counter()
                for change in event.data["changes"]:
                    latencies.append(now - sent[change["request_id"]])
                if len(latencies) >= total:
                    return

    ready = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    ready.wait()
    time.sleep(0.3)
    with server.client() as http:
        begun = time.perf_counter()
        for number in range(total):
            time.sleep(max(0.0, begun + number / COMMITS_A_SECOND - time.perf_counter()))
            body = post(99, number).partition(b"\r\n\r\n")[2]
            key = f"bench-{number}"
            sent[key] = time.perf_counter()
            http.post("/commit", content=body, headers={"Idempotency-Key": key}).raise_for_status()
    reader.join(60)
    return latencies
