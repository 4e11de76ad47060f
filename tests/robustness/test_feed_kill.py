"""kill -9 of a serving worker under writers that retry with their key: nothing acknowledged is lost, nothing lands twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import httpx

import headwater
from tests.support.servers.feed_server import FeedServer, feed_server

WRITERS = 4
COMMITS_EACH = 40
KILLS = 5 if os.environ.get("HEADWATER_SOAK") == "1" else 1


def commit_until_answered(server: FeedServer, key: str, lost_answers: list[str]) -> str:
    """As a careful client does: the same request with the same key, until there is an answer."""
    body = {"catalog": "lake", "operations": [{"op": "put", "key": [key], "type": "NAMESPACE", "content": {}}]}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            answer = httpx.post(f"{server.feed}/commit", json=body, headers={"Idempotency-Key": key}, timeout=20)
        except httpx.TransportError:
            lost_answers.append(key)
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            commit_id: str = answer.json()["commit_id"]
            return commit_id
        assert answer.json()["retriable"] or answer.status_code == 503, answer.text
        time.sleep(0.05)
    raise AssertionError(f"{key} was never answered")


def workers_of(server: FeedServer) -> list[int]:
    return [line["worker"] for line in server.log if line["message"] == "serving"]


def test_kills_under_writers_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    lost_answers: list[str] = []
    with feed_server(f"sqlite:///{tmp_path}/lake.db") as server:

        def write(writer: int) -> None:
            for number in range(COMMITS_EACH):
                key = f"w{writer}-{number}"
                acknowledged[key] = commit_until_answered(server, key, lost_answers)

        writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        for kill in range(KILLS):
            wanted = (kill + 1) * WRITERS * COMMITS_EACH // (KILLS + 2)
            deadline = time.monotonic() + 60
            while len(acknowledged) < wanted and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(workers_of(server)[-1], signal.SIGKILL)
            while len(workers_of(server)) < kill + 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            if kill + 1 < KILLS:
                time.sleep(6)  # two deaths within five seconds are a crash loop, and the server ends
        for writer in writers:
            writer.join()
    assert lost_answers, "no kill met a request"
    with headwater.open(server.store_url) as engine:
        log = list(engine.realm().catalog("lake").branch().changes())
    assert [change.seq for change in log] == list(range(1, len(log) + 1))
    by_key = {change.request_id: change.commit_id for change in log[1:]}
    assert len(by_key) == len(log) - 1 == WRITERS * COMMITS_EACH, "each request landed once"
    assert by_key == acknowledged
