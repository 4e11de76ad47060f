"""A committing process is killed with SIGKILL, again and again: what it acknowledged is in the log once, nothing is torn."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.support.fixtures.contract_stores import fresh_url
from tests.support.models.commit_harness import REALM, checked_log, folded, new_store, request_ids, state_at, store_on
from tests.support.processes.commit_process import CommitProcess

ROUNDS = 20 if os.environ.get("HEADWATER_SOAK") == "1" else 5


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_acknowledged_commit_survives_a_kill_and_the_next_process_continues(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = fresh_url(kind, request, tmp_path)
    chance = random.Random(7)
    acknowledged: list[str] = []
    unprinted = 0
    with new_store(url) as store:
        successor = CommitProcess(url, "0", with_others=7)
        for number in range(1, ROUNDS + 1):
            victim, successor = successor, CommitProcess(url, str(number), with_others=7)  # starts while the victim works
            victim.wait_ready()
            victim.begin()
            acknowledged += victim.read_acknowledged(8 * chance.randint(1, 20))
            time.sleep(chance.random() * 0.01)  # somewhere within a commit
            acknowledged += victim.kill()
            kernel = store_on(store.backend).kernel(REALM)
            entries = checked_log(kernel)
            ids = request_ids(entries)
            assert len(set(ids)) == len(ids)
            # In order, and nothing between: per process, all it printed and at most one batch that it could not print.
            assert [id for id in ids if id in set(acknowledged)] == acknowledged
            unprinted = len(ids) - len(acknowledged)
            assert unprinted <= 8 * number
            assert state_at(kernel, entries[-1]) == folded(entries)
        successor.kill()
    assert len(acknowledged) > 8 * ROUNDS
