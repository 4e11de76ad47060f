"""Measures what a frame of a stream costs with many readers, and how much longer a commit takes because of them.

The floor is measured in the same run: an ASGI application on the same HTTP server that holds its readers in a list and sends
each of them the same bytes, without a log, a position or a right. Both are read by one process of plain sockets that counts.

Other work on the machine disturbs every turn: the server without readers, with readers and the floor take turns, and the best
turn of each counts. What the commits themselves cost, measured without readers, is not counted as the cost of frames.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.context import Context
from bench.http_load import cpu_seconds, process_cpu_seconds
from bench.measures import Measure
from tests.support.servers.feed_server import feed_server
from tests.support.servers.ports import free_port

TITLE = "Fan-out of a stream"
READERS = (100, 1_000)
TURNS = 3
COMMITS_A_SECOND = 20
POINTER = "cat/1/heads/main"
MARK = b'"fan-out"'
"""Stands once in every Change."""
STREAM = f"/feed/v1/default/stream?pointer={POINTER}&after=latest&heartbeat=300"
COMMIT = "/feed/v1/default/commit"


class Fanned(NamedTuple):
    cpu_seconds: float
    frames: int
    short: int
    """Readers that did not get every commit."""
    commit_p50_ms: float


def run(context: Context) -> Iterator[Measure]:
    if "sqlite" not in context.kinds:
        return
    commits = max(20, int(context.seconds * COMMITS_A_SECOND))
    with tempfile.TemporaryDirectory() as folder, feed_server(f"sqlite:///{folder}/lake.db") as server, _floor() as floor:

        def served(readers: int) -> Fanned:
            return _fan_out(server.port, STREAM, COMMIT, readers, commits, lambda: cpu_seconds(server))

        for readers in READERS:
            alone, ours, least = [], [], []
            for _ in range(TURNS):
                alone.append(served(0))
                ours.append(served(readers))
                least.append(_fan_out(floor.port, "/stream", "/commit", readers, commits, floor.cpu_seconds))
            yield from _measures(f"{readers:,} readers", alone, ours, least)


def _measures(subject: str, alone: list[Fanned], ours: list[Fanned], least: list[Fanned]) -> Iterator[Measure]:
    of_commits = min(one.cpu_seconds for one in alone)
    frame = min((one.cpu_seconds - of_commits) / one.frames for one in ours)
    floor = min(one.cpu_seconds / one.frames for one in least)
    commit, commit_alone = (min(one.commit_p50_ms for one in turns) for turns in (ours, alone))
    yield Measure("fan-out", subject, "frame", 1e6 * frame, "µs of CPU")
    yield Measure("fan-out", subject, "frame, in-memory floor", 1e6 * floor, "µs of CPU")
    yield Measure("fan-out", subject, "frame against floor", frame / floor, "× CPU time")
    yield Measure("fan-out", subject, "commit, no readers", commit_alone, "ms, p50")
    yield Measure("fan-out", subject, "commit", commit, "ms, p50")
    yield Measure("fan-out", subject, "commit, in-memory floor", min(one.commit_p50_ms for one in least), "ms, p50")
    yield Measure("fan-out", subject, "commit against no readers", commit / commit_alone, "× time")
    yield Measure("fan-out", subject, "short of an entry", sum(one.short for one in ours), "readers")


def _fan_out(port: int, stream: str, commit: str, readers: int, commits: int, cpu: Callable[[], float]) -> Fanned:
    """The readers are in a process of their own; all are there before the first commit."""
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    reading = context.Process(target=_read, args=(port, stream, readers, commits, results))
    reading.start()
    assert results.get(timeout=120) == "ready"
    before = cpu()
    waits = _commit(port, commit, commits)
    frames, short = results.get(timeout=120)
    used = cpu() - before
    reading.join()
    return Fanned(used, frames, short, 1e3 * statistics.median(waits))


def _commit(port: int, path: str, commits: int) -> list[float]:
    """How long each commit took, at a steady rate."""
    waits = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.perf_counter()
    for number in range(commits):
        time.sleep(max(0.0, began + number / COMMITS_A_SECOND - time.perf_counter()))
        content = {"metadata_location": f"s3://lake/t/{number}.json", "snapshot_id": number, "schema_id": 0}
        operation = {"op": "put", "key": ["t"], "type": "ICEBERG_TABLE", "content": content}
        body = json.dumps({"catalog": "lake", "operations": [operation], "author": "bench", "message": "fan-out"})
        sent = time.perf_counter()
        connection.request("POST", path, body)
        answer = connection.getresponse()
        answer.read()
        waits.append(time.perf_counter() - sent)
        if answer.status != 200:
            raise ConnectionError(f"the server answered {answer.status}")
    connection.close()
    return waits


def _read(port: int, stream: str, readers: int, commits: int, results: Any) -> None:
    """Until every reader has everything, or nothing more comes for 5 seconds."""
    selector = selectors.DefaultSelector()
    counts = [_Reader(port, stream) for _ in range(readers)]
    for reader in counts:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    deadline = time.perf_counter() + 60
    while any(not reader.is_ready for reader in counts) and time.perf_counter() < deadline:
        for key, _ in selector.select(1.0):
            key.data.receive()
    results.put("ready")
    lacking = readers
    while lacking and (found := selector.select(5.0)):
        for key, _ in found:
            before = key.data.changes
            key.data.receive()
            lacking -= before < commits <= key.data.changes
    results.put((max(1, sum(reader.frames for reader in counts)), lacking))


class _Reader:
    def __init__(self, port: int, stream: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(f"GET {stream} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.is_ready = False
        self.changes = self.frames = 0
        self._end = b""

    def receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed a stream")
        self.is_ready = self.is_ready or b"event: bookmark" in data
        whole = self._end + data
        self.changes += whole.count(MARK)
        self.frames += whole.count(b"event: changes")
        cut = max(whole.rfind(b"\n"), 0)  # marks and names of events do not cross the end of a line
        self._end = whole[cut:] if MARK not in whole[cut:] else b""


# ── the floor ───────────────────────────────────────────────────────────────────────────────────────────────


class _Floor(NamedTuple):
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)


@contextmanager
def _floor() -> Iterator[_Floor]:
    port = free_port()
    options = [
        "--interface",
        "asgi",
        "--loop",
        "asyncio",
        "--http",
        "1",
        "--no-ws",
        "--port",
        str(port),
        "--log-level",
        "error",
    ]
    command = [sys.executable, "-m", "granian", *options, "bench.fan_out_floor:app"]
    process = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    try:
        yield _Floor(port, _worker(port))
    finally:
        process.terminate()
        process.wait(30)


def _worker(port: int) -> int:
    """The process id of the floor's worker, as soon as it answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/pid")
            return int(connection.getresponse().read())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
