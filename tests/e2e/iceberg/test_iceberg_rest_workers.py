"""Several workers behind one port: a client finds what it wrote, and writers of different tables never conflict."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.fixtures.iceberg_lake import table_body
from tests.support.servers.feed_server import FeedServer, feed_server

ROUNDS = 6
WRITERS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    folder: Path = tmp_path_factory.mktemp("workers")
    with feed_server(f"sqlite:///{folder}/lake.db", "--workers", "2") as started:
        httpx.post(namespaces(started), json={"namespace": ["db"]}, timeout=30).raise_for_status()
        yield started


def namespaces(server: FeedServer) -> str:
    return f"{server.url}/iceberg/v1/lake/namespaces"


def set_number(url: str, number: int) -> httpx.Response:
    """Each request on a connection of its own: the system chooses the worker."""
    updates = [{"action": "set-properties", "updates": {"number": str(number)}}]
    return httpx.post(url, json={"requirements": [], "updates": updates}, timeout=30)


def test_a_commit_is_found_through_every_worker(server: FeedServer) -> None:
    table = f"{namespaces(server)}/db/tables/seen"
    httpx.post(f"{namespaces(server)}/db/tables", json=table_body("seen"), timeout=30).raise_for_status()
    for number in range(ROUNDS):
        set_number(table, number).raise_for_status()
        for _ in range(3):
            assert httpx.get(table, timeout=30).json()["metadata"]["properties"]["number"] == str(number)
    assert len({line["worker"] for line in server.log if line["message"] == "serving"}) == 2


def test_commits_to_different_tables_never_conflict(server: FeedServer) -> None:
    def write(writer: int) -> list[int]:
        table = f"{namespaces(server)}/db/tables/own{writer}"
        httpx.post(f"{namespaces(server)}/db/tables", json=table_body(f"own{writer}"), timeout=30).raise_for_status()
        return [set_number(table, number).status_code for number in range(ROUNDS)]

    with ThreadPoolExecutor(WRITERS) as threads:
        answers = list(threads.map(write, range(WRITERS)))
    assert answers == [[200] * ROUNDS] * WRITERS


def test_commits_to_one_table_through_several_workers_are_all_kept(server: FeedServer) -> None:
    """Nothing that they require contradicts another: whoever loses a race is judged again, and not refused."""
    table = f"{namespaces(server)}/db/tables/shared"
    httpx.post(f"{namespaces(server)}/db/tables", json=table_body("shared"), timeout=30).raise_for_status()

    def write(writer: int) -> list[int]:
        answers = []
        for number in range(ROUNDS):
            updates = [{"action": "set-properties", "updates": {f"{writer}.{number}": "x"}}]
            answers.append(httpx.post(table, json={"requirements": [], "updates": updates}, timeout=30).status_code)
        return answers

    with ThreadPoolExecutor(WRITERS) as threads:
        answers = list(threads.map(write, range(WRITERS)))
    assert answers == [[200] * ROUNDS] * WRITERS
    metadata = httpx.get(table, timeout=30).json()["metadata"]
    wanted = {f"{writer}.{number}" for writer in range(WRITERS) for number in range(ROUNDS)}
    assert set(metadata["properties"]) - {"gc.enabled"} == wanted
