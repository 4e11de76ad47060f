"""Several writers bump their own slots of one vector, in threads and in processes: nothing is lost, doubled or reordered."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from headwater.persistence.store import RealmKernel
from tests.support.fixtures.contract_stores import fresh_url
from tests.support.models.commit_harness import (
    MAIN,
    PATIENT,
    REALM,
    Bump,
    checked_log,
    new_store,
    request_ids,
    store_on,
    vector_of,
    whole_log,
)
from tests.support.processes.commit_process import CommitProcess

TIMEOUT_SECONDS = 120


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(kind, request, tmp_path)


def bump_in_threads(kernel: RealmKernel, writers: list[str], commits: int) -> dict[str, list[str]]:
    """Request ids by writer, in the order in which they were acknowledged."""
    acknowledged: dict[str, list[str]] = {writer: [] for writer in writers}
    failures: list[BaseException] = []

    def write(writer: str) -> None:
        try:
            for _ in range(commits):
                bump = Bump(writer=writer)
                kernel.committer.submit(MAIN, bump).result(TIMEOUT_SECONDS)
                acknowledged[writer].append(bump.request_id)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return acknowledged


def check(kernel: RealmKernel, acknowledged: dict[str, list[str]]) -> None:
    """The log both ways, dense and chained; each writer's sequence whole and in its order; nothing that nobody asked for."""
    entries = checked_log(kernel)
    assert vector_of(entries) == {writer: len(ids) for writer, ids in acknowledged.items()}
    for writer, ids in acknowledged.items():
        assert request_ids(logged for logged in entries if logged.entry.author == writer) == ids


@pytest.mark.parametrize(("kind", "commits"), [("sqlite", 2_000), ("postgresql", 150), ("cassandra", 25)])
def test_three_writers_of_one_process_share_cas_and_lose_nothing(url: str, commits: int) -> None:
    with new_store(url, retries=PATIENT) as store:
        kernel = store.kernel(REALM)
        acknowledged = bump_in_threads(kernel, ["one", "two", "three"], commits)
        stats = kernel.committer.stats
        assert stats.commits == 3 * commits and stats.cas_sent < stats.commits
        assert stats.lost == stats.unknown == 0
        check(store_on(store.backend).kernel(REALM), acknowledged)


@pytest.mark.parametrize(("kind", "commits"), [("sqlite", 100), ("postgresql", 100), ("cassandra", 30)])
def test_three_writers_in_processes_of_their_own_lose_nothing_and_none_starves(url: str, commits: int) -> None:
    with new_store(url, retries=PATIENT) as store:
        processes = {writer: CommitProcess(url, writer, commits) for writer in ("one", "two", "three")}
        try:
            for process in processes.values():
                process.wait_ready()
            for process in processes.values():
                process.begin()
            acknowledged = {writer: process.finish(TIMEOUT_SECONDS) for writer, process in processes.items()}
        finally:
            for process in processes.values():
                process.kill()
        kernel = store.kernel(REALM)
        check(kernel, acknowledged)
        assert all(len(ids) == commits for ids in acknowledged.values())
        authors = [logged.entry.author for logged in whole_log(kernel)]
        assert sum(one != other for one, other in itertools.pairwise(authors)) > 3, "they never met"
