"""What still grows, and with what alone: the reads that docs/costs.md names as growing are counted at two sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.history.lineage import Lineage
from tests.support.models.counted_work import counted_work

META = CommitMeta("test")
LIVE = 10


@pytest.fixture
def lake() -> Iterator[CatalogHandle]:
    with headwater.open("memory://", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([Put(("t",), IcebergTable("s3://0"))])
        yield lake


@pytest.mark.parametrize("deleted", [20, 200])
def test_a_page_of_branches_reads_one_head_for_each_deleted_name_that_it_passes_over(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    for number in range(deleted):
        lake.create_branch(f"a{number:03d}")
        lake.references.delete(f"a{number:03d}", meta=META)
    for number in range(LIVE):
        lake.create_branch(f"b{number:03d}")
    with counted_work(lake.realm.kernel, monkeypatch) as work:
        page = lake.references.list(limit=LIVE)
    assert [reference.name for reference in page.references] == [f"b{number:03d}" for number in range(LIVE)]
    assert deleted <= work.objects_read <= deleted + 2 * (LIVE + 1), work
    assert work.hashes == 0


@pytest.mark.parametrize("moves", [20, 200])
def test_a_commit_id_as_cursor_reads_at_most_two_entries_for_each_move_since(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The pointer may have come back to that commit, so each create, assign and delete since is looked at."""
    before = lake.branch().info()
    bases = []
    for name in ("one", "two"):
        lake.create_branch(name)
        bases.append(lake.branch(name).commit([Put((name,), IcebergTable("s3://1"))]).commit_id)
    for number in range(moves):
        lake.references.assign("main", bases[number % 2], meta=META)
    kernel = lake.realm.kernel
    log = PointerLog(kernel, lake.branch().pointer)
    head = log.head()
    with counted_work(kernel, monkeypatch) as work:
        assert log.position(before.commit_id, head) == before.seq
    assert moves // 2 <= work.objects_read <= 2 * moves + 20, work


@pytest.mark.parametrize("hops", [10, 100])
def test_an_ancestor_below_branches_upon_branches_reads_one_row_and_two_entries_for_each(
    lake: CatalogHandle, monkeypatch: pytest.MonkeyPatch, hops: int
) -> None:
    below, commit = "main", bytes.fromhex(lake.branch().info().commit_id)
    for number in range(hops):
        lake.create_branch(f"b{number:03d}", below)
        below = f"b{number:03d}"
        lake.branch(below).commit([Put((below,), IcebergTable("s3://1"))])
    kernel, rows_read = lake.realm.kernel, 0
    read_pointer = RealmKernel.read_pointer

    def counting(of: RealmKernel, pointer: str) -> PointerRow | None:
        nonlocal rows_read
        rows_read += 1
        return read_pointer(of, pointer)

    top = lake.references.resolve(below).logged
    monkeypatch.setattr(RealmKernel, "read_pointer", counting)
    with counted_work(kernel, monkeypatch) as work:
        found = Lineage(kernel).find(top, commit)
    assert found is not None and found.commit == commit
    assert rows_read == hops
    assert hops <= work.objects_read <= 2 * hops + 2, work
