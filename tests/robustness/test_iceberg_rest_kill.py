"""The server is killed while engines append through the Iceberg API: what was acknowledged is there, and nothing twice."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import pytest

from tests.support.fixtures.iceberg_lake import table_body
from tests.support.servers.served import ServedStore

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
KILLS = 20 if SOAK else 2
WRITERS = 3
TABLE = "/iceberg/v1/lake/namespaces/db/tables/t"


class Writer(threading.Thread):
    """Appends one snapshot after the other; whatever has no answer is sent again under its key."""

    def __init__(self, server: ServedStore, number: int, stop: threading.Event) -> None:
        super().__init__()
        self._server, self._number, self._stop_asked = server, number, stop
        self.acknowledged: list[int] = []
        self.unanswered = 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self._server.url, timeout=20) as http:
                while not self._stop_asked.is_set():
                    self._append(http)
        except BaseException as fault:
            self.fault = fault

    def _append(self, http: httpx.Client) -> None:
        metadata = self._sent(http, "GET", f"{TABLE}?snapshots=refs", None, None).json()["metadata"]
        id = int(uuid.uuid4()) >> 66
        snapshot: dict[str, Any] = {
            "snapshot-id": id,
            "sequence-number": metadata["last-sequence-number"] + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{metadata['location']}/snap-{id}.avro",
            "summary": {"operation": "append", "writer": str(self._number)},
        }
        parent = metadata.get("current-snapshot-id")
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        body = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
            ],
        }
        answer = self._sent(http, "POST", TABLE, body, str(uuid.uuid4()))
        if answer.status_code == 200:
            self.acknowledged.append(id)
        else:
            assert answer.status_code == 409, answer.text

    def _sent(self, http: httpx.Client, method: str, path: str, body: Any, key: str | None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = http.request(method, path, headers=headers, **({} if body is None else {"json": body}))
                if answer.status_code < 500:
                    return answer
            except httpx.TransportError:
                self.unanswered += 1
            assert time.monotonic() < deadline, "no answer came"
            time.sleep(0.05)


def test_appends_survive_kills_of_the_server_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_IDEMPOTENCY_RUNNING_SECONDS", "1")  # a dead server's claim on a key is soon over
    server = ServedStore(f"sqlite:///{tmp_path}/lake.db")
    server.start()
    stop = threading.Event()
    try:
        httpx.post(f"{server.url}/iceberg/v1/lake/namespaces", json={"namespace": ["db"]}).raise_for_status()
        httpx.post(f"{server.url}{TABLE.removesuffix('/t')}", json=table_body("t")).raise_for_status()
        writers = [Writer(server, number, stop) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            time.sleep(0.7)
            server.kill9()
            server.start()
        time.sleep(0.7)
        stop.set()
        for writer in writers:
            writer.join()
        assert [writer.fault for writer in writers] == [None] * WRITERS
        assert sum(writer.unanswered for writer in writers) >= KILLS, "no request was hit by a kill"
        loaded = httpx.get(f"{server.url}{TABLE}").json()
        there = [one["snapshot-id"] for one in loaded["metadata"]["snapshots"]]
        acknowledged = [id for writer in writers for id in writer.acknowledged]
        assert len(acknowledged) > 3 * KILLS
        assert sorted(there) == sorted(acknowledged), "an append is missing, or is there without an answer, or twice"
        told = told_locations(server)
        assert len(told) == len(set(told)) == len(there) + 1
        folder = Path(urlparse(loaded["metadata-location"]).path).parent
        assert set(told) <= {file.as_uri() for file in folder.iterdir()}, "a file that a commit names is gone"
    finally:
        stop.set()
        server.stop()


def told_locations(server: ServedStore) -> list[str]:
    found, after = [], "earliest"
    while True:
        page = httpx.get(
            f"{server.url}/feed/v1/default/changes", params={"pointer": "cat/1/heads/main", "after": after, "limit": 1000}
        ).json()
        for change in page["changes"]:
            found += [one["after"]["metadata_location"] for one in change["operations"] if one["type"] == "ICEBERG_TABLE"]
        if not page["changes"]:
            return found
        after = page["cursor"]
