"""Branches and tags: moves, specs, histories over bases, floors, and what they cost, on the embedded backends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.log.log_entry import ENTRY, change_of, id_of
from headwater.persistence.objects.realm_objects import NewObject
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import PointerRow
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.producer.merging.merge import MergeRequest
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY, recomputed_entry_id, time_text
from headwater.schemas.errors import (
    CommitConflict,
    CursorExpired,
    InvalidInput,
    InvalidName,
    ReferenceExists,
    ReferenceNotFound,
    ReferenceProtected,
)
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import EMBEDDED, META, TAG, Lake, embedded_url, kinds_and_keys, open_lake


@pytest.fixture(params=EMBEDDED)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(embedded_url(request.param, tmp_path)) as opened:
        yield opened


# ── moves ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_move_is_an_entry_with_author_time_and_change(lake: Lake) -> None:
    first = lake.put("t")
    second = lake.put("u")
    bob = CommitMeta("bob", "For the release", {"ticket": "7"})
    created = lake.refs.create("dev", meta=bob).change
    assigned = lake.refs.assign("dev", "main~1", meta=META).change
    deleted = lake.refs.delete("dev", meta=META).change
    assert created is not None and assigned is not None and deleted is not None
    assert (created.kind, created.commit_id, created.author, created.message) == ("create", second, "bob", "For the release")
    assert created.headers == {"ticket": "7"} and created.base is not None and not created.operations
    assert (created.base.pointer, created.base.seq, created.base.commit_id) == (lake.pointer("main"), 3, second)
    assert (assigned.kind, assigned.commit_id, assigned.head_before) == ("assign", first, second)
    assert assigned.message == f"Assign dev to {first}"
    assert (deleted.kind, deleted.commit_id, deleted.head_before) == ("delete", EMPTY.hex(), first)
    assert created.time < assigned.time < deleted.time
    chain = [change_of(logged, "test") for logged in PointerLog(lake.kernel, lake.pointer("dev")).forward()]
    assert chain == [created, assigned, deleted]
    for change, previous in zip(chain, [None, *chain[:-1]], strict=True):
        assert recomputed_entry_id(change, previous.entry_id if previous else "") == change.entry_id


def test_a_created_branch_goes_its_own_way(lake: Lake) -> None:
    lake.put("t")
    lake.refs.create("dev", meta=META)
    lake.put("u", on="dev")
    lake.put("v")
    assert lake.keys("dev") == [("t",), ("u",)]
    assert lake.keys("main") == [("t",), ("v",)]


def test_the_log_of_a_deleted_branch_is_read_and_a_recreated_one_continues_counting(lake: Lake) -> None:
    lake.refs.create("dev", meta=META)
    commit = lake.put("t", on="dev")
    lake.refs.delete("dev", meta=META)
    log = PointerLog(lake.kernel, lake.pointer("dev"))
    assert [logged.entry.kind for logged in log.forward()] == ["create", "commit", "delete"]
    with pytest.raises(ReferenceNotFound):
        lake.refs.get("dev")
    assert lake.refs.get("dev", deleted_ok=True).deleted
    lake.refs.create("dev", None, meta=META)
    lake.put("u", on="dev")
    assert [logged.entry.seq for logged in log.forward()] == [1, 2, 3, 4, 5]
    assert lake.keys("dev") == [("u",)]
    assert lake.keys(commit) == [("t",)]
    assert len(lake.history("dev")) == 1


def test_a_name_is_a_branch_or_a_tag(lake: Lake) -> None:
    lake.refs.create("one", meta=META)
    for type_ in (TAG, None):
        with pytest.raises(ReferenceExists):
            lake.refs.create("one", meta=META, **({"type": type_} if type_ else {}))
    lake.refs.delete("one", meta=META)
    lake.refs.create("one", type=TAG, meta=META)
    assert lake.refs.get("one").type == "TAG"
    with pytest.raises(ReferenceExists):
        lake.refs.create("one", meta=META)


def test_moves_with_a_wrong_expected_head_are_refused(lake: Lake) -> None:
    old = lake.put("t")
    lake.refs.create("dev", meta=META)
    new = lake.put("u", on="dev")
    for move in (
        lambda: lake.refs.assign("dev", "main", expected_head=old, meta=META),
        lambda: lake.refs.delete("dev", expected_head=old, meta=META),
    ):
        with pytest.raises(CommitConflict) as refused:
            move()
        assert kinds_and_keys(refused.value) == {("UNEXPECTED_HASH", ())}
    lake.refs.assign("dev", "main", expected_head=new, meta=META)
    lake.refs.delete("dev", expected_head=old, meta=META)


def test_assigning_to_where_it_is_adds_no_entry(lake: Lake) -> None:
    lake.put("t")
    lake.refs.create("dev", meta=META)
    assert lake.refs.assign("dev", "main", meta=META).change is None
    assert lake.refs.get("dev").seq == 1


def test_the_default_branch_is_not_deleted(lake: Lake) -> None:
    for name in ("main", "-"):
        with pytest.raises(ReferenceProtected):
            lake.refs.delete(name, meta=META)


def test_a_move_is_made_once_for_one_request_id(lake: Lake) -> None:
    first = lake.refs.create("dev", meta=META, request_id="r")
    again = lake.refs.create("dev", meta=META, request_id="r")
    assert again.replayed and again.change == first.change


def test_references_are_listed_in_pages(lake: Lake) -> None:
    for number in range(12):
        lake.refs.create(f"b{number:02d}", meta=META)
        lake.refs.create(f"v{number:02d}", type=TAG, meta=META)
    for number in range(0, 12, 2):
        lake.refs.delete(f"b{number:02d}", meta=META)
    names: list[str] = []
    token: str | None = None
    while True:
        page = lake.refs.list(limit=5, token=token)
        assert len(page.references) <= 5
        names += [reference.name for reference in page.references]
        token = page.next_token
        if token is None:
            break
    assert names == [*[f"b{number:02d}" for number in range(1, 12, 2)], "main", *[f"v{number:02d}" for number in range(12)]]
    assert len(lake.refs.list(deleted=True, limit=100).references) == 25
    assert {reference.type for reference in lake.refs.list(type=TAG).references} == {"TAG"}
    with pytest.raises(InvalidInput):
        lake.refs.list(limit=0)


# ── specs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_specs_lead_over_bases_of_branches(lake: Lake) -> None:
    on_main = [lake.put("t", location=f"s3://{number}") for number in range(40)]
    lake.refs.create("dev", "main~10", meta=META)
    on_dev = [lake.put("t", on="dev", location=f"s3://dev{number}") for number in range(30)]
    lake.refs.create("v1", "dev~5", type=TAG, meta=META)
    lake.refs.create("deep", "v1", meta=META)
    on_deep = [lake.put("t", on="deep", location=f"s3://deep{number}") for number in range(3)]
    line = [EMPTY.hex(), *on_main[:30], *on_dev[:25], *on_deep]
    for back in range(len(line)):
        assert lake.refs.resolve(f"deep~{back}").commit_id == line[-1 - back]
    assert lake.refs.resolve("deep~1^1~0~1").commit_id == line[-4]
    assert lake.refs.resolve("-").commit_id == on_main[-1]
    assert lake.refs.resolve(f"deep@{on_main[7]}").commit_id == on_main[7]
    assert lake.refs.resolve(f"deep@{on_main[7]}~7").commit_id == on_main[0]
    assert lake.refs.resolve(f"{on_dev[3]}~4").commit_id == on_main[29]
    assert lake.refs.resolve(f"deep@{EMPTY.hex()}").commit_id == EMPTY.hex()
    assert lake.history("deep") == line[:0:-1]
    for outside in (f"deep@{on_main[31]}", f"deep@{on_dev[26]}", f"main@{on_dev[0]}", f"deep~{len(line)}", "deep^2", "deep^3"):
        with pytest.raises(ReferenceNotFound):
            lake.refs.resolve(outside)


def test_the_second_parent_is_the_merged_commit(lake: Lake) -> None:
    lake.put("t")
    lake.refs.create("dev", meta=META)
    lake.put("u", on="dev")
    merged = lake.put("v", on="dev")
    source = lake.refs.resolve("dev")
    lake.kernel.committer.commit(lake.pointer("main"), MergeRequest(lake.kernel, source.logged, source.pointer, META))
    lake.refs.create("at-the-merge", meta=META)
    for spec in ("main^2", "at-the-merge^2", "main~0^2"):
        assert lake.refs.resolve(spec).commit_id == merged
    assert lake.keys("main^2~1") == [("t",), ("u",)]
    assert lake.keys("main^1") == [("t",)]


def test_a_time_leads_to_the_newest_ancestor_that_is_not_later(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_lake(embedded_url("memory", tmp_path), clock) as lake:
        commits = []
        for number in range(20):
            clock.move(60)
            commits.append((clock.now_micros(), lake.put("t", location=f"s3://{number}")))
            if number == 9:
                lake.refs.create("dev", meta=META)
        for at, commit in commits:
            for micros in (at, at + 59_000_000):
                assert lake.refs.resolve(f"main*{time_text(micros)}").commit_id == commit
            assert lake.refs.resolve(f"dev*{at // 1_000 + 1}").commit_id == min((at, commit), commits[9])[1]
        with pytest.raises(ReferenceNotFound):
            lake.refs.resolve(f"main*{time_text(commits[0][0] - 1)}")


def test_commits_of_deleted_branches_are_found_and_orphans_are_not(lake: Lake) -> None:
    lake.refs.create("dev", meta=META)
    commit = lake.put("t", on="dev")
    lake.refs.delete("dev", meta=META)
    lake.refs.create("rescued", commit, meta=META)
    assert lake.keys("rescued") == [("t",)]
    forged = commit[:16] + "0" * 48
    for unknown in (forged, "0" * 64, orphan_of(lake, commit)):
        for spec in (unknown, f"rescued@{unknown}"):
            with pytest.raises(ReferenceNotFound):
                lake.refs.resolve(spec)
    other = lake.catalogs.create("other", meta=META)
    with pytest.raises(ReferenceNotFound, match="in this catalog"):
        lake.catalogs.references(other).resolve(commit)


def orphan_of(lake: Lake, commit: str) -> str:
    """An entry like that commit, whole and of the right id, as an attempt that lost its CAS leaves behind."""
    entry = msgspec.structs.replace(lake.refs.resolve(commit).logged.entry, message="lost")
    (object_id,) = lake.store.take(1)
    lake.kernel.objects.write_strong([NewObject(ENTRY, object_id, entry)], lake.store.clock.now_micros())
    orphan = id_of(entry, object_id)
    assert lake.kernel.walk.load(orphan).entry == entry
    return orphan.hex()


@pytest.mark.parametrize("name", ["", "a..b", "deadbeefcafe", "with space", "x@y", "x~1"])
def test_bad_names_are_refused(lake: Lake, name: str) -> None:
    with pytest.raises(InvalidName):
        lake.refs.create(name, meta=META)


# ── floors ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_truncated_history_is_expired_and_never_skipped(lake: Lake) -> None:
    commits = [lake.put("t", location=f"s3://{number}") for number in range(10)]
    lake.refs.create("dev", "main~2", meta=META)
    lake.put("t", on="dev")
    lake.raise_floor(lake.pointer("main"), 6)
    assert lake.refs.resolve("main~5").commit_id == commits[4]
    assert lake.refs.resolve("dev~4").commit_id == commits[4]
    for spec in ("main~6", "dev~5", "main~100", commits[3], f"{commits[9]}~9", "main*1999-01-01T00:00:00Z"):
        with pytest.raises(CursorExpired):
            lake.refs.resolve(spec)
    for name, count in (("main", 6), ("dev", 5)):
        kept, is_cut = lake.kept_history(name)
        assert (len(kept), is_cut) == (count, True)


def test_a_base_that_was_truncated_after_it_was_found_is_refused(lake: Lake) -> None:
    for number in range(5):
        lake.put("t", location=f"s3://{number}")
    found = lake.refs.resolve("main~4")
    lake.refs.create("dev", meta=META)
    lake.raise_floor(lake.pointer("main"), 4)
    with pytest.raises(CursorExpired):
        lake.refs.create("late", found, meta=META)
    with pytest.raises(CursorExpired):
        lake.refs.assign("dev", found, meta=META)
    with pytest.raises(ReferenceNotFound):
        lake.refs.get("late")


def test_a_sweep_between_the_look_at_the_floor_and_the_cas_is_noticed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after the plan has read the source's floor, a sweep raises it and fences the new branch's row."""
    for number in range(5):
        lake.put("t", location=f"s3://{number}")
    found = lake.refs.resolve("main~4")
    backend, realm = lake.store.backend, lake.kernel.realm
    main, late = lake.pointer("main"), lake.pointer("late")
    read, swept = backend.read_pointer, threading.Event()

    def read_then_sweep(realm_: str, name: str, *, decide: bool = False) -> PointerRow | None:
        row = read(realm_, name, decide=decide)
        own = read(realm, late)
        if name == main and own is not None and not swept.is_set():
            swept.set()
            lake.raise_floor(main, 4)
            fenced = msgspec.structs.replace(own, fence=lake.store.clock.now_micros(), version=own.version + 1)
            assert backend.cas_pointer(realm, late, own, fenced)
        return row

    monkeypatch.setattr(backend, "read_pointer", read_then_sweep)
    with pytest.raises(CursorExpired):
        lake.refs.create("late", found, meta=META)
    assert swept.is_set()
    row = read(realm, late)
    assert row is not None and not row.head


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_branch_of_a_big_commit_costs_as_much_as_one_of_a_small_commit(tmp_path: Path) -> None:
    costs = [_cost_of_a_branch(tables, tmp_path) for tables in (1_000, 20_000)]
    (small_objects, small_bytes), (big_objects, big_bytes) = costs
    assert small_objects == big_objects == 1
    assert small_bytes < 1_000 and big_bytes < 1_000


def _cost_of_a_branch(tables: int, folder: Path) -> tuple[int, int]:
    with open_lake(embedded_url("memory", folder)) as lake:
        lake.commit(Put(("db",), Namespace()))
        for begin in range(0, tables, 1_000):
            numbers = range(begin, begin + 1_000)
            lake.commit(*[Put(("db", f"t{number:06d}"), IcebergTable(f"s3://{number}")) for number in numbers])
        objects = lake.kernel.objects
        before = objects.objects_written, objects.bytes_written
        lake.refs.create("dev", meta=META)
        cost = objects.objects_written - before[0], objects.bytes_written - before[1]
        assert len(lake.snapshots.page(lake.refs.resolve("dev").logged, limit=10_000).entries) == min(tables + 1, 10_000)
        return cost


# ── the log of the whole catalog ────────────────────────────────────────────────────────────────────────────


def test_the_reference_log_merges_all_pointers_by_time(lake: Lake) -> None:
    for number in range(4):
        lake.put("t", location=f"s3://{number}")
        lake.refs.create(f"b{number}", meta=META)
        lake.put("u", on=f"b{number}", location=f"s3://{number}")
    lake.refs.create("v1", type=TAG, meta=META)
    lake.refs.delete("b2", meta=META)
    moves = lake.moves(limit=3)
    assert len(moves) == 1 + 4 * 3 + 2
    keys = [(move.time, move.pointer, move.seq) for move in moves]
    assert keys == sorted(keys, reverse=True)
    assert moves[0].kind is Kind.DELETE and moves[-1].kind is Kind.CREATE
    assert [move.kind for move in lake.moves(limit=2, kinds={Kind.CREATE})] == [Kind.CREATE] * 6
    assert [move.entry_id for move in lake.moves(limit=1_000)] == [move.entry_id for move in moves]


def test_commits_between_two_pages_of_the_reference_log_move_nothing(lake: Lake) -> None:
    for number in range(10):
        lake.put("t", location=f"s3://{number}")
    page = lake.reference_log.page(limit=4)
    lake.put("u")
    lake.refs.create("dev", meta=META)
    rest = lake.reference_log.page(limit=100, token=page.next_token)
    assert [change.seq for change in [*page.changes, *rest.changes]] == list(range(11, 0, -1))
    assert rest.next_token is None


def test_entries_of_one_time_are_distinguished_by_pointer(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_lake(embedded_url("memory", tmp_path), clock) as lake:
        clock.move(60)
        for name in ("x", "y", "z"):
            lake.refs.create(name, type=TAG, meta=META)
        clock.move(60)
        lake.put("t")
        lake.refs.assign("x", "main", meta=META)
        moves = lake.moves(limit=1)
        assert len({move.time for move in moves if move.kind is Kind.CREATE and "/tags/" in move.pointer}) == 1
        assert [(move.pointer, move.seq) for move in moves] == [
            ("cat/1/tags/x", 2),
            ("cat/1/heads/main", 2),
            ("cat/1/tags/z", 1),
            ("cat/1/tags/y", 1),
            ("cat/1/tags/x", 1),
            ("cat/1/heads/main", 1),
        ]
