"""`headwater.open`, and `headwater.connect` over HTTP and gRPC, give the same objects: one suite over all, on one store."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator

import pytest

import headwater
from headwater import Delete, Filter, IcebergTable, Kind, Namespace, Op, Put, Rename, Unchanged
from headwater.client.remote import RemoteCatalog
from headwater.embedded import CatalogHandle
from headwater.engine import Realm
from headwater.schemas.change import Change
from headwater.schemas.errors import (
    CatalogNotFound,
    CommitConflict,
    CursorAhead,
    CursorReset,
    InvalidInput,
    RealmNotFound,
    ReferenceNotFound,
)
from tests.support.servers.feed_server import FeedServer

AnyCatalog = headwater.Catalog
AnyBranch = headwater.Reference
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def remote_lakes(shared_feed: FeedServer) -> Iterator[dict[str, RemoteCatalog]]:
    with headwater.connect(shared_feed.url) as over_http, headwater.connect(shared_feed.grpc_url) as over_grpc:
        yield {name: engine.realm().catalog("lake") for name, engine in (("http", over_http), ("grpc", over_grpc))}


@pytest.fixture(params=["http", "grpc"])
def remote_lake(request: pytest.FixtureRequest, remote_lakes: dict[str, RemoteCatalog]) -> RemoteCatalog:
    return remote_lakes[request.param]


@pytest.fixture(params=["embedded", "http", "grpc"])
def lake(request: pytest.FixtureRequest, shared_lake: CatalogHandle, remote_lakes: dict[str, RemoteCatalog]) -> AnyCatalog:
    return shared_lake if request.param == "embedded" else remote_lakes[request.param]


@pytest.fixture(params=["http", "grpc"])
def address(request: pytest.FixtureRequest, shared_feed: FeedServer) -> str:
    return shared_feed.url if request.param == "http" else shared_feed.grpc_url


@pytest.fixture
def lake_realm(lake: AnyCatalog) -> Realm:
    assert isinstance(lake, CatalogHandle | RemoteCatalog)
    return lake.realm


@pytest.fixture
def branch(lake: AnyCatalog, shared_lake: CatalogHandle) -> AnyBranch:
    """A branch of the test's own with three commits."""
    name = f"both{next(_numbers)}"
    shared_lake.create_branch(name)
    made = lake.branch(name)
    made.commit([Put((f"db{name}",), Namespace()), Put((f"db{name}", "t"), IcebergTable("s3://1", 1, 0, 0, 0))], message="one")
    made.commit([Put((f"db{name}", "t"), IcebergTable("s3://2"))], author="bob", headers={"ticket": "7"})
    made.commit([Put((f"db{name}", "u"), IcebergTable("s3://u"))])
    return made


def test_a_commit_returns_its_result(branch: AnyBranch) -> None:
    result = branch.commit([Delete((f"db{branch.name}", "u"))], author="ada", message="Drop u", request_id="drop-u")
    assert result.change is not None
    assert (result.change.author, result.change.message, result.change.request_id) == ("ada", "Drop u", "drop-u")
    assert (result.seq, result.commit_id, result.replayed) == (5, result.change.commit_id, False)
    again = branch.commit([Delete((f"db{branch.name}", "u"))], author="ada", message="Drop u", request_id="drop-u")
    assert again.replayed and again.change == result.change


def test_both_engines_return_the_same_objects_of_one_branch(
    branch: AnyBranch, shared_lake: CatalogHandle, remote_lake: RemoteCatalog
) -> None:
    local, remote = shared_lake.branch(branch.name), remote_lake.branch(branch.name)
    assert list(local.changes()) == list(remote.changes())
    assert list(local.log()) == list(remote.log())
    assert local.info() == remote.info()
    assert shared_lake.info == remote_lake.info
    for at in (None, f"{branch.name}~1", f"{branch.name}^1", f"{branch.name}@{local.info().commit_id}"):
        here, there = local.snapshot(at), remote.snapshot(at)
        assert (here.pointer, here.seq, here.entry_id, here.commit_id) == (
            there.pointer, there.seq, there.entry_id, there.commit_id
        )  # fmt: skip
        assert list(here) == list(there)
        key = (f"db{branch.name}", "t")
        assert here.get(key) == there.get(key)
        assert list(here.entries(prefix=key[:1], types=["ICEBERG_TABLE"])) == list(
            there.entries(prefix=key[:1], types=["ICEBERG_TABLE"])
        )


def test_references_are_listed(lake: AnyCatalog, branch: AnyBranch) -> None:
    found, token = list[str](), None
    while True:
        page = lake.list_references(token=token, limit=7)
        found += [reference.pointer for reference in page.references]
        token = page.next_token
        if token is None:
            break
    assert lake.branch().pointer in found and branch.pointer in found
    assert found == sorted(found), "branches by name, then tags by name"


def test_all_conflicts_are_reported_together(branch: AnyBranch) -> None:
    with pytest.raises(CommitConflict) as refused:
        branch.commit(
            [Delete(("gone",)), Put((f"db{branch.name}", "t"), IcebergTable("s3://3"), expected=IcebergTable("s3://other"))]
        )
    conflicts = refused.value.facts["conflicts"]
    assert isinstance(conflicts, list)
    assert {one["kind"] for one in conflicts if isinstance(one, dict)} == {"KEY_DOES_NOT_EXIST", "VALUE_DIFFERS"}


def test_every_operation_reaches_the_engine(branch: AnyBranch) -> None:
    name = f"db{branch.name}"
    base = branch.info().commit_id
    result = branch.commit(
        [
            Rename((name, "u"), (name, "v"), expected=IcebergTable("s3://u")),
            Unchanged((name, "t")),
            Put((name, "w"), IcebergTable("s3://w"), must_not_exist=True, content_id="00000000-0000-0000-0000-0000000000aa"),
        ],
        base_commit=base,
        expected_head=base,
    )
    assert result.change is not None
    assert [operation.op for operation in result.change.operations] == [Op.RENAME, Op.PUT]
    assert result.change.operations[1].content_id.endswith("aa")
    reads = branch.commit([Unchanged((name, "w"), must_not_exist=False, expected=IcebergTable("s3://w"))])
    assert (reads.change, reads.commit_id) == (None, result.commit_id)


@pytest.mark.parametrize("after", ["nonsense", "-1", "2026-01-01T00:00:00", "hwc1_damaged"])
def test_cursors_that_mean_nothing_are_refused(branch: AnyBranch, after: str) -> None:
    with pytest.raises(InvalidInput):
        list(branch.changes(after))


def test_cursors_of_all_kinds_continue_after_what_they_name(branch: AnyBranch) -> None:
    all_of_it = list(branch.changes())
    assert [change.seq for change in all_of_it] == [1, 2, 3, 4]
    for after in (2, "2", all_of_it[1].entry_id, all_of_it[1].time):
        assert list(branch.changes(after)) == all_of_it[2:]
    assert list(branch.changes("latest")) == []
    with pytest.raises(CursorReset):
        list(branch.changes("0000000000000001" + "0" * 48))


def test_filters_show_whole_changes(branch: AnyBranch) -> None:
    shown = list(branch.changes(filter=Filter(prefix=(f"db{branch.name}", "u"))))
    assert [change.seq for change in shown] == [1, 4]
    assert [change.seq for change in branch.changes(filter=Filter(operations=(Op.DELETE,)))] == [1]


def test_a_follower_sees_what_is_committed_later(branch: AnyBranch) -> None:
    seen: list[Change] = []

    def follow() -> None:
        for change in branch.changes("latest", follow=True):
            seen.append(change)
            if len(seen) == 3:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    while follower.is_alive() and len(seen) < 3:
        branch.commit([Put((f"db{branch.name}", "f"), IcebergTable(f"s3://{len(seen)}"))])
    follower.join(20)
    seqs = [change.seq for change in seen]
    assert len(seqs) == 3 and seqs == list(range(seqs[0], seqs[0] + 3))


def test_an_async_follower_continues_after_a_snapshot_without_gap_or_overlap(branch: AnyBranch) -> None:
    snapshot = branch.snapshot()
    held = {entry.key for entry in snapshot}

    async def follow() -> list[Change]:
        committed = await branch.commit_async([Put((f"db{branch.name}", "z"), IcebergTable("s3://z"))])
        found = []
        async for change in branch.changes_async(snapshot.seq):
            found.append(change)
            if change.seq == committed.seq:
                break
        return found

    (change,) = asyncio.run(follow())
    assert change.seq == snapshot.seq + 1 and change.operations[0].key not in held

    async def read() -> list[Change]:
        return [change async for change in branch.changes_async(follow=False)]

    assert asyncio.run(read()) == list(branch.changes())


def test_what_is_not_there_is_said(lake: AnyCatalog, lake_realm: Realm, branch: AnyBranch) -> None:
    with pytest.raises(ReferenceNotFound):
        lake.branch("nowhere")
    with pytest.raises(ReferenceNotFound):
        lake.snapshot("nowhere")
    with pytest.raises(ReferenceNotFound):
        lake.snapshot(f"{branch.name}~1000")
    with pytest.raises(CatalogNotFound):
        lake_realm.catalog("nowhere")
    with pytest.raises(InvalidInput):
        branch.commit([])


def test_missing_realms_are_reported(shared_feed: FeedServer, address: str) -> None:
    with headwater.connect(address) as remote, pytest.raises(RealmNotFound):
        remote.realm("nowhere")
    with headwater.open(shared_feed.store_url) as local, pytest.raises(RealmNotFound):
        local.realm("nowhere")


def test_a_cursor_beyond_the_head_is_ahead_and_not_expired(branch: AnyBranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.consumers.backoff.BEHIND_TRIES_MAX", 2)
    with pytest.raises(CursorAhead):
        list(branch.changes(1_000))


@pytest.fixture
def parted(lake: AnyCatalog, branch: AnyBranch) -> AnyBranch:
    """A branch of the branch: both have changed `t`, and only it has `new`."""
    db = f"db{branch.name}"
    other = lake.create_branch(f"{branch.name}-other", branch.name, author="ada", message="Try something")
    other.commit([Put((db, "t"), IcebergTable("s3://theirs"))], message="theirs")
    other.commit([Put((db, "new"), IcebergTable("s3://new"))], message="new")
    branch.commit([Put((db, "t"), IcebergTable("s3://ours"))], message="ours")
    return other


def test_a_merge_is_previewed_refused_and_decided_by_rules(lake: AnyCatalog, branch: AnyBranch, parted: AnyBranch) -> None:
    key, new = (f"db{branch.name}", "t"), (f"db{branch.name}", "new")
    before = branch.info()
    preview = lake.preview_merge(parted.name, branch.name)
    assert {one.key: one.verdict for one in preview.keys} == {key: "conflict", new: "take"}
    assert preview.base is not None and not preview.already_merged
    assert next(one for one in preview.keys if one.key == key).conflict is not None
    with pytest.raises(CommitConflict):
        lake.merge(parted.name, branch.name)
    assert branch.info() == before, "neither a preview nor a refusal writes"
    with pytest.raises(CommitConflict):
        lake.merge(parted.name, branch.name, expected_head=parted.info().commit_id)
    theirs = lake.snapshot(parted.name).get(key)
    assert theirs is not None
    rules = headwater.MergeRules(by_key={key: headwater.KeyRule(behavior=headwater.Behavior.FORCE)})
    merged = lake.merge(parted.name, branch.name, rules=rules, author="ada", message="Decide", request_id=f"m-{branch.name}")
    assert merged.change is not None
    assert (merged.change.kind, merged.change.author, merged.change.message) == ("merge", "ada", "Decide")
    again = lake.merge(parted.name, branch.name, rules=rules, author="ada", message="Decide", request_id=f"m-{branch.name}")
    assert again.replayed and again.commit_id == merged.commit_id
    assert branch.snapshot().get(key) == theirs and branch.snapshot().get(new) is not None
    assert lake.preview_merge(parted.name, branch.name).already_merged


def test_a_rule_names_what_it_expects_and_what_it_resolves_to(lake: AnyCatalog, branch: AnyBranch, parted: AnyBranch) -> None:
    key = (f"db{branch.name}", "t")
    (differing,) = [one for one in lake.diff(branch.name, parted.name) if one.key == key]
    wrong = headwater.MergeRules(by_key={key: headwater.KeyRule(expected=differing.after, resolved=differing.after)})
    assert {one.key: one.verdict for one in lake.preview_merge(parted.name, branch.name, rules=wrong).keys}[key] == "unexpected"
    right = headwater.MergeRules(by_key={key: headwater.KeyRule(expected=differing.before, resolved=differing.after)})
    lake.merge(parted.name, branch.name, rules=right)
    assert list(lake.diff(branch.name, parted.name)) == []


def test_commits_are_transplanted_one_by_one(lake: AnyCatalog, branch: AnyBranch, parted: AnyBranch) -> None:
    newest = parted.info().commit_id
    done = lake.transplant([newest], branch.name)
    assert done.change is not None and (done.change.kind, done.change.message) == ("transplant", "new")
    assert branch.snapshot().get((f"db{branch.name}", "new")) is not None
    with pytest.raises(CommitConflict):
        lake.transplant([f"{parted.name}~1"], branch.name)
    with pytest.raises(InvalidInput):
        lake.transplant([], branch.name)


def test_a_diff_of_many_keys_is_whole_and_in_order(lake: AnyCatalog, branch: AnyBranch) -> None:
    db = f"db{branch.name}"
    at = branch.info().commit_id
    branch.commit([Put((db, f"k{number:03}"), IcebergTable(f"s3://{number}")) for number in range(250)])
    found = list(lake.diff(at, branch.name))
    assert [one.key for one in found] == [(db, f"k{number:03}") for number in range(250)]
    assert all(one.before is None and one.after is not None for one in found)
    assert [one.after for one in lake.diff(branch.name, at)] == [None] * 250
    with pytest.raises(ReferenceNotFound):
        lake.diff(at, "nowhere")


def test_references_are_moved_with_an_author_and_a_message(lake: AnyCatalog, branch: AnyBranch) -> None:
    tag = lake.create_tag(f"tag-{branch.name}", branch.name, author="ada", message="Release")
    moved = tag.assign(f"{branch.name}~1", expected_head=branch.info().commit_id, author="bob", message="Step back")
    assert moved.change is not None
    assert (moved.change.kind, moved.change.author, moved.change.message) == ("assign", "bob", "Step back")
    assert tag.assign(f"{branch.name}~1").change is None, "nothing to do"
    gone = tag.delete(author="bob", message="Not needed")
    assert gone.change is not None and (gone.change.kind, gone.change.message) == ("delete", "Not needed")
    kinds = [(change.kind, change.author) for change in tag.changes()]
    assert kinds == [("create", "ada"), ("assign", "bob"), ("delete", "bob")]


def test_a_misspelled_option_is_an_error(lake: AnyCatalog, branch: AnyBranch) -> None:
    for call in (
        lambda: branch.commit([Delete(("x",))], mesage="x"),  # type: ignore[call-arg]
        lambda: lake.merge("main", branch.name, mesage="x"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="mesage"):
            call()


@pytest.mark.parametrize("url", ["", "127.0.0.1:1", "ftp://host", "http://", "grpc://"])
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        headwater.connect(url)


def test_both_engines_read_the_log_of_all_references(
    branch: AnyBranch, lake: AnyCatalog, shared_lake: CatalogHandle, remote_lake: RemoteCatalog
) -> None:
    lake.create_tag(f"tag-{branch.name}", branch.name)
    branch.delete()
    mine = {branch.pointer, lake.tag(f"tag-{branch.name}").pointer}
    moves = [(one.pointer, one.kind) for one in lake.reference_log() if one.pointer in mine]
    commits = [(branch.pointer, "commit")] * 3
    tag = (lake.tag(f"tag-{branch.name}").pointer, "create")
    assert moves == [(branch.pointer, "delete"), tag, *commits, (branch.pointer, "create")]
    assert list(shared_lake.reference_log()) == list(remote_lake.reference_log())
    kinds = {one.kind for one in lake.reference_log([Kind.DELETE, Kind.CREATE])}
    assert kinds == {Kind.DELETE, Kind.CREATE}


def test_both_engines_read_the_logs_of_records_and_of_the_system(
    lake_realm: Realm, address: str, shared_lake: CatalogHandle
) -> None:
    assert {"catalogs", "principals", "cat/1/heads/main"} <= {one.name for one in lake_realm.logs.pointers()}
    keys = {op.key for one in lake_realm.logs.changes("catalogs") for op in one.operations}
    assert any("lake" in key for key in keys)
    with headwater.connect(address) as engine:
        served = list(engine.system_logs().changes("realms"))
    local = headwater.Headwater(shared_lake.realm.kernel.store)
    try:
        assert list(local.system_logs().changes("realms", after=0)) == served
        assert "realms" in [one.name for one in local.system_logs().pointers()]
    finally:
        local.stop_watching()
    last = [one.operations[0].after for one in served if one.operations[0].key == ("default",)][-1]
    assert isinstance(last, dict) and last["status"] == "ACTIVE"
