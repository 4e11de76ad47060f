"""Branches, commits and merges as plain dicts and a naive three-way merge, beside the same steps on the real engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from headwater import Behavior, Delete, IcebergTable, MergeRules, Put
from headwater.embedded import CatalogHandle
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.merging.merge import MergeRequest
from headwater.schemas.errors import CommitConflict
from tests.support.fixtures.catalog_lake import kinds_and_keys

KEYS = [f"k{n}" for n in range(4)]
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


def merge(
    lake: CatalogHandle, model: Model, source: str, theirs: Node, target: str, behavior: Behavior, happened: Counter[str]
) -> None:
    resolved, rules = lake.references.resolve(source), MergeRules(default=behavior)
    request = MergeRequest(lake.realm.kernel, resolved.logged, resolved.pointer, CommitMeta("model"), rules=rules)
    request.prepare(lake.branch(target).pointer)
    apply_merge(lake, model, request, theirs, target, behavior, happened)


def apply_merge(
    lake: CatalogHandle,
    model: Model,
    request: MergeRequest,
    theirs: Node,
    target: str,
    behavior: Behavior,
    happened: Counter[str],
) -> None:
    """The engine's answer is the model's: nothing to do, these conflicts, or this state."""
    ours, pointer = model.heads[target], lake.branch(target).pointer
    expected = model.merge(theirs, target, behavior)
    if isinstance(expected, set):
        with pytest.raises(CommitConflict) as conflict:
            lake.realm.kernel.committer.commit(pointer, request)
        assert {key for _, (key,) in kinds_and_keys(conflict.value)} == expected
        happened["clashed"] += 1
    elif expected is None:
        assert lake.realm.kernel.committer.commit(pointer, request).logged is None
        happened["nothing"] += 1
    else:
        happened["criss-cross"] += len(newest_shared(ours.ancestors(), theirs.ancestors())) > 1
        assert lake.realm.kernel.committer.commit(pointer, request).logged is not None
        model.commit(target, expected, theirs)
        happened["merged"] += 1
    assert state(lake, target) == model.heads[target].state


def state(lake: CatalogHandle, branch: str) -> State:
    return {entry.key[0]: (entry.content_id, entry.value["metadata_location"]) for entry in lake.snapshot(branch)}
