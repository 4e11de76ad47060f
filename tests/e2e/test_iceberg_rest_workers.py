"""Several workers behind one port: whoever was answered finds what it wrote, whichever worker it asks next."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.feed_server import feed_server
from tests.iceberg_lake import table_body

ROUNDS = 25


def test_a_commit_is_found_through_every_worker(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/lake.db", "--workers", "2") as server:
        base = f"{server.url}/iceberg/v1/lake/namespaces"
        httpx.post(base, json={"namespace": ["db"]}).raise_for_status()
        httpx.post(f"{base}/db/tables", json=table_body("t")).raise_for_status()
        for number in range(ROUNDS):  # each request on a connection of its own: the system chooses the worker
            updates = [{"action": "set-properties", "updates": {"number": str(number)}}]
            httpx.post(f"{base}/db/tables/t", json={"requirements": [], "updates": updates}).raise_for_status()
            for _ in range(3):
                loaded = httpx.get(f"{base}/db/tables/t").json()
                assert loaded["metadata"]["properties"] == {"number": str(number)}
        answered = {line["worker"] for line in server.log if line["message"] == "serving"}
        assert len(answered) == 2
