"""A source without a log is followed table by table: what it shows between two polls, and what it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.store import RealmKernel
from headwater.producer.connectors.polled_state import PolledState
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.schemas.errors import Conflict, MaintenanceStopped, MaintenanceSuperseded
from tests.support.fixtures.catalog_lake import embedded_url, open_lake
from tests.support.fixtures.polled_source import Bridged

GAP = "headwater.observed.gap"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealmKernel]:
    with open_lake(embedded_url("memory", tmp_path_factory.mktemp("lake"))) as lake:
        yield lake.kernel


@pytest.fixture
def bridged(kernel: RealmKernel) -> Bridged:
    made = Bridged(kernel)
    for name in ("a", "b", "c"):
        made.source.create(name)
    assert made.poll().committed > 0
    return made


def test_an_unchanged_table_is_one_request_and_no_write(bridged: Bridged) -> None:
    bridged.source.asked = 0
    before = bridged.destination.log.head().newest.entry_id
    counters = bridged.poll()
    assert bridged.source.asked == 3
    assert (counters.observed, counters.unchanged, counters.committed) == (3, 3, 0)
    assert bridged.destination.log.head().newest.entry_id == before


def test_versions_that_the_source_forgot_are_a_gap_and_those_that_it_lists_are_not(bridged: Bridged) -> None:
    source = bridged.source
    source.tables_now["a"].versions = 4
    source.tables_now["b"].versions, source.tables_now["b"].told_from = 6, 4
    source.create("whole")
    source.tables_now["whole"].versions = 3
    source.create("late")
    source.tables_now["late"].versions, source.tables_now["late"].told_from = 5, 3
    assert bridged.poll().gaps == 2
    gaps = {one.headers["headwater.observed.version"]: one.headers[GAP] for one in bridged.commits() if GAP in one.headers}
    assert [one.rpartition("/")[2] for one in gaps] == ["5.json", "3.json"], "of b and late alone, on their first version"
    assert [len(one) for one in bridged.versions().values()] == [4, 2, 1, 2, 3]
    assert bridged.locations() == bridged.shown()


@pytest.mark.parametrize("renames", [["bd", "ab"], ["cz", "bc", "ab"], ["ax", "ba", "xb"]], ids="".join)
def test_names_that_move_on_are_renames(bridged: Bridged, renames: list[str]) -> None:
    """A chain of names, a longer one, and two tables that swap: of the latter one is made anew."""
    before = {one.content_id for one in bridged.held().values()}
    for name, to in renames:
        bridged.source.rename(name, to)
    counters = bridged.poll()
    is_ring = "ax" in renames
    assert (counters.renamed, counters.dropped) == ((1, 1) if is_ring else (len(renames), 0))
    assert bridged.locations() == bridged.shown()
    assert {one.content_id for one in bridged.held().values()} == before
    assert bridged.poll().committed == 0


def test_a_table_renamed_to_the_name_of_a_dropped_one_is_a_drop_and_a_rename(bridged: Bridged) -> None:
    ids = {name: one.content_id for name, one in bridged.held().items()}
    bridged.source.rename("a", "b")
    counters = bridged.poll()
    assert (counters.renamed, counters.dropped) == (1, 1)
    assert {name: one.content_id for name, one in bridged.held().items()} == {"b": ids["a"], "c": ids["c"]}


def test_two_names_of_one_table_are_no_rename(bridged: Bridged) -> None:
    bridged.source.tables_now["z"] = bridged.source.tables_now["a"]
    assert bridged.poll().renamed == 0
    assert bridged.locations() == bridged.shown()
    assert bridged.poll().committed == 0


def test_an_unreadable_table_affects_no_other_table(bridged: Bridged) -> None:
    bridged.source.unreadable = {"a"}
    bridged.source.tables_now["b"].versions = 2
    counters = bridged.poll()
    assert (counters.failed, counters.committed) == (1, 1)
    del bridged.source.tables_now["a"]
    assert bridged.poll().dropped == 0, "missing from the listing, and the source does not say that it is gone"
    bridged.source.unreadable = set()
    assert bridged.poll().dropped == 1


def test_an_interrupted_run_continues_after_the_last_table_that_it_finished(bridged: Bridged) -> None:
    for table in bridged.source.tables_now.values():
        table.versions = 2
    bridged.source.asked = 0

    def keep_going() -> None:
        if bridged.source.asked == 2:
            raise MaintenanceStopped("its turn has ended.")

    with pytest.raises(MaintenanceStopped):
        bridged.poll(keep_going)
    assert SourcePosition(bridged.kernel, bridged.connector.id).record.listed_to == ("db", "a")
    bridged.source.asked = 0
    assert bridged.poll().committed == 2
    assert bridged.source.asked == 2
    assert bridged.locations() == bridged.shown()
    assert [len(one) for one in bridged.versions().values()] == [2, 2, 2]


def test_a_full_rescan_is_one_commit(bridged: Bridged) -> None:
    before = len(bridged.commits())
    source = bridged.source
    source.tables_now["a"].versions = 4
    source.rename("b", "z")
    source.create("new")
    source.unreadable = {"c"}
    counters = bridged.poll(full_rescan=True)
    assert (counters.committed, counters.renamed, counters.gaps, counters.failed) == (1, 1, 1, 1)
    (commit,) = bridged.commits()[before:]
    assert commit.headers[GAP] == "the state was compared as a whole"
    assert bridged.locations() == bridged.shown()
    source.unreadable = set()
    assert bridged.poll(full_rescan=True).committed == 0


NAMES = "abcd"
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("update"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("drop"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("forget"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("poll"), st.just(""), st.just("")),
        st.tuples(st.just("cut"), st.sampled_from("2468"), st.just("")),
    ),
    max_size=30,
)


@given(acts=ACTS)
def test_after_any_events_between_polls_the_state_is_the_sources_and_versions_are_in_order(
    kernel: RealmKernel, acts: list[Any]
) -> None:
    bridged = Bridged(kernel)
    bridged.poll()
    for act, name, to in acts:
        if act == "poll":
            bridged.poll()
        elif act == "cut":
            _cut(bridged, int(name))
        else:
            bridged.source.take(act, name, to)
    bridged.poll_to_the_end()


def test_a_poller_that_slept_before_its_commit_does_not_bring_an_older_version_back(
    bridged: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚠ It was paused after its last look at the lease, and its successor commits a newer version meanwhile."""
    table, commit, slept = bridged.source.tables_now["a"], PolledState.commit, list[bool]()

    def late(state: PolledState, *arguments: Any) -> Any:
        if not slept:
            slept.append(True)
            table.versions += 1
            bridged.poll()
        return commit(state, *arguments)

    table.versions += 1
    monkeypatch.setattr(PolledState, "commit", late)
    with contextlib.suppress(Conflict, MaintenanceSuperseded):
        bridged.poll()
    assert slept and bridged.locations() == bridged.shown()


def _cut(bridged: Bridged, steps: int) -> None:
    left = iter(range(steps))

    def keep_going() -> None:
        if next(left, None) is None:
            raise MaintenanceStopped("its turn has ended.")

    try:
        bridged.poll(keep_going)
    except MaintenanceStopped:
        return
