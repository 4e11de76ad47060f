"""Sends the requests of several clients from a process of its own over plain sockets, and counts the responses.

Answers are counted and, unless a client wants them, not parsed, so that it is not the client that is measured.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.support.servers.feed_server import FeedServer

CLIENTS = 8

MakeRequest = Callable[[int, int], bytes]
"""From the number of the client and of the request."""


class Client(Protocol):
    """Has one request in flight, on a connection that is kept."""

    refused: int

    def request(self) -> bytes: ...

    def answered(self, status: int, body: bytes) -> int:
        """How much was done with that answer."""


class Counts(NamedTuple):
    done: list[int]
    """By client, in the time that was measured."""
    refused: int
    sent: int
    """In all, the warm-up included."""
    waits_seconds: list[float]
    """From sending to having the whole answer, sorted, in the time that was measured."""


def load(port: int, make: MakeRequest, seconds: float) -> tuple[float, int]:
    """The rate, and how many requests were sent in all."""
    counts = run_clients(port, plain_clients(make), seconds)
    return sum(counts.done) / seconds, counts.sent


def plain_clients(make: MakeRequest) -> list[Client]:
    """That only want good answers."""
    return [_Plain(number, make) for number in range(CLIENTS)]


def run_clients(port: int, clients: Sequence[Client], seconds: float) -> Counts:
    """All clients are in one process of their own."""
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    generator = context.Process(target=_generate, args=(port, clients, seconds, results))
    generator.start()
    counts = results.get(timeout=seconds * 3 + 60)
    generator.join()
    if isinstance(counts, str):
        raise ConnectionError(counts)
    found: Counts = counts
    return found


def cpu_seconds(server: FeedServer) -> float:
    """Of all workers that live, since they began."""
    workers = {line["worker"] for line in server.log if line["message"] == "serving"}
    return sum(process_cpu_seconds(worker) for worker in workers if Path(f"/proc/{worker}").exists())


def process_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _generate(port: int, clients: Sequence[Client], seconds: float, results: Any) -> None:
    try:
        results.put(_counted(port, clients, seconds))
    except BaseException as fault:
        results.put(repr(fault))
        raise


def _counted(port: int, clients: Sequence[Client], seconds: float) -> Counts:
    selector = selectors.DefaultSelector()
    connections = [_Connection(port, client) for client in clients]
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send()
    warm = time.perf_counter() + min(1.0, seconds / 2)
    started, refused = 0.0, 0
    while True:
        now = time.perf_counter()
        if not started and now >= warm:
            started, refused = now, sum(client.refused for client in clients)
            for connection in connections:
                connection.done = 0
                connection.waits_seconds = []
        elif started and now - started >= seconds:
            break
        for key, _ in selector.select(1.0):
            key.data.receive()
    refused = sum(client.refused for client in clients) - refused
    waits = sorted(wait for one in connections for wait in one.waits_seconds)
    return Counts([one.done for one in connections], refused, sum(one.sent for one in connections), waits)


class _Connection:
    """Sends the next request when the answer to the last is whole."""

    def __init__(self, port: int, client: Client) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        self._received = bytearray()
        self._whole = 0
        self._head = b""
        self.done = self.sent = 0
        self.waits_seconds: list[float] = []
        self._begun = 0.0

    def send(self) -> None:
        self._begun = time.perf_counter()
        self.socket.sendall(self._client.request())
        self.sent += 1

    def receive(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed a connection that was to be kept")
        self._received += data
        if not self._whole and not self._read_head():
            return
        if len(self._received) < self._whole:
            return
        body, self._received, self._whole = bytes(self._received[len(self._head) :]), bytearray(), 0
        self.waits_seconds.append(time.perf_counter() - self._begun)
        self.done += self._client.answered(int(self._head[9:12]), body)
        self.send()

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = bytes(self._received[: end + 4])
        length = self._head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        self._whole = len(self._head) + (int(length) if length else 0)
        return True


class _Plain:
    """Wants nothing of an answer but that it is good."""

    def __init__(self, number: int, make: MakeRequest) -> None:
        self._number, self._make, self._made = number, make, 0
        self.refused = 0

    def request(self) -> bytes:
        self._made += 1
        return self._make(self._number, self._made - 1)

    def answered(self, status: int, body: bytes) -> int:
        if status not in (200, 204, 304):
            raise ConnectionError(f"the server answered {status}: {body[:500]!r}")
        return 1
