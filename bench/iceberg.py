"""Measures a real server on SQLite and local files: tables created, updated and loaded per second over Iceberg REST.

The load is that of `bench/http_load.py`: other processes over plain sockets. A client of one table that is refused because
another was faster loads the table and tries again, as engines do; only updates that landed are counted.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import httpx

from bench.context import Context
from bench.http_load import CLIENTS, cpu_seconds, load, run_clients
from bench.measures import Measure
from tests.support.servers.feed_server import FeedServer, feed_server

TITLE = "Iceberg REST"
SUBJECT = "sqlite, 1 worker"
BASE = "/iceberg/v1/lake/namespaces"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": f"column_{number}", "type": kind, "required": False}
        for number, kind in enumerate(["long", "string", "double", "timestamptz", "date"] * 2, 1)
    ],
}


def run(context: Context) -> Iterator[Measure]:
    if "sqlite" not in context.kinds:
        return
    seconds = max(2.0, context.seconds)
    with tempfile.TemporaryDirectory() as folder, feed_server(f"sqlite:///{folder}/lake.db") as server:
        httpx.post(f"{server.url}{BASE}", json={"namespace": ["db"]}).raise_for_status()
        locations = [create(server, f"own{client}") for client in range(CLIENTS)]
        yield from measured(server, "create", creating, seconds)
        yield from measured(server, "update", updating, seconds)
        yield from measured(server, "load", loading, seconds)
        create(server, "shared")
        yield from one_table(server, locations[0], seconds)


def measured(server: FeedServer, name: str, make: Any, seconds: float) -> Iterator[Measure]:
    used_before = cpu_seconds(server)
    rate, requests = load(server.port, make, seconds)
    used = cpu_seconds(server) - used_before
    yield Measure("iceberg", SUBJECT, f"{name}, {CLIENTS} clients", rate, "req/s")
    yield Measure("iceberg", SUBJECT, f"{name}, time on core", 1e6 * used / requests, "µs/req")


def create(server: FeedServer, name: str) -> str:
    answer = httpx.post(f"{server.url}{BASE}/db/tables", json={"name": name, "schema": SCHEMA})
    answer.raise_for_status()
    location: str = answer.json()["metadata"]["location"]
    return location


def creating(client: int, number: int) -> bytes:
    return posted(f"{BASE}/db/tables", {"name": f"t{client}_{number}_{time.time_ns()}", "schema": SCHEMA})


def updating(client: int, number: int) -> bytes:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"number": str(number)}}]}
    return posted(f"{BASE}/db/tables/own{client}", body)


def loading(client: int, number: int) -> bytes:
    return f"GET {BASE}/db/tables/own{client} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def posted(path: str, value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


# ── one table, many writers ─────────────────────────────────────────────────────────────────────────────────


class Appender:
    """Loads the table, adds a snapshot to what it holds, and begins again if another was faster."""

    def __init__(self, client: int, table: str, location: str) -> None:
        self._path, self._client, self._location = f"{BASE}/db/tables/{table}", client, location
        self._parent: dict[str, Any] | None = None
        self._sequence = 0
        self._loads = True
        self._ids = 0
        self.refused = 0

    def request(self) -> bytes:
        if self._loads:
            return f"GET {self._path}?snapshots=refs HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        return posted(self._path, self._append())

    def answered(self, status: int, body: bytes) -> int:
        """How many updates landed with it."""
        if status == 409:
            self._loads, self.refused = True, self.refused + 1
            return 0
        if status != 200:
            raise ConnectionError(f"the server answered {status}: {body[:500]!r}")
        metadata = json.loads(body)["metadata"]
        current = metadata.get("current-snapshot-id")
        self._parent = next((one for one in metadata.get("snapshots", []) if one["snapshot-id"] == current), None)
        self._sequence = metadata["last-sequence-number"]
        landed, self._loads = not self._loads, False
        return int(landed)

    def _append(self) -> dict[str, Any]:
        """⚠ The snapshot before its parent goes along: metadata that grows would make every update slower than the last."""
        self._ids += 1
        id = self._client + CLIENTS * self._ids + 1
        parent = self._parent
        snapshot: dict[str, Any] = {
            "snapshot-id": id,
            "sequence-number": self._sequence + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{self._location}/metadata/snap-{id}.avro",
            "summary": {"operation": "append", "added-records": "1"},
            "schema-id": 0,
        }
        updates: list[dict[str, Any]] = [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
        ]
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent["snapshot-id"]
            updates.append({"action": "remove-snapshots", "snapshot-ids": [parent["snapshot-id"]]})
        held = None if parent is None else parent["snapshot-id"]
        return {"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": held}], "updates": updates}


def one_table(server: FeedServer, location: str, seconds: float) -> Iterator[Measure]:
    appenders = [Appender(client, "shared", location) for client in range(CLIENTS)]
    counts = run_clients(server.port, appenders, seconds)
    landed, refused = counts.done, counts.refused
    name = f"one table, {CLIENTS} writers"
    yield Measure("iceberg", SUBJECT, name, sum(landed) / seconds, "updates/s")
    yield Measure("iceberg", SUBJECT, f"{name}, refused", 100 * refused / (refused + sum(landed)), "%")
    yield Measure("iceberg", SUBJECT, f"{name}, slowest of them", min(landed) / seconds, "updates/s")
