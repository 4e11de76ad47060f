"""A server that is read and written for long stays as large as its caches let it."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.support.servers.feed_server import FeedServer, feed_server

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
ROUNDS = 40 if SOAK else 2
REQUESTS = 1_000 if SOAK else 30
READERS = 4
GROWTH_MB_MAX = 40.0
POINTER = "cat/1/heads/main"
SETTINGS = {"cache_bytes": 4_000_000, "feed_cache_bytes": 2_000_000}


def test_memory_stays_bounded_under_polls_commits_streams_and_bad_requests(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/lake.db", settings=SETTINGS) as server:
        use(server, round=0)
        use(server, round=1)
        before = resident_mb(server)
        for round in range(2, 2 + ROUNDS):
            use(server, round)
        assert resident_mb(server) - before < GROWTH_MB_MAX
        assert no_streams(server), "readers that went are forgotten"


def use(server: FeedServer, round: int) -> None:
    with ThreadPoolExecutor(READERS) as readers:
        list(readers.map(lambda reader: use_once(server, f"r{round}-{reader}"), range(READERS)))


def use_once(server: FeedServer, name: str) -> None:
    with server.client() as http:
        for number in range(REQUESTS):
            content = {"metadata_location": f"s3://{name}/{number}/" + "x" * 2_000}
            operation = {"op": "put", "key": [name], "type": "ICEBERG_TABLE", "content": content}
            assert http.post("/commit", json={"catalog": "lake", "operations": [operation]}).status_code == 200
            assert http.get("/changes", params={"pointer": POINTER, "after": number, "limit": 20}).status_code == 200
            assert http.get("/changes", params={"pointer": f"none-{name}-{number}"}).status_code == 404
            if number % 20 == 0:
                with http.stream("GET", "/stream", params={"pointer": POINTER, "after": "latest"}) as stream:
                    next(stream.iter_lines())


def no_streams(server: FeedServer) -> bool:
    """Soon: the server learns of a reader's going when the connection ends."""
    for _ in range(100):
        if "headwater_streams 0.0" in httpx.get(f"{server.url}/metrics").text:
            return True
        time.sleep(0.1)
    return False


def resident_mb(server: FeedServer) -> float:
    worker = next(line["worker"] for line in server.log if line["message"] == "serving")
    status = Path(f"/proc/{worker}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1_000
