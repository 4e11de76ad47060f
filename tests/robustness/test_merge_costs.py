"""What merges cost, counted in objects read and entries hashed: the bounds that docs/costs.md states."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle
from tests.support.models.counted_work import Work, counted_work

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
MERGES = 10_000 if SOAK else 600
EARLY = range(10, 34)
LATE = range(MERGES - len(EARLY), MERGES)
"""Windows as long as a tail, for how much of it a merge reads depends on where it stands."""


@pytest.fixture
def lake() -> Iterator[CatalogHandle]:
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([Put((f"k{n}",), IcebergTable("s3://0")) for n in range(20)])
        yield lake


def put(lake: CatalogHandle, branch: str, number: int) -> None:
    lake.branch(branch).commit([Put((f"k{number % 20}",), IcebergTable(f"s3://{branch}/{number}"))])


def a_branch_for_each_merge(lake: CatalogHandle, number: int) -> str:
    lake.create_branch(f"job-{number}")
    put(lake, f"job-{number}", number)
    return f"job-{number}"


def one_branch_again_and_again(lake: CatalogHandle, number: int) -> str:
    if not number:
        lake.create_branch("dev")
    put(lake, "dev", number)
    return "dev"


def two_branches_that_merge_each_other(lake: CatalogHandle, number: int) -> str:
    if not number:
        lake.create_branch("dev")
    put(lake, "dev", number)
    put(lake, "main", number + 1)
    lake.merge("main", "dev")
    return "dev"


def branches_that_overlap(lake: CatalogHandle, number: int) -> str:
    """Each is merged when four others that were made after it were merged already."""
    for ahead in range(number, number + 5) if not number else [number + 4]:
        lake.create_branch(f"job-{ahead}")
    put(lake, f"job-{number}", number)
    return f"job-{number}"


@pytest.mark.parametrize(
    "prepare",
    [a_branch_for_each_merge, one_branch_again_and_again, two_branches_that_merge_each_other, branches_that_overlap],
)
def test_a_merge_costs_the_same_after_any_number_of_merges(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[CatalogHandle, int], str]
) -> None:
    early, late = Work(), Work()
    for number in range(MERGES):
        source = prepare(lake, number)
        if number not in EARLY and number not in LATE:
            assert lake.merge(source).change is not None
            continue
        with counted_work(lake.realm.kernel, monkeypatch) as work:
            assert lake.merge(source).change is not None
        counted = early if number in EARLY else late
        counted.objects_read += work.objects_read
        counted.hashes += work.hashes
    assert early.objects_read, "nothing was counted"
    assert late.objects_read <= 1.5 * early.objects_read, f"{early} → {late}"
    assert late.hashes <= 1.5 * early.hashes, f"{early} → {late}"


@pytest.mark.parametrize("merges", [50, 200])
def test_a_branch_that_is_older_than_some_merges_reads_one_entry_for_each_of_them(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, merges: int
) -> None:
    lake.create_branch("old")
    lake.branch("old").commit([Put(("old",), IcebergTable("s3://old"))])
    for number in range(merges):
        lake.merge(a_branch_for_each_merge(lake, number))
    with counted_work(lake.realm.kernel, monkeypatch) as work:
        assert lake.merge("old").change is not None
    assert merges <= work.objects_read <= merges + 60, work
