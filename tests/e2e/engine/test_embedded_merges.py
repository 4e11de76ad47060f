"""Merge and transplant as users meet them: large ones, repeated ones, crossed ones, and branches of branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater
from headwater import Behavior, Delete, IcebergTable, KeyRule, Kind, MergeRules, Namespace, Op, Put, Rename
from headwater.embedded import CatalogHandle, Headwater, ReferenceHandle
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import recomputed_entry_id
from headwater.schemas.errors import CommitConflict, IdempotencyKeyReused, InvalidInput
from tests.support.fixtures.catalog_lake import kinds_and_keys
from tests.support.fixtures.contract_stores import fresh_url


@pytest.fixture
def lake() -> Iterator[CatalogHandle]:
    with headwater.open("memory://", create=True) as engine:
        yield engine.ensure_realm().ensure_catalog("lake")


def put(branch: ReferenceHandle, *names: str, to: str = "1") -> str:
    return branch.commit([Put((name,), IcebergTable(f"s3://{name}/{to}")) for name in names]).commit_id


def values(lake: CatalogHandle, at: str) -> dict[str, str]:
    """What stands at each key of one element, without what never differs."""
    return {entry.key[0]: str(entry.value.get("metadata_location", "")).rpartition("/")[2] for entry in lake.snapshot(at)}


# ── large ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "keys"), [("memory", 5_000), ("sqlite", 20_000), ("postgresql", 2_000), ("cassandra", 500)], ids=lambda it: str(it)
)
def test_a_large_merge_is_one_change(kind: str, keys: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with headwater.open(fresh_url(kind, request, tmp_path), create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        main, dev = lake.branch(), lake.create_branch("dev")
        names = [f"t{n:05d}" for n in range(keys)]
        dev.commit([Put((name,), IcebergTable(f"s3://{name}/1")) for name in names])
        before = main.info()
        merged = lake.merge("dev", message="All of it")
        check_large_merge(engine, before.commit_id, keys)
        assert merged.change is not None and merged.change.kind is Kind.MERGE and merged.seq == before.seq + 1
        again = lake.merge("dev")
        assert again.change is None and again.seq == merged.seq, "merging what is merged adds nothing"


def check_large_merge(engine: Headwater, head_before: str, keys: int) -> None:
    main = engine.realm().catalog("lake").branch()
    create, merge = main.changes()
    assert len(merge.operations) == keys and {op.op for op in merge.operations} == {Op.PUT}
    assert merge.head_before == head_before and recomputed_entry_id(merge, create.entry_id) == merge.entry_id
    engine.store.cache.clear()
    assert sum(1 for _ in main.snapshot()) == keys
    assert next(main.log()).entry_id == merge.entry_id


# ── what a merge brings ─────────────────────────────────────────────────────────────────────────────────────


def test_a_merge_applies_puts_deletions_and_renames_since_both_diverged(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "kept", "gone", "moved", "mine")
    dev = lake.create_branch("dev")
    dev.commit([Delete(("gone",)), Rename(("moved",), ("there",)), Put(("new",), IcebergTable("s3://new/1"))])
    put(main, "mine", to="2")
    result = lake.merge("dev")
    assert result.change is not None and result.change.source is not None
    assert result.change.source.commit_id == dev.info().commit_id
    assert values(lake, "main") == {"kept": "1", "mine": "2", "there": "1", "new": "1"}


def test_a_renamed_table_keeps_its_content_id_through_a_merge(lake: CatalogHandle) -> None:
    put(lake.branch(), "old")
    before = lake.snapshot("main").get(("old",))
    lake.create_branch("dev").commit([Rename(("old",), ("new",))])
    lake.merge("dev")
    after = lake.snapshot("main").get(("new",))
    assert before is not None and after is not None and before.content_id == after.content_id


def test_all_conflicts_are_reported_together_and_nothing_is_written(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "a", "b", "c")
    dev = lake.create_branch("dev")
    put(dev, "a", "d", to="dev")
    dev.commit([Delete(("b",)), Put(("c",), IcebergTable("s3://c/dev"))])
    put(main, "a", "b", "d", to="main")
    main.commit([Delete(("c",))])
    with pytest.raises(CommitConflict) as conflict:
        lake.merge("dev")
    assert kinds_and_keys(conflict.value) == {
        ("VALUE_DIFFERS", ("a",)),
        ("VALUE_DIFFERS", ("b",)),
        ("KEY_DOES_NOT_EXIST", ("c",)),
        ("KEY_EXISTS", ("d",)),
    }
    assert main.info().seq == 4


def test_rules_decide_key_by_key(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "a", "b", "c")
    put(lake.create_branch("dev"), "a", "b", "c", to="dev")
    put(main, "a", "b", "c", to="main")
    ours = lake.snapshot("main").get(("c",))
    assert ours is not None
    by_key: dict[KeyPath, KeyRule] = {
        ("a",): KeyRule(behavior=Behavior.FORCE),
        ("b",): KeyRule(behavior=Behavior.DROP),
        ("c",): KeyRule(resolved=None),
    }
    lake.merge("dev", rules=MergeRules(by_key=by_key))
    assert values(lake, "main") == {"a": "dev", "b": "main"}


def test_a_dry_run_writes_nothing_and_gives_the_same_answer(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "a")
    put(lake.create_branch("dev"), "a", "b", to="dev")
    put(main, "a", to="main")
    preview = lake.preview_merge("dev")
    assert {outcome.key[0]: outcome.verdict for outcome in preview.keys} == {"a": "conflict", "b": "take"}
    assert preview.base is not None and main.info().seq == 3


def test_an_expected_head_holds_a_merge_back(lake: CatalogHandle) -> None:
    main = lake.branch()
    old = put(main, "a")
    put(lake.create_branch("dev"), "b")
    put(main, "c")
    with pytest.raises(CommitConflict):
        lake.merge("dev", expected_head=old)
    assert lake.merge("dev", expected_head=main.info().commit_id).change is not None


# ── bases ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_base_is_found_across_branches_of_branches(lake: CatalogHandle) -> None:
    main = lake.branch()
    fork = put(main, "a")
    lake.create_branch("one", "main")
    put(lake.branch("one"), "b")
    lake.create_branch("two", "one")
    put(lake.branch("two"), "c")
    three = lake.create_branch("three", "two")
    put(three, "d")
    put(main, "e")
    preview = lake.preview_merge("three")
    assert preview.base is not None and preview.base == fork
    lake.merge("three")
    assert values(lake, "main").keys() == {"a", "b", "c", "d", "e"}
    assert lake.merge("two").change is None, "all of it came along with its descendant"


def test_siblings_share_the_commit_at_which_they_diverged(lake: CatalogHandle) -> None:
    fork = put(lake.branch(), "a")
    put(lake.create_branch("left"), "l")
    put(lake.branch(), "later")
    put(lake.create_branch("right", f"main@{fork}"), "r")
    preview = lake.preview_merge("left", "right")
    assert preview.base is not None and preview.base == fork
    lake.merge("left", "right")
    assert values(lake, "right").keys() == {"a", "l", "r"}


def test_a_branch_can_be_merged_again_and_again(lake: CatalogHandle) -> None:
    main, dev = lake.branch(), lake.create_branch("dev")
    for n in range(5):
        put(dev, "ours", to=str(n))
        put(main, f"mine-{n}")
        assert lake.merge("dev").change is not None
        assert lake.merge("dev").change is None
    assert values(lake, "main")["ours"] == "4" and len(list(main.changes())) == 11


def test_branches_merged_crosswise_agree_and_continue(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "x", "y")
    dev = lake.create_branch("dev")
    at_main, at_dev = put(main, "x", to="main"), put(dev, "y", to="dev")
    lake.merge(at_dev, "main")
    lake.merge(at_main, "dev")
    assert values(lake, "main") == values(lake, "dev") == {"x": "main", "y": "dev"}
    assert lake.merge("main", "dev").change is None, "both hold the same"
    put(dev, "x", to="later")
    put(main, "z")
    lake.merge("dev", "main")
    lake.merge("main", "dev")
    assert values(lake, "main") == values(lake, "dev") == {"x": "later", "y": "dev", "z": "1"}


def test_a_revert_after_a_crosswise_merge_is_not_missed(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "x", "y")
    dev = lake.create_branch("dev")
    at_main, at_dev = put(main, "x", to="2"), put(dev, "y", to="2")
    lake.merge(at_dev, "main")
    lake.merge(at_main, "dev")
    put(dev, "x", to="1")  # just what one of the two shared commits holds
    lake.merge("dev")
    assert values(lake, "main") == {"x": "1", "y": "2"}


def test_a_conflict_after_a_crosswise_merge_is_still_a_conflict(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "x", "y")
    dev = lake.create_branch("dev")
    at_main, at_dev = put(main, "x", to="2"), put(dev, "y", to="2")
    lake.merge(at_dev, "main")
    lake.merge(at_main, "dev")
    put(main, "x", to="1")
    put(dev, "x", to="3")
    with pytest.raises(CommitConflict) as conflict:
        lake.merge("dev")
    assert kinds_and_keys(conflict.value) == {("VALUE_DIFFERS", ("x",))}


def decided(behavior: Behavior) -> MergeRules:
    return MergeRules(by_key={("dev",): KeyRule(behavior=behavior)})


OTHER_REQUESTS: dict[str, Callable[[CatalogHandle], object]] = {
    "merge of another branch": lambda lake: lake.merge("other", request_id="used"),
    "merge by other rules": lambda lake: lake.merge("dev", rules=MergeRules(default=Behavior.DROP), request_id="used"),
    "merge by a rule for a key": lambda lake: lake.merge("dev", rules=decided(Behavior.DROP), request_id="used"),
    "merge at an expected head": lambda lake: lake.merge("dev", expected_head="00" * 32, request_id="used"),
    "transplant": lambda lake: lake.transplant(["dev"], request_id="used"),
    "commit": lambda lake: lake.branch().commit([Put(("new",), IcebergTable("s3://new"))], request_id="used"),
}


@pytest.mark.parametrize("other", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
def test_an_id_under_which_a_merge_has_landed_is_refused_for_anything_else(
    lake: CatalogHandle, other: Callable[[CatalogHandle], object]
) -> None:
    """⚠ It would be answered as done, and nothing of it done."""
    for name in ("dev", "other"):
        put(lake.create_branch(name), name)
    merged = lake.merge("dev", request_id="used")
    with pytest.raises(IdempotencyKeyReused):
        other(lake)
    put(lake.branch("dev"), "later")
    again = lake.merge("dev", request_id="used")
    assert again.replayed and again.commit_id == merged.commit_id == lake.branch().info().commit_id


def test_a_merge_by_rules_for_keys_is_found_under_its_id_and_no_other_rule_is(lake: CatalogHandle) -> None:
    put(lake.create_branch("dev"), "dev")
    merged = lake.merge("dev", rules=decided(Behavior.FORCE), request_id="used")
    assert lake.merge("dev", rules=decided(Behavior.FORCE), request_id="used").commit_id == merged.commit_id
    with pytest.raises(IdempotencyKeyReused):
        lake.merge("dev", rules=decided(Behavior.DROP), request_id="used")


def test_an_id_under_which_something_else_has_landed_is_refused_for_a_merge_or_transplant(lake: CatalogHandle) -> None:
    put(lake.create_branch("dev"), "dev")
    lake.branch().commit([Put(("new",), IcebergTable("s3://new"))], request_id="used")
    for bring in (lambda: lake.merge("dev", request_id="used"), lambda: lake.transplant(["dev"], request_id="used")):
        with pytest.raises(IdempotencyKeyReused):
            bring()
    assert lake.transplant(["dev"], request_id="free").change is not None
    with pytest.raises(IdempotencyKeyReused):
        lake.transplant(["main"], request_id="free")


def test_branches_without_common_history_merge_from_the_empty_state(lake: CatalogHandle) -> None:
    put(lake.branch(), "a")
    lake.references.create("island", None, meta=CommitMeta("ada"))
    put(lake.branch("island"), "b")
    assert lake.preview_merge("island").base is None
    lake.merge("island")
    assert values(lake, "main").keys() == {"a", "b"}


# ── namespaces ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_merge_keeps_every_key_in_a_namespace(lake: CatalogHandle) -> None:
    main = lake.branch()
    main.commit([Put(("db",), Namespace())])
    dev = lake.create_branch("dev")
    dev.commit([Put(("db", "new"), IcebergTable("s3://new"))])
    main.commit([Delete(("db",))])
    with pytest.raises(CommitConflict) as conflict:
        lake.merge("dev")
    assert kinds_and_keys(conflict.value) == {("NAMESPACE_ABSENT", ("db",))}
    dev.commit([Delete(("db", "new"))])
    assert lake.merge("dev").change is None


# ── transplant ──────────────────────────────────────────────────────────────────────────────────────────────


def test_transplanted_commits_keep_author_and_message_and_apply_all_or_none(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "a")
    dev = lake.create_branch("dev")
    picked = [
        dev.commit([Put((f"t{n}",), IcebergTable("s3://1"))], author=f"author-{n}", message=f"message-{n}").commit_id
        for n in range(3)
    ]
    clash = put(dev, "a", to="dev")
    put(main, "a", to="main")
    with pytest.raises(CommitConflict):
        lake.transplant([*picked, clash])
    assert main.info().seq == 3
    lake.transplant([picked[0], picked[2]])
    brought = list(main.changes(3))
    assert [(change.author, change.message) for change in brought] == [("author-0", "message-0"), ("author-2", "message-2")]
    assert {change.kind for change in brought} == {Kind.TRANSPLANT}
    assert lake.transplant([picked[0]]).change is None, "what is there already adds nothing"


def test_only_commits_can_be_transplanted(lake: CatalogHandle) -> None:
    lake.create_branch("dev")
    with pytest.raises(InvalidInput):
        lake.transplant(["dev"])
    with pytest.raises(InvalidInput):
        lake.transplant([])
