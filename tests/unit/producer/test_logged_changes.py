"""What a branch's own entries say of its changes is what comparing the two states says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater
from headwater import Behavior, Delete, IcebergTable, IcebergView, Put, Rename
from headwater.embedded import CatalogHandle
from headwater.persistence.index.view import Index
from headwater.persistence.log.log_entry import LogRecord
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import key_changes
from headwater.producer.merging.logged_changes import ENTRIES_MAX, OPERATIONS_MAX, logged_changes

TABLES = 300


@pytest.fixture
def lake() -> Iterator[CatalogHandle]:
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([put(f"t{number}") for number in range(TABLES)])
        lake.create_branch("dev")
        yield lake


def put(name: str, place: str = "0") -> Put:
    return Put((name,), IcebergTable(f"s3://lake/{name}/{place}"))


HISTORY: list[list[CatalogOperation]] = [
    [put("t1", "1"), put("new")],
    [Delete(("t2",)), put("t1", "2")],
    [Rename(("t3",), ("renamed",))],
    [Rename(("new",), ("t3",))],
    [put("t1", "0")],
    [Delete(("t4",))],
    [Put(("t4",), IcebergView("s3://lake/view"))],
    [Delete(("renamed",)), put("t2")],
]


def entries(lake: CatalogHandle, branch: str = "dev") -> list[LogRecord]:
    walk, head = lake.realm.kernel.walk, lake.references.resolve(branch).logged
    return walk.between(head, 1, head.entry.seq)


def compared(lake: CatalogHandle, base: LogRecord, source: LogRecord) -> bool:
    """Whether the entries say anything; then they say what the states say."""
    kernel = lake.realm.kernel
    logged = logged_changes(kernel.walk, base, source)
    assert logged in (None, key_changes(kernel, base, source))
    return logged is not None


def test_between_any_two_commits_of_a_branch_entries_and_states_give_the_same_diff(lake: CatalogHandle) -> None:
    for operations in HISTORY:
        lake.branch("dev").commit(operations)
    lake.branch().commit([put("from-main"), put("t1", "main")])
    lake.merge("main", "dev", rules=MergeRules(default=Behavior.FORCE))
    beginning, *commits = entries(lake)
    assert len(commits) == len(HISTORY) + 1
    for at, base in enumerate([beginning, *commits]):
        assert all(compared(lake, base, source) for source in commits[at:])


def test_states_are_compared_where_the_entries_do_not_suffice(lake: CatalogHandle) -> None:
    main = lake.references.resolve("main").logged
    lake.branch().commit([put("meanwhile")])
    lake.branch("dev").assign("main")
    lake.branch("dev").commit([put("new")])
    assert not compared(lake, main, lake.references.resolve("dev").logged), "an assign moved the branch in between"
    lake.create_branch("long")
    for number in range(ENTRIES_MAX + 1):
        lake.branch("long").commit([put("t1", str(number))])
    assert not compared(lake, lake.references.resolve("main").logged, lake.references.resolve("long").logged)
    lake.create_branch("wide")
    lake.branch("wide").commit([put(f"w{number}") for number in range(OPERATIONS_MAX + 1)])
    assert not compared(lake, lake.references.resolve("main").logged, lake.references.resolve("wide").logged)


def test_a_merge_of_one_key_looks_up_that_key_and_its_parents(lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those of the part of the index that the branch has flushed for itself, or its target has."""
    for number in range(3):
        lake.create_branch(f"job-{number}")
        lake.branch(f"job-{number}").commit([put(f"job-{number}")])
        lake.branch().commit([put(f"beside-{at}", str(number)) for at in range(60)])
    looked_up: list[bytes] = []
    get_many = Index.get_many

    def counting(self: Index, keys: Iterator[bytes]) -> object:
        looked_up.extend(wanted := list(keys))
        return get_many(self, wanted)

    monkeypatch.setattr(Index, "get_many", counting)
    for number in range(3):
        lake.merge(f"job-{number}")
    assert 3 <= len(looked_up) <= 3 * 4
