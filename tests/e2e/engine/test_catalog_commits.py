"""Commits to a catalog's branch, through the committer, on the embedded backends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Delete, Put, Rename, Unchanged
from headwater.producer.content.content_types import IcebergTable, IcebergView, Namespace, OtherContent
from headwater.producer.references.reference_moves import AssignReference, DeleteReference
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CommitConflict, InvalidInput, ReferenceNotFound, ReferenceProtected
from tests.support.fixtures.catalog_lake import EMBEDDED, META, TAG, Lake, embedded_url, kinds_and_keys, open_lake


@pytest.fixture(params=EMBEDDED)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(embedded_url(request.param, tmp_path)) as opened:
        yield opened


def test_a_commit_is_one_change_with_values_before_and_after(lake: Lake) -> None:
    lake.commit(Put(("db",), Namespace()), Put(("db", "t"), IcebergTable("s3://1", 1, 0, 0, 0)))
    meta = CommitMeta("bob", "Move on", {"ticket": "7"})
    result = lake.commit(
        Put(("db", "t"), IcebergTable("s3://2", 2, 0, 0, 0)),
        Put(("db", "v"), IcebergView("s3://v")),
        meta=meta,
        request_id="r1",
    )
    change = result.change
    assert change is not None
    assert (change.realm, change.pointer, change.seq, change.kind) == ("test", "cat/1/heads/main", 3, "commit")
    assert (change.author, change.message, change.headers, change.request_id) == ("bob", "Move on", {"ticket": "7"}, "r1")
    assert change.commit_id == change.entry_id == result.commit_id
    update, create = change.operations
    assert update.before == {"metadata_location": "s3://1", "snapshot_id": 1, "schema_id": 0, "spec_id": 0, "sort_order_id": 0}
    assert update.after == {"metadata_location": "s3://2", "snapshot_id": 2, "schema_id": 0, "spec_id": 0, "sort_order_id": 0}
    assert create.before is None and create.type == "ICEBERG_VIEW"


def test_a_content_id_survives_updates_and_renames_but_not_a_drop(lake: Lake) -> None:
    lake.namespace("db")
    lake.put("db", "t")
    first = lake.entries(prefix=("db",))[0].content_id
    lake.put("db", "t", location="s3://two")
    lake.commit(Rename(("db", "t"), ("db", "u")))
    (renamed,) = lake.entries(prefix=("db",))
    assert (renamed.key, renamed.content_id, renamed.value) == (("db", "u"), first, {"metadata_location": "s3://two"})
    lake.commit(Delete(("db", "u")))
    lake.put("db", "u")
    assert lake.entries(prefix=("db",))[0].content_id != first


def test_all_conflicts_of_a_commit_are_reported_together_and_nothing_of_it_is_applied(lake: Lake) -> None:
    lake.namespace("db")
    lake.put("db", "t")
    before = lake.refs.get("main")
    with pytest.raises(CommitConflict) as refused:
        lake.commit(
            Put(("fine",), Namespace()),
            Put(("db", "t"), IcebergTable("s3://2"), expected=IcebergTable("s3://other")),
            Delete(("gone",)),
            Put(("nowhere", "t"), IcebergTable("s3://3")),
            expected_head=EMPTY.hex(),
        )
    assert kinds_and_keys(refused.value) == {
        ("UNEXPECTED_HASH", ()),
        ("VALUE_DIFFERS", ("db", "t")),
        ("KEY_DOES_NOT_EXIST", ("gone",)),
        ("NAMESPACE_ABSENT", ("nowhere",)),
    }
    assert lake.refs.get("main") == before
    assert lake.keys() == [("db",), ("db", "t")]


def test_a_strict_expected_head_must_be_the_head(lake: Lake) -> None:
    first = lake.commit(Put(("a",), Namespace()), expected_head=EMPTY.hex()).commit_id
    lake.commit(Put(("b",), Namespace()), expected_head=first)
    with pytest.raises(CommitConflict) as refused:
        lake.commit(Put(("c",), Namespace()), expected_head=first)
    assert kinds_and_keys(refused.value) == {("UNEXPECTED_HASH", ())}


def test_a_base_commit_conflicts_only_where_the_same_keys_have_changed_since(lake: Lake) -> None:
    lake.commit(*[Put((name,), IcebergTable("s3://1")) for name in ("kept", "changed", "dropped", "replaced", "moved")])
    base = lake.refs.get("main").commit_id
    for number in range(30):
        lake.put("others", location=f"s3://{number}")
    lake.put("changed", location="s3://2")
    lake.commit(Delete(("dropped",)))
    lake.commit(Delete(("replaced",)))
    lake.put("replaced", location="s3://1")
    lake.put("new")
    lake.commit(Rename(("moved",), ("away",)))
    lake.put("kept", location="s3://2")
    lake.put("kept", location="s3://1")

    lake.commit(Put(("kept",), IcebergTable("s3://3")), Unchanged(("nothing",)), base_commit=base)
    with pytest.raises(CommitConflict) as refused:
        lake.commit(
            Put(("changed",), IcebergTable("s3://3")),
            Unchanged(("dropped",)),
            Delete(("replaced",)),
            Put(("new",), IcebergTable("s3://3")),
            Unchanged(("moved",)),
            Put(("unrelated",), IcebergTable("s3://1")),
            base_commit=base,
        )
    assert kinds_and_keys(refused.value) == {
        ("VALUE_DIFFERS", ("changed",)),
        ("KEY_DOES_NOT_EXIST", ("dropped",)),
        ("CONTENT_ID_DIFFERS", ("replaced",)),
        ("KEY_EXISTS", ("new",)),
        ("KEY_DOES_NOT_EXIST", ("moved",)),
    }


def test_a_base_commit_may_be_on_the_branch_that_this_one_was_created_from(lake: Lake) -> None:
    lake.put("t")
    base = lake.refs.get("main").commit_id
    lake.put("u")
    lake.refs.create("dev", meta=META)
    lake.commit(Put(("t",), IcebergTable("s3://2")), on="dev", base_commit=base)
    with pytest.raises(CommitConflict) as refused:
        lake.commit(Put(("u",), IcebergTable("s3://2")), on="dev", base_commit=base)
    assert kinds_and_keys(refused.value) == {("KEY_EXISTS", ("u",))}


def test_a_base_commit_outside_of_the_branch_or_below_its_floor_is_unexpected(lake: Lake) -> None:
    lake.put("t")
    old = lake.refs.get("main").commit_id
    lake.refs.create("dev", meta=META)
    elsewhere = lake.put("t", on="dev", location="s3://2")
    lake.put("u")
    unknown = "00000000000000ff" + "0" * 48
    for base in (elsewhere, unknown):
        with pytest.raises(CommitConflict) as refused:
            lake.commit(Put(("u",), IcebergTable("s3://2")), base_commit=base)
        assert kinds_and_keys(refused.value) == {("UNEXPECTED_HASH", ())}
    lake.raise_floor(lake.pointer("main"), 3)
    with pytest.raises(CommitConflict) as refused:
        lake.commit(Put(("u",), IcebergTable("s3://2")), base_commit=old)
    assert kinds_and_keys(refused.value) == {("UNEXPECTED_HASH", ())}


def test_a_commit_of_reads_adds_no_entry_and_returns_the_head(lake: Lake) -> None:
    lake.put("t")
    head = lake.refs.get("main")
    result = lake.commit(Unchanged(("t",), IcebergTable("s3://one")))
    assert (result.change, result.commit_id, result.seq) == (None, head.commit_id, head.seq)
    with pytest.raises(InvalidInput, match="since when"):
        lake.commit(Unchanged(("t",)))


def test_an_equal_put_is_a_commit_unless_it_is_to_be_skipped(lake: Lake) -> None:
    lake.put("t")
    assert lake.commit(Put(("t",), IcebergTable("s3://one")), skip_equal_puts=True).change is None
    assert lake.commit(Put(("t",), IcebergTable("s3://one"))).change is not None
    assert lake.refs.get("main").seq == 3


def test_the_same_request_id_is_committed_once(lake: Lake) -> None:
    first = lake.commit(Put(("t",), IcebergTable("s3://1"), must_not_exist=True), request_id="once")
    again = lake.commit(Put(("t",), IcebergTable("s3://1"), must_not_exist=True), request_id="once")
    assert again.replayed and again.change == first.change
    assert lake.refs.get("main").seq == 2


def test_unknown_types_are_preserved(lake: Lake) -> None:
    paimon = OtherContent("PAIMON_TABLE", {"path": "s3://p", "levels": [1, 2]})
    lake.commit(Put(("p",), paimon))
    (entry,) = lake.entries()
    assert (entry.type, entry.value) == ("PAIMON_TABLE", paimon.value)
    lake.commit(Unchanged(("p",), paimon))
    with pytest.raises(CommitConflict) as refused:
        lake.commit(Put(("p",), OtherContent("HUDI_TABLE", {})))
    assert kinds_and_keys(refused.value) == {("PAYLOAD_DIFFERS", ("p",))}


def test_nothing_is_committed_to_a_branch_that_is_unknown_or_deleted_or_to_a_tag(lake: Lake) -> None:
    with pytest.raises(ReferenceNotFound, match="there is no branch 'nowhere'"):
        lake.put("t", on="nowhere")
    lake.refs.create("dev", meta=META)
    lake.refs.delete("dev", meta=META)
    with pytest.raises(ReferenceNotFound):
        lake.put("t", on="dev")
    assert not [name for name in lake.store.backend.list_names(lake.kernel.realm) if "nowhere" in name]
    lake.refs.create("v1", type=TAG, meta=META)
    tag = lake.refs.get("v1").pointer
    with pytest.raises(ReferenceProtected):
        lake.kernel.committer.commit(tag, CatalogCommit(lake.kernel, [Put(("t",), IcebergTable("s3://1"))], META))


def test_a_commit_of_many_keys_is_one_change(lake: Lake) -> None:
    lake.namespace("db")
    tables = [Put(("db", f"t{number:05d}"), IcebergTable(f"s3://{number}")) for number in range(5_000)]
    result = lake.commit(*tables)
    assert result.change is not None and len(result.change.operations) == 5_000
    assert len(lake.snapshots.page(lake.refs.resolve("main").logged, prefix=("db",), limit=10_000).entries) == 5_000
    log = PointerLog(lake.kernel, lake.pointer("main"))
    assert len(list(log.forward())[-1].entry.operations) == 5_000
    lake.commit(Delete(("db",)), *[Delete(put.key) for put in tables])
    assert lake.keys() == []


def test_writers_of_one_key_with_expectations_lose_nothing(lake: Lake) -> None:
    """Each writer bumps a counter by compare-and-set: the end is the number of commits that were acknowledged."""
    lake.commit(Put(("counter",), IcebergTable("s3://c", 0)))

    def bump(_: int) -> None:
        while True:
            (entry,) = lake.snapshots.get(lake.refs.resolve("main").logged, [("counter",)]).values()
            now = int(entry.value["snapshot_id"])
            try:
                lake.commit(Put(("counter",), IcebergTable("s3://c", now + 1), expected=IcebergTable("s3://c", now)))
                return
            except CommitConflict as conflict:
                assert kinds_and_keys(conflict) == {("VALUE_DIFFERS", ("counter",))}

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(bump, range(40)))
    (entry,) = lake.entries()
    assert entry.value["snapshot_id"] == 40
    assert len(lake.history()) == 41


def test_commits_of_one_batch_are_each_applied_to_what_the_one_before_leaves(lake: Lake) -> None:
    lake.put("t")
    base = lake.refs.get("main").commit_id
    batches = lake.kernel.committer.stats.batches

    def put(name: str, location: str, **how: str) -> CatalogCommit:
        return CatalogCommit(lake.kernel, [Put((name,), IcebergTable(location))], META, **how)  # type: ignore[arg-type]

    filler = [put(f"f{number}", "s3://1") for number in range(30)]
    *_, changed, other, same, strict, assigned, behind = lake.together(
        "main",
        *filler,
        put("t", "s3://2"),
        put("u", "s3://1", base_commit=base),
        put("t", "s3://3", base_commit=base),
        put("v", "s3://1", expected_head=base),
        AssignReference(lake.kernel, lake.refs.resolve(base).logged, META),
        put("t", "s3://4", base_commit=base),
    )
    assert isinstance(changed, CommitOutcome) and isinstance(other, CommitOutcome)
    assert isinstance(same, CommitConflict) and kinds_and_keys(same) == {("VALUE_DIFFERS", ("t",))}
    assert isinstance(strict, CommitConflict) and kinds_and_keys(strict) == {("UNEXPECTED_HASH", ())}
    assert isinstance(assigned, CommitOutcome) and assigned.logged is not None and assigned.logged.entry.kind == "assign"
    assert isinstance(behind, CommitOutcome)
    assert lake.kernel.committer.stats.batches - batches <= 2
    assert [entry.value for entry in lake.entries()] == [{"metadata_location": "s3://4"}]
    assert lake.refs.resolve("main~1").commit_id == base


def test_a_base_commit_that_the_same_batch_assigned_away_is_unexpected(lake: Lake) -> None:
    first = lake.put("t")
    second = lake.put("u")
    assign = AssignReference(lake.kernel, lake.refs.resolve(first).logged, META)
    late = CatalogCommit(lake.kernel, [Put(("x",), IcebergTable("s3://1"))], META, base_commit=second)
    *_, refused = lake.together("main", assign, late)
    assert isinstance(refused, CommitConflict) and kinds_and_keys(refused) == {("UNEXPECTED_HASH", ())}


def test_a_commit_after_the_delete_of_its_branch_in_one_batch_finds_no_branch(lake: Lake) -> None:
    lake.refs.create("dev", meta=META)
    commit = CatalogCommit(lake.kernel, [Put(("x",), IcebergTable("s3://1"))], META)
    deleted, refused = lake.together("dev", DeleteReference(META), commit)
    assert isinstance(deleted, CommitOutcome) and isinstance(refused, ReferenceNotFound)
