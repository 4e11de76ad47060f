"""Measures a real server on SQLite: requests and commits per second, and the time from commit to event.

The load comes from other processes over plain sockets, with answers counted and not parsed, so that it is not the client that
is measured. Both share the machine's cores with the server: on two cores, what is left to it is at most one and a bit.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator

import httpx

from bench.context import Context
from bench.http_load import CLIENTS, MakeRequest, cpu_seconds, load
from bench.measures import Measure
from tests.support.servers.feed_server import FeedServer, events, feed_server

TITLE = "Feed over HTTP"
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
    rate, requests = load(server.port, make, seconds)
    used = cpu_seconds(server) - used_before
    yield _rate(name, "req/s", rate)
    yield _rate(f"{name}, time on core", "µs/req", 1e6 * used / requests)


def _rate(name: str, unit: str, value: float) -> Measure:
    return Measure("feed", SUBJECT, name, value, unit)


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


def get(target: str, *headers: str) -> MakeRequest:
    lines = "".join(f"{header}\r\n" for header in headers)
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    return lambda client, number: request


def post(client: int, number: int) -> bytes:
    content = {"metadata_location": f"s3://lake/t{client}/{number}.json", "snapshot_id": number, "schema_id": 0}
    operation = {"op": "put", "key": [f"t{client}"], "type": "ICEBERG_TABLE", "content": content}
    body = json.dumps({"catalog": "lake", "operations": [operation], "author": "bench", "message": "m"}).encode()
    return b"POST /feed/v1/default/commit HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


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
