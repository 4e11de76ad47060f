"""What commits and walks cost, counted where the database is asked: the numbers that docs/costs.md states."""

from __future__ import annotations

import math
import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.persistence.backends.cassandra.calls import Calls
from headwater.persistence.backends.sqlite.group_commit import GroupCommit
from headwater.persistence.backends.sqlite.sqlite_connections import SqliteConnections
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import base_state
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind
from headwater.schemas.errors import CommitConflict
from tests.support.fixtures.bulk_log import append_in_bulk
from tests.support.fixtures.contract_stores import fresh_url
from tests.support.models.commit_harness import MAIN, REALM, Bump, Lanes, MoveTo, Write, new_store, store_on, whole_log

COSTS = Path(__file__).parents[2] / "docs" / "costs.md"
SOAK = os.environ.get("HEADWATER_SOAK") == "1"
READS_CONSTANT = 6


@pytest.mark.parametrize("entries", [1_000, 100_000, *([1_000_000] if SOAK else [])])
def test_the_middle_of_a_log_is_a_logarithm_of_object_reads_away_with_a_cold_cache(entries: int) -> None:
    with new_store("memory://") as store:
        append_in_bulk(store.kernel(REALM), entries)
        reads_max = 2 * math.log2(entries) + READS_CONSTANT
        chance = random.Random(entries)
        for seq in (entries // 2, entries // 2 + 1, entries // 3, 1, *(chance.randint(1, entries) for _ in range(20))):
            cold = store_on(store.backend, cache_bytes=0).kernel(REALM)
            log = PointerLog(cold, MAIN)
            assert cold.walk.at(log.head().newest, seq).entry.seq == seq
            assert cold.objects.objects_read <= reads_max
        cold = store_on(store.backend, cache_bytes=0).kernel(REALM)
        page = PointerLog(cold, MAIN).page(entries // 2, 100)
        assert [logged.entry.seq for logged in page.entries] == list(range(entries // 2 + 1, entries // 2 + 101))
        assert cold.objects.objects_read <= reads_max + 100
        assert f"2 · log₂ n + {READS_CONSTANT}" in COSTS.read_text()


class Asked:
    """How often the database itself is asked, while something is done."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._count(patch, GroupCommit, "_run_group")  # an SQLite transaction
        self._count(patch, SqliteConnections, "reader")
        self._count(patch, psycopg.Connection, "execute")
        self._count(patch, Calls, "_send")

    def _count(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        asking: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.times += threading.current_thread() is threading.main_thread()  # hints go out beside the commit
            return asking(*arguments, **options)

        patch.setattr(owner, name, counted)

    def during(self, act: Callable[[], object]) -> int:
        before = self.times
        act()
        return self.times - before


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(kind, request, tmp_path)


def scenarios(ours: Lanes, others: Lanes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each in the state that the ones before have left."""

    def conflict() -> None:
        with pytest.raises(CommitConflict):
            ours.commit(MAIN, Write(puts={"a": {"v": 1}}, expected={"a": {"v": "never"}}))

    def bump_all(count: int) -> list[Any]:
        return ours.together(MAIN, *[Bump(writer="w") for _ in range(count)])

    yield "first commit of a new pointer", lambda: ours.commit(MAIN, Write(puts={"a": {"v": 1}}))
    yield "commit", lambda: ours.commit(MAIN, Bump(writer="w"))
    yield "64 commits in one batch", lambda: bump_all(64)
    yield "commit with a request id from the caller", lambda: ours.commit(MAIN, callers())
    yield "conflict", conflict
    others.commit(MAIN, Bump(writer="others"))
    yield "commit after another process has committed", lambda: ours.commit(MAIN, Bump(writer="w"))
    branch = MoveTo(kind=Kind.CREATE, base=base_state(whole_log(others.kernel)[-1]))
    yield "create a branch", lambda: ours.commit("branch", branch)


def callers() -> Write:
    return Write(puts={"a": {"v": 2}}, request_id_is_callers=True)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "cassandra"])
def test_each_commit_calls_the_database_as_often_as_documented(url: str, kind: str, asked: Asked) -> None:
    stated = stated_costs(kind)
    found = {}
    with new_store(url) as store, new_store(url) as other_store:
        kernel: RealmKernel = store.kernel(REALM)
        store.take(1), other_store.take(1)  # node leases are not part of a commit
        ours, others = Lanes(kernel), Lanes(other_store.kernel(REALM))
        for name, act in scenarios(ours, others):
            found[name] = asked.during(act)
    assert found.keys() == stated.keys()
    assert all(times in stated[name] for name, times in found.items()), f"{found} is not what {COSTS.name} says"


def stated_costs(kind: str) -> dict[str, range]:
    """The table of docs/costs.md: one row for each scenario, one column for each database, as `2` or as `2 to 4`."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in COSTS.read_text().splitlines() if "|" in line]
    header = next(row for row in rows if kind in row)
    cells = {row[0]: re.fullmatch(r"(\d+)(?: to (\d+))?", row[header.index(kind)]) for row in rows if len(row) == len(header)}
    return {name: range(int(cell[1]), int(cell[2] or cell[1]) + 1) for name, cell in cells.items() if cell}
