"""Random branches, commits and merges on the real engine, compared with plain dicts and a naive three-way merge."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headwater
from headwater import Behavior, Delete, IcebergTable, MergeRules, Put
from headwater.embedded import CatalogHandle, Headwater
from headwater.producer.commits.operations import CatalogOperation
from headwater.schemas.errors import CommitConflict
from tests.support.fixtures.catalog_lake import kinds_and_keys

KEYS = [f"k{n}" for n in range(4)]
BRANCHES = ["main", "a", "b", "c"]
State = dict[str, tuple[str, str]]
"""Key → content id and value."""


class Node(NamedTuple):
    """One commit of the model: its state and what it descends from."""

    number: int
    state: State
    parents: tuple[Node, ...]

    def ancestors(self) -> dict[int, Node]:
        found: dict[int, Node] = {}
        unvisited = [self]
        while unvisited:
            node = unvisited.pop()
            if node.number not in found:
                found[node.number] = node
                unvisited += node.parents
        return found


ROOT = Node(0, {}, ())
UNDECIDED = ("", "")


def newest_shared(ours: dict[int, Node], theirs: dict[int, Node]) -> list[Node]:
    """Common ancestors that are ancestors of no other one, the newest first."""
    shared = [ours[number] for number in sorted(ours.keys() & theirs.keys(), reverse=True)]
    return [node for node in shared if not any(node.number in other.ancestors() for other in shared if other is not node)]


def together(ours: dict[int, Node], theirs: dict[int, Node]) -> State:
    """What both sides have seen: their newest common ancestors, merged."""
    newest, *others = newest_shared(ours, theirs)
    state = dict(newest.state)
    for other in others:
        base = together(newest.ancestors(), other.ancestors())
        for key in KEYS:
            was, new, mine = base.get(key), other.state.get(key), state.get(key)
            if was == new or mine == new:
                continue
            if mine != was:
                state[key] = UNDECIDED
            elif new is None:
                del state[key]
            else:
                state[key] = new
    return state


class Model:
    def __init__(self) -> None:
        self.heads = {"main": ROOT}
        self._numbers = 0

    def commit(self, branch: str, state: State, *sources: Node) -> None:
        self._numbers += 1
        self.heads[branch] = Node(self._numbers, state, (self.heads[branch], *sources))

    def merge(self, theirs: Node, target: str, behavior: Behavior) -> State | set[str] | None:
        """The state after it, the keys that clash, or None for nothing to do."""
        ours = self.heads[target]
        known, reached = ours.ancestors(), theirs.ancestors()
        if theirs.number in known:
            return None
        base = together(known, reached)
        merged, clashing = dict(ours.state), set()
        for key in KEYS:
            was, new, mine = base.get(key), theirs.state.get(key), ours.state.get(key)
            if was == new or behavior is Behavior.DROP:
                continue
            if behavior is Behavior.NORMAL and mine not in (was, new):
                clashing.add(key)
            elif new is None:
                merged.pop(key, None)
            else:
                merged[key] = new
        return clashing or (None if merged == ours.state else merged)


Step = (
    tuple[Literal["commit"], str, Mapping[str, int | None]]
    | tuple[Literal["branch"], str, str]
    | tuple[Literal["merge"], str, str, Behavior]
    | tuple[Literal["cross"], str, str, str, str]
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
    assert all(counted[what] for what in ("merged", "clashed", "nothing", "criss-cross")), f"too tame: {counted}"


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
    for branch, head in model.heads.items():
        assert state(lake, branch) == head.state


def commit(lake: CatalogHandle, model: Model, branch: str, changes: Mapping[str, int | None], ids: Iterator[str]) -> None:
    after, operations = dict(model.heads[branch].state), list[CatalogOperation]()
    for key, value in changes.items():
        if value is not None:
            content_id = after[key][0] if key in after else next(ids)
            after[key] = (content_id, str(value))
            operations.append(Put((key,), IcebergTable(str(value)), content_id=content_id))
        elif key in after:
            del after[key]
            operations.append(Delete((key,)))
    if operations:
        lake.branch(branch).commit(operations)
        model.commit(branch, after)


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


def merge(
    lake: CatalogHandle, model: Model, source: str, theirs: Node, target: str, behavior: Behavior, happened: Counter[str]
) -> None:
    ours, rules, seq = model.heads[target], MergeRules(default=behavior), lake.branch(target).info().seq
    expected = model.merge(theirs, target, behavior)
    if isinstance(expected, set):
        with pytest.raises(CommitConflict) as conflict:
            lake.merge(source, target, rules=rules)
        assert {key for _, (key,) in kinds_and_keys(conflict.value)} == expected
        happened["clashed"] += 1
    elif expected is None:
        assert lake.merge(source, target, rules=rules).change is None
        happened["nothing"] += 1
    else:
        happened["criss-cross"] += len(newest_shared(ours.ancestors(), theirs.ancestors())) > 1
        assert lake.merge(source, target, rules=rules).seq == seq + 1
        model.commit(target, expected, theirs)
        happened["merged"] += 1
    assert state(lake, target) == model.heads[target].state


def state(lake: CatalogHandle, branch: str) -> State:
    return {entry.key[0]: (entry.content_id, entry.value["metadata_location"]) for entry in lake.snapshot(branch)}
