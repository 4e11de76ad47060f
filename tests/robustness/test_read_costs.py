"""What reads of a branch cost where its head or a difference is large, counted in objects, bytes and entries hashed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle
from headwater.persistence.index import END, START, Index
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.content.snapshots import Snapshots
from headwater.producer.history.reference_log import ReferenceLog
from headwater.service.nessie.operations.diffs import read_diff
from headwater.service.nessie.operations.key_ranges import KeyRange
from tests.support.models.counted_work import counted_work

KEYS = 20_000
PAGE = 100


@pytest.fixture(scope="module")
def lake() -> Iterator[CatalogHandle]:
    """`main` has a small head, `large` one of 20,000 keys."""
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([Put(("before",), IcebergTable("s3://0"))])
        lake.create_branch("large")
        lake.branch("large").commit([Put((f"t{n:05d}",), IcebergTable(f"s3://lake/{n}")) for n in range(KEYS)])
        lake.branch().commit([Put(("after",), IcebergTable("s3://1"))])
        yield lake


@pytest.mark.parametrize("branch", ["main", "large"])
def test_a_head_is_looked_at_without_its_operations(lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, branch: str) -> None:
    kernel, pointer = lake.realm.kernel, lake.branch(branch).pointer
    looks = [
        lambda: lake.branch(branch).info(),
        lambda: lake.references.resolve(branch),
        lambda: PointerLog(kernel, pointer).head(),
    ]
    for look in looks:
        with counted_work(kernel, monkeypatch) as cold:
            look()
        assert cold.objects_read <= 2, cold
        assert cold.bytes_read < 4_000, cold
        assert cold.operations_hashed <= 1, cold
        with counted_work(kernel, monkeypatch, cold=False) as warm:
            look()
        assert (warm.objects_read, warm.hashes) == (0, 0)


def test_an_entry_is_hashed_once_for_as_long_as_it_is_cached(lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = lake.realm.kernel
    head = PointerLog(kernel, lake.branch("large").pointer).head().newest
    with counted_work(kernel, monkeypatch) as first:
        assert len(kernel.walk.load(head.entry_id).entry.operations) == KEYS
    assert (first.hashes, first.operations_hashed) == (1, KEYS)
    with counted_work(kernel, monkeypatch, cold=False) as again:
        assert len(kernel.walk.load(head.entry_id).entry.operations) == KEYS
        assert len(kernel.walk.whole(head).entry.operations) == KEYS
    assert (again.hashes, again.objects_read) == (0, 0)


def test_entries_committed_by_this_process_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with headwater.open("memory://", create=True) as engine:
        branch = engine.ensure_realm().ensure_catalog("lake").branch()
        with counted_work(engine.realm().kernel, monkeypatch, cold=False) as work:
            branch.commit([Put(("t",), IcebergTable("s3://0"))])
            branch.info()
            assert len(list(branch.changes())) > 0
        assert work.hashes == 1, "the commit's own"


def test_a_page_of_a_diff_reads_as_many_keys_as_it_shows(lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = lake.realm.kernel
    before, after = (lake.references.resolve(name).logged for name in ("main", "large"))
    looked_up = 0
    get_many = Index.get_many

    def counting(index: Index, keys: list[bytes]) -> object:
        nonlocal looked_up
        looked_up += len(keys)
        return get_many(index, keys)

    monkeypatch.setattr(Index, "get_many", counting)
    range_of_all = KeyRange()
    assert range_of_all.bounds() == (START, END)
    with counted_work(kernel, monkeypatch) as work:
        page = read_diff(kernel, before, after, range_of_all, behind=b"", limit=PAGE, filter=None)
    assert len(page.changes) == PAGE
    assert looked_up <= 2 * 2 * (PAGE + 1), "keys are looked up on both sides, at most one portion too many"
    assert work.objects_read <= PAGE + 1 + 12, "the contents of the page, and index objects"


def test_a_page_of_a_large_state_reads_its_own_contents_and_no_operations(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = lake.realm.kernel
    snapshots, at = Snapshots(kernel, lake.info.id), lake.references.resolve("large").logged
    first = snapshots.page(at, limit=PAGE)
    kernel.walk.load(at.entry_id)
    for token in (None, first.next_token):
        with counted_work(kernel, monkeypatch, cold=False) as warm:
            assert len(snapshots.page(at, limit=PAGE, token=token).entries) == PAGE
        assert warm.hashes == 0
    with counted_work(kernel, monkeypatch) as cold:
        at = lake.references.resolve("large").logged
        assert len(snapshots.page(at, limit=PAGE).entries) == PAGE
    assert cold.objects_read <= PAGE + 1 + 12, cold
    assert cold.operations_hashed == 0, cold


def test_an_older_large_entry_is_found_without_its_operations_once_it_was_hashed(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_branch("on-top", "large")
    kernel, log = lake.realm.kernel, PointerLog(lake.realm.kernel, lake.branch("large").pointer)
    large = log.head().newest
    lake.branch("large").commit([Put(("t00000",), IcebergTable("s3://lake/again"))])
    try:
        kernel.walk.load(large.entry_id)
        with counted_work(kernel, monkeypatch, cold=False) as work:
            found = kernel.walk.at(log.head().newest, large.entry.seq)
            assert found.entry_id == large.entry_id
            assert len(kernel.walk.whole(found).entry.operations) == KEYS
        assert (work.hashes, work.objects_read) == (0, 0)
    finally:
        lake.references.assign("large", "on-top", meta=CommitMeta("test"))


@pytest.mark.parametrize("branches", [20, 200])
def test_a_page_of_branches_reads_as_many_heads_as_it_shows(monkeypatch: pytest.MonkeyPatch, branches: int) -> None:
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        for number in range(branches):
            lake.create_branch(f"b{number:03d}")
        with counted_work(lake.realm.kernel, monkeypatch) as work:
            assert len(lake.references.list(limit=10).references) == 10
        assert work.objects_read <= 11, work
        assert work.hashes == 0


@pytest.mark.parametrize("branches", [20, 100])
def test_a_page_of_the_reference_log_reads_the_head_of_every_reference(monkeypatch: pytest.MonkeyPatch, branches: int) -> None:
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        for number in range(branches):
            lake.create_branch(f"b{number:03d}")
        log = ReferenceLog(lake.realm.kernel, lake.info.id)
        with counted_work(lake.realm.kernel, monkeypatch) as work:
            assert len(log.page(limit=10).changes) == 10
        assert branches <= work.objects_read <= branches + 1 + 10, work
