"""Measures a real server on PostgreSQL: commits and reads per second over the Nessie-compatible API.

Each client writes a table of its own on one branch, once without saying what it has seen and once at the hash of its own last
commit, as Nessie's client does: then the commits of the others since are looked through for its key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from bench.context import Context
from bench.http_load import CLIENTS, Client, cpu_seconds, run_clients
from bench.measures import Measure
from bench.stores import fresh_store_url
from tests.support.servers.feed_server import FeedServer, feed_server

TITLE = "Nessie-compatible API"
KINDS = ("sqlite", "postgresql")
COMMIT = b"POST /api/v2/trees/%b/history/commit HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"


def run(context: Context) -> Iterator[Measure]:
    seconds = max(2.0, context.seconds)
    for kind in [kind for kind in KINDS if kind in context.kinds]:
        with fresh_store_url(kind, context.console) as url, feed_server(url) as server:
            subject = f"{kind}, 1 worker"
            writers = [Writer(f"plain{number}", at_hash=False) for number in range(CLIENTS)]
            yield from measured(server, subject, "commits", writers, seconds)
            writers = [Writer(f"hash{number}", at_hash=True) for number in range(CLIENTS)]
            yield from measured(server, subject, "commits at a hash", writers, seconds)
            for name, target in READS.items():
                yield from measured(server, subject, name, [Reader(target) for _ in range(CLIENTS)], seconds)


def measured(server: FeedServer, subject: str, name: str, clients: Sequence[Client], seconds: float) -> Iterator[Measure]:
    used_before = cpu_seconds(server)
    counts = run_clients(server.port, clients, seconds)
    used = cpu_seconds(server) - used_before
    yield Measure("nessie", subject, f"{name}, {CLIENTS} clients", sum(counts.done) / seconds, "req/s")
    waits = counts.waits_seconds
    yield Measure("nessie", subject, f"{name}, {CLIENTS} clients", 1_000 * waits[int(len(waits) * 0.99)], "ms, p99")
    yield Measure("nessie", subject, f"{name}, time on core", 1e6 * used / counts.sent, "µs/req")


READS = {
    "one content": "/api/v2/trees/main/contents/plain0",
    "newest 10 of history": "/api/v2/trees/main/history?max-records=10&fetch=ALL",
    "entries": "/api/v2/trees/main/entries",
}


class Writer:
    """Makes its table, then replaces it again and again."""

    def __init__(self, table: str, *, at_hash: bool) -> None:
        self._table, self._at_hash = table, at_hash
        self._id: str | None = None
        self._hash = ""
        self._number = 0
        self.refused = 0

    def request(self) -> bytes:
        self._number += 1
        location = f"s3://lake/{self._table}/{self._number}.json"
        content = {"type": "ICEBERG_TABLE", "metadataLocation": location, "snapshotId": self._number, "schemaId": 0}
        put = {"type": "PUT", "key": {"elements": [self._table]}, "content": {**content, "specId": 0, "sortOrderId": 0}}
        if self._id is not None:
            put["content"]["id"] = self._id  # type: ignore[index]
        body = json.dumps({"commitMeta": {"message": "m"}, "operations": [put]}).encode()
        reference = f"main@{self._hash}" if self._at_hash and self._hash else "main"
        return COMMIT % (reference.encode(), len(body), body)

    def answered(self, status: int, body: bytes) -> int:
        if status != 200:
            raise ConnectionError(f"the server answered {status}: {body[:500]!r}")
        told = json.loads(body)
        self._hash = told["targetBranch"]["hash"]
        for added in told["addedContents"]:
            self._id = added["contentId"]
        return 1


class Reader:
    def __init__(self, target: str) -> None:
        self._request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self.refused = 0

    def request(self) -> bytes:
        return self._request

    def answered(self, status: int, body: bytes) -> int:
        if status != 200:
            raise ConnectionError(f"the server answered {status}: {body[:500]!r}")
        return 1
