"""kill -9 of a serving worker under writers that retry with their key: nothing acknowledged is lost, nothing lands twice."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import headwater
from tests.support.servers.feed_server import FeedServer, feed_server

WRITERS = 8
KILLS = 5 if os.environ.get("HEADWATER_SOAK") == "1" else 1
KILLS_MAX = 5
"""A kill may meet no request: then another one follows."""
COMMITS_BETWEEN_KILLS = 40
CRASH_LOOP_SECONDS = 6
"""Two deaths within five seconds are a crash loop, and the server ends."""


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


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def workers_of(server: FeedServer) -> list[int]:
    return [line["worker"] for line in server.log if line["message"] == "serving"]


@pytest.mark.parametrize("workers", [1, 2])
def test_kills_under_writers_lose_and_duplicate_nothing(tmp_path: Path, workers: int) -> None:
    """With two workers, most commits are handed over to the one that holds the lane: it is killed, or its sender is."""
    acknowledged: dict[str, str] = {}
    lost_answers: list[str] = []
    faults: list[BaseException] = []
    with feed_server(f"sqlite:///{tmp_path}/lake.db", "--workers", str(workers)) as server:

        def write(writer: int) -> None:
            try:
                for number in itertools.count():
                    if enough.is_set():
                        return
                    key = f"w{writer}-{number}"
                    acknowledged[key] = commit_until_answered(server, key, lost_answers)
            except BaseException as error:
                faults.append(error)

        def wait_for_commits() -> None:
            wanted = len(acknowledged) + COMMITS_BETWEEN_KILLS
            wait_until(lambda: len(acknowledged) >= wanted or bool(faults))

        enough = threading.Event()
        writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        kills = 0
        while kills < KILLS or (not lost_answers and kills < KILLS_MAX):
            if kills:
                time.sleep(CRASH_LOOP_SECONDS)
            wait_for_commits()
            os.kill(workers_of(server)[-1], signal.SIGKILL)
            kills += 1
            wait_until(lambda started=kills + workers: len(workers_of(server)) >= started)  # type: ignore[misc]
        wait_for_commits()
        enough.set()
        for writer in writers:
            writer.join()
    assert not faults, faults
    assert lost_answers, "no kill met a request"
    with headwater.open(server.store_url) as engine:
        log = list(engine.realm().catalog("lake").branch().changes())
    assert [change.seq for change in log] == list(range(1, len(log) + 1))
    by_key = {change.request_id: change.commit_id for change in log[1:]}
    assert len(by_key) == len(log) - 1 == len(acknowledged), "each request landed once"
    assert by_key == acknowledged
