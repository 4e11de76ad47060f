"""Random branches, commits and merges on the real engine, compared with plain dicts and a naive three-way merge."""

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
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.merge import MergeRequest
from tests.support.models.merge_model import KEYS, Model, apply_merge, commit, merge, state

BRANCHES = ["main", "a", "b", "c"]

Step = (
    tuple[Literal["commit"], str, Mapping[str, int | None]]
    | tuple[Literal["branch"], str, str]
    | tuple[Literal["merge"], str, str, Behavior]
    | tuple[Literal["cross"], str, str, str, str]
    | tuple[Literal["late"], str, str, str]
)
BEGINNING: list[Step] = [("branch", "a", "main"), ("branch", "b", "a")]
branch_names = st.sampled_from(BRANCHES)
merges = st.tuples(
    st.just("merge"), branch_names, branch_names, st.sampled_from([Behavior.NORMAL] * 3 + [Behavior.FORCE, Behavior.DROP])
)
crossings = st.tuples(
    st.just("cross"), st.sampled_from("ab"), st.sampled_from(["main", "a", "b"]), st.sampled_from(KEYS), st.sampled_from("012")
)
steps = st.one_of(
    st.tuples(
        st.just("commit"), branch_names, st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(0, 2), min_size=1)
    ),
    merges,
    merges,
    crossings,
    st.tuples(st.just("late"), branch_names, branch_names, branch_names),
    st.tuples(st.just("branch"), st.just("c"), branch_names),
)


CROSSED: list[Step] = [
    ("cross", "a", "b", "k1", "1"),
    ("commit", "b", {"k1": 0, "k2": 2}),
    ("merge", "b", "a", Behavior.NORMAL),
    ("merge", "b", "a", Behavior.NORMAL),
    ("commit", "a", {"k3": 1}),
    ("commit", "b", {"k3": 2}),
    ("merge", "a", "b", Behavior.NORMAL),
    ("commit", "a", {"k3": 2}),
    ("commit", "main", {"k0": 2}),
    ("late", "a", "b", "main"),
]
"""Every outcome once, whatever else is drawn."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Headwater]:
    with headwater.open("memory://", create=True) as engine:
        engine.ensure_realm()
        yield engine


@pytest.fixture(scope="module")
def happened() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    assert all(counted[what] for what in ("merged", "clashed", "nothing", "criss-cross", "late")), f"too tame: {counted}"


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(history=CROSSED)
@given(history=st.lists(steps, min_size=20, max_size=40))
def test_random_histories_merge_like_dicts(engine: Headwater, happened: Counter[str], history: list[Step]) -> None:
    lake = engine.realm().create_catalog(f"lake-{uuid.uuid4().hex}")
    model, ids = Model(), (str(uuid.UUID(int=n)) for n in range(1, 10_000))
    commit(lake, model, "main", dict.fromkeys(KEYS, 0), ids)
    for step in [*BEGINNING, *history]:
        match step:
            case ("branch", name, source) if name not in model.heads and source in model.heads:
                lake.create_branch(name, source)
                model.heads[name] = model.heads[source]
            case ("commit", branch, changes) if branch in model.heads:
                commit(lake, model, branch, changes, ids)
            case ("merge", source, target, behavior) if {source, target} <= model.heads.keys() and source != target:
                merge(lake, model, source, model.heads[source], target, behavior, happened)
            case ("cross", one, other, key, value) if {one, other} <= model.heads.keys() and one != other:
                cross(lake, model, one, other, {key: int(value)}, ids, happened)
            case ("late", source, target, other) if len({source, target, other} & model.heads.keys()) == len(BRANCHES) - 1:
                late(lake, model, source, target, other, happened)
    for branch, head in model.heads.items():
        assert state(lake, branch) == head.state


def late(lake: CatalogHandle, model: Model, source: str, target: str, other: str, happened: Counter[str]) -> None:
    """A merge that was prepared before another one into the same branch landed."""
    resolved, theirs = lake.references.resolve(source), model.heads[source]
    request = MergeRequest(lake.realm.kernel, resolved.logged, resolved.pointer, CommitMeta("late"))
    request.prepare(lake.branch(target).pointer)
    merge(lake, model, other, model.heads[other], target, Behavior.NORMAL, happened)
    apply_merge(lake, model, request, theirs, target, Behavior.NORMAL, happened)
    happened["late"] += 1


def cross(
    lake: CatalogHandle,
    model: Model,
    one: str,
    other: str,
    change: Mapping[str, int | None],
    ids: Iterator[str],
    happened: Counter[str],
) -> None:
    """Each takes over what the other one was before it took over anything: so they share two newest commits."""
    commit(lake, model, one, change, ids)
    commit(lake, model, other, {key: 7 for key in KEYS[:1] if key not in change}, ids)
    before, node = lake.branch(other).info().commit_id, model.heads[other]
    merge(lake, model, one, model.heads[one], other, Behavior.NORMAL, happened)
    merge(lake, model, before, node, one, Behavior.NORMAL, happened)
