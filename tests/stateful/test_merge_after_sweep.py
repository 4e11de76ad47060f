"""Random branches, merges, resets and deletions with expiry and sweeps in between: a merge gives what it would have given on
the history that nothing was swept from, or it is refused."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headwater
from headwater import Behavior
from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging import ancestry
from headwater.schemas.errors import MergeBaseExpired
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import sweep_store
from tests.support.models.merge_model import KEYS, Model, commit, merge, state

BRANCHES = ["main", "a", "b", "c"]
HOUR, DAY = 3_600, 86_400

Step = (
    tuple[Literal["commit"], str, Mapping[str, int | None]]
    | tuple[Literal["branch", "again", "assign", "merge"], str, str]
    | tuple[Literal["delete"], str]
    | tuple[Literal["maintain"], int]
)
BEGINNING: list[Step] = [("branch", "a", "main"), ("branch", "b", "a"), ("branch", "c", "main")]
names = st.sampled_from(BRANCHES)
others = st.sampled_from(BRANCHES[1:])
merges = st.tuples(st.just("merge"), names, names)
commits = st.tuples(
    st.just("commit"), names, st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(0, 2), min_size=1, max_size=2)
)
steps = st.one_of(
    commits,
    commits,
    commits,
    commits,
    merges,
    merges,
    merges,
    merges,
    merges,
    st.tuples(st.just("again"), others, names),
    st.tuples(st.just("assign"), others, names),
    st.tuples(st.just("maintain"), st.integers(1, 12)),
)

REVERTED: list[Step] = [
    ("commit", "a", {"k0": 1}),
    ("merge", "a", "b"),
    ("merge", "b", "main"),
    ("commit", "main", {"k0": 0}),
    ("delete", "b"),
    ("commit", "main", {"k1": 1}),
    ("maintain", 1),
    ("merge", "a", "main"),
]
"""What came by a branch that was swept and was taken back stays so."""
CLASHING: list[Step] = [("commit", "a", {"k0": 1}), ("commit", "main", {"k0": 2}), ("merge", "a", "main")]
CUT: list[Step] = [
    ("commit", "a", {"k0": 1}),
    ("merge", "a", "b"),
    ("merge", "b", "main"),
    ("commit", "main", {"k0": 0}),
    ("merge", "main", "a"),
    ("commit", "a", {"k1": 2}),
    ("merge", "a", "c"),
    ("delete", "a"),
    ("commit", "main", {"k2": 2}),
    ("maintain", 1),
    ("merge", "c", "main"),
    ("merge", "b", "main"),
    ("merge", "main", "c"),
]


@pytest.fixture(scope="module")
def happened() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    wanted = ("merged", "clashed", "nothing", "swept", "after a sweep")
    assert all(counted[what] for what in wanted), f"too tame: {counted}"


@pytest.mark.parametrize("told", [32, 1], ids=["all told by the merge", "most read from the source"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(history=REVERTED)
@example(history=CUT)
@example(history=CLASHING)
@given(history=st.lists(steps, min_size=20, max_size=60))
def test_a_merge_after_expiry_and_sweep_gives_what_the_whole_history_gives_or_is_refused(
    told: int, happened: Counter[str], monkeypatch: pytest.MonkeyPatch, history: list[Step]
) -> None:
    monkeypatch.setattr(ancestry, "BROUGHT_SEGMENTS_MAX", told)
    clock = ManualClock()
    with headwater.open("memory://", create=True, clock=clock) as engine:
        engine.realms = Realms(engine.store, secret_cost=ScryptCost(n=2, r=1, p=1))
        lake = engine.ensure_realm().ensure_catalog("lake")
        model, ids = Model(), (str(uuid.UUID(int=n)) for n in range(1, 10_000))
        commit(lake, model, "main", dict.fromkeys(KEYS, 0), ids)
        swept = False
        for step in [*BEGINNING, *history]:
            clock.move(HOUR)
            if step[0] == "maintain":
                swept |= maintain(engine, clock, step[1], happened)
            else:
                take(lake, model, step, ids, happened, swept)
        for branch, head in model.heads.items():
            assert state(lake, branch) == head.state


def take(lake: CatalogHandle, model: Model, step: Step, ids: Iterator[str], happened: Counter[str], swept: bool) -> None:
    heads = model.heads
    match step:
        case ("branch", name, source) if name not in heads and source in heads:
            lake.create_branch(name, source)
            heads[name] = heads[source]
        case ("again", name, source) if {name, source} <= heads.keys() and name != source:
            lake.branch(name).delete()
            lake.create_branch(name, source)
            heads[name] = heads[source]
        case ("assign", name, target) if {name, target} <= heads.keys() and name != target:
            lake.references.assign(name, target, meta=CommitMeta("model"))
            heads[name] = heads[target]
        case ("delete", name) if name in heads:
            lake.branch(name).delete()
            del heads[name]
        case ("commit", branch, changes) if branch in heads:
            commit(lake, model, branch, changes, ids)
        case ("merge", source, target) if {source, target} <= heads.keys() and source != target:
            before = state(lake, target)
            try:
                merge(lake, model, source, heads[source], target, Behavior.NORMAL, happened)
                happened["after a sweep"] += swept
            except MergeBaseExpired:
                assert swept, "nothing was swept that it could need"
                assert state(lake, target) == before
                happened["refused"] += 1


def maintain(engine: Headwater, clock: ManualClock, keep: int, happened: Counter[str]) -> bool:
    """Whether anything was deleted. The cache forgets too, as in another process."""
    clock.move(40 * DAY)
    kernel = engine.realm().kernel
    Expiry(kernel, parse_retention(f"*={keep}n")).run()
    clock.move(DAY)
    report, _ = sweep_store(engine.store, [kernel.realm])
    assert not report.failures
    deleted = sum(counted.purged for types in report.counts.values() for counted in types.values())
    engine.store.cache.clear()
    happened["swept"] += deleted > 0
    return deleted > 0
