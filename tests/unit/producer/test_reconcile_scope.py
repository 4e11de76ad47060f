"""A job with a scope: a polled source is read in these namespaces and tables alone, and nothing else changes here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.store import RealmKernel
from headwater.producer.connectors.polled_names import Scope, checked_scope
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import ContentNotFound, InvalidInput
from tests.support.fixtures.catalog_lake import embedded_url, open_lake
from tests.support.fixtures.polled_source import Bridged


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealmKernel]:
    with open_lake(embedded_url("memory", tmp_path_factory.mktemp("lake"))) as lake:
        yield lake.kernel


@pytest.fixture
def bridged(kernel: RealmKernel) -> Bridged:
    made = Bridged(kernel)
    for name in ("a", "b", "sales.x", "sales.y"):
        made.source.create(name)
    assert made.poll().committed > 0
    return made


def scope(*paths: str) -> Scope:
    return Scope(tuple(tuple(path.split(".")) for path in paths))


def test_a_scope_of_one_table_costs_one_listing_of_its_namespace_and_one_look_at_it(bridged: Bridged) -> None:
    for name in ("a", "b", "sales.x"):
        bridged.source.tables_now[name].versions = 3
    bridged.source.asked = bridged.source.listed = 0
    counters = bridged.poll(scope=scope("db.a"))
    assert (counters.observed, counters.committed) == (1, 2)
    assert (bridged.source.asked, bridged.source.listed) == (1, 0)
    assert bridged.locations() | {"a": "s3://lake/id0/0.json"} == {
        name: f"s3://lake/{one.id}/0.json" for name, one in bridged.source.tables_now.items()
    }
    bridged.poll()
    assert bridged.locations() == bridged.shown()
    assert {len(versions) for versions in bridged.versions().values()} == {3, 1}, "every version once"


@pytest.mark.parametrize("full_rescan", [False, True])
def test_a_scope_of_a_namespace_takes_all_that_changed_in_it(bridged: Bridged, full_rescan: bool) -> None:
    source = bridged.source
    before = bridged.locations()
    source.tables_now["a"].versions = 2
    source.tables_now["sales.x"].versions = 2
    source.rename("sales.y", "sales.z")
    source.create("sales.new")
    del source.tables_now["b"]
    counters = bridged.poll(full_rescan=full_rescan, scope=scope("sales"))
    assert (counters.renamed, counters.dropped, counters.failed) == (1, 0, 0)
    assert bridged.locations() == {name: one for name, one in bridged.shown().items() if "." in name} | {
        name: before[name] for name in ("a", "b")
    }
    del source.tables_now["sales.x"], source.tables_now["sales.z"], source.tables_now["sales.new"]
    source.create("sales.last")
    assert bridged.poll(full_rescan=full_rescan, scope=scope("sales")).dropped == 3
    del source.tables_now["sales.last"]
    bridged.poll(full_rescan=full_rescan, scope=scope("sales"))
    assert bridged.locations() == {name: before[name] for name in ("a", "b")}
    held = bridged.destination.everything(bridged.destination.log.head())
    assert bridged.destination.key(("sales",)) not in held, "the namespace is gone at the source"


@pytest.mark.parametrize("full_rescan", [False, True])
@pytest.mark.parametrize(("name", "to"), [("sales.x", "moved"), ("a", "sales.moved"), ("sales.x", "a"), ("a", "sales.x")])
def test_a_rename_over_the_border_of_a_scope_is_a_failure_and_stays_a_rename(
    bridged: Bridged, name: str, to: str, full_rescan: bool
) -> None:
    ids = {name: one.content_id for name, one in bridged.held().items()}
    before = bridged.locations()
    bridged.source.tables_now.pop(to, None)
    bridged.source.rename(name, to)
    counters = bridged.poll(full_rescan=full_rescan, scope=scope("sales"))
    assert (counters.failed, counters.renamed, counters.committed) == (1, 0, 0)
    assert bridged.locations() == before
    assert bridged.poll().renamed == 1
    assert bridged.held()[to].content_id == ids[name]
    assert bridged.locations() == bridged.shown()


def test_two_names_of_one_table_on_both_sides_of_the_border_are_no_rename(bridged: Bridged) -> None:
    bridged.source.tables_now["sales.again"] = bridged.source.tables_now["a"]
    counters = bridged.poll(scope=scope("sales"))
    assert (counters.failed, counters.renamed) == (0, 0)
    assert bridged.locations() == bridged.shown()


def test_a_path_that_is_nowhere_is_refused_before_anything_is_committed(bridged: Bridged) -> None:
    bridged.source.tables_now["a"].versions = 2
    before = bridged.destination.log.head().newest.entry_id
    with pytest.raises(ContentNotFound, match=r"sals is neither") as refused:
        bridged.poll(scope=scope("sals", "db.a"))
    assert refused.value.field == "scope"
    assert bridged.destination.log.head().newest.entry_id == before
    del bridged.source.tables_now["b"]
    assert bridged.poll(scope=scope("db.b")).dropped == 1, "what stands here alone is a drop"


def test_paths_of_a_scope_are_below_the_destination_and_not_below_each_other() -> None:
    checked = checked_scope([["sales", "x", "t"], ["sales", "x"], ["sales", "y"], ["sales", "y"]], ("sales",))
    assert checked == (("sales", "x"), ("sales", "y"))
    bad: list[tuple[list[list[str]], KeyPath]] = [
        ([["other", "x"]], ("sales",)),
        ([["sales"]], ("sales",)),
        ([["sale"]], ("sales",)),
        ([[]], ()),
        ([["a", ""]], ()),
        ([[f"t{number}"] for number in range(101)], ()),
    ]
    for paths, destination in bad:
        with pytest.raises(InvalidInput):
            checked_scope(paths, destination)


NAMES = ["a", "b", "other.a", "other.b"]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "update", "drop", "forget"]), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("poll"), st.just(""), st.just("")),
        st.tuples(st.sampled_from(["scoped", "rescan"]), st.sampled_from(["db", "other", "db.a", "other.b"]), st.just("")),
    ),
    max_size=30,
)


@given(acts=ACTS)
def test_whatever_scopes_are_read_nothing_beyond_them_changes_and_the_end_is_the_sources(
    kernel: RealmKernel, acts: list[Any]
) -> None:
    bridged = Bridged(kernel)
    bridged.poll()
    for act, name, to in acts:
        if act == "poll":
            bridged.poll()
        elif act in ("scoped", "rescan"):
            _scoped(bridged, name, full_rescan=act == "rescan")
        else:
            bridged.source.take(act, name, to)
    bridged.poll_to_the_end()


def _scoped(bridged: Bridged, path: str, *, full_rescan: bool) -> None:
    before, ids = bridged.locations(), {one.content_id for one in bridged.held().values()}
    try:
        counters = bridged.poll(scope=scope(path), full_rescan=full_rescan)
    except ContentNotFound:
        assert bridged.locations() == before
        return
    inside = scope(path)
    after, shown = bridged.locations(), bridged.shown()

    def parts(of: dict[str, str], *, covered: bool) -> dict[str, str]:
        keys = {name: tuple((name if "." in name else f"db.{name}").split(".")) for name in of}
        return {name: of[name] for name in of if inside.covers(keys[name]) == covered}

    assert parts(after, covered=False) == parts(before, covered=False)
    if counters.failed:
        assert ids <= {one.content_id for one in bridged.held().values()} or counters.dropped
    else:
        assert parts(after, covered=True) == parts(shown, covered=True)
