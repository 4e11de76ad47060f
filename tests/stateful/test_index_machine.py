"""Branches of an index, driven at random beside plain dicts: what is shared, swept or remembered never changes what is read."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from bench.index import IndexRows
from headwater.persistence.index import Index, IndexRoot, IndexValue, diff, reachable
from tests.support.models.index_cases import (
    Model,
    apply,
    assert_reads_like,
    assert_well_formed,
    below,
    between,
    differences,
    flush_into,
    keys,
    paths,
    values,
)
from tests.support.models.index_history import TINY


class State:
    """An entry's state: immutable, like the entry."""

    def __init__(self, root: IndexRoot, tail: dict[bytes, IndexValue | None], model: Model) -> None:
        self.root = root
        self.tail = tail
        self.model = model


class Indexes(RuleBasedStateMachine):
    states: Bundle[State] = Bundle("states")

    def __init__(self) -> None:
        super().__init__()
        self.store = IndexRows()
        self.live: list[State] = []

    def remember(self, root: IndexRoot, tail: dict[bytes, IndexValue | None], model: Model) -> State:
        state = State(root, tail, model)
        self.live.append(state)
        return state

    def index(self, state: State) -> Index:
        return Index(self.store.load, state.root, state.tail)

    @initialize(target=states)
    def begin(self) -> State:
        return self.remember(IndexRoot(), {}, {})

    @rule(target=states, onto=states, operations=st.lists(st.tuples(keys, st.none() | values), min_size=1, max_size=8))
    def commit(self, onto: State, operations: list[tuple[bytes, IndexValue | None]]) -> State:
        """Onto any state, not only the newest: two commits onto one state are two branches that share its stripes."""
        tail = onto.tail | dict(operations)
        model = apply(onto.model, dict(operations))
        if len(tail) <= 8:
            return self.remember(onto.root, tail, model)
        return self.remember(flush_into(self.store, onto.root, tail, TINY).root, {}, model)

    @rule(target=states, onto=states)
    def flush_early(self, onto: State) -> State:
        return self.remember(flush_into(self.store, onto.root, onto.tail, TINY).root, {}, onto.model)

    @rule(target=states, onto=states, share=st.floats(0, 1))
    def delete_many(self, onto: State, share: float) -> State:
        doomed = sorted(onto.model)[: int(len(onto.model) * share)]
        tail = onto.tail | dict.fromkeys(doomed)
        model = apply(onto.model, dict.fromkeys(doomed))
        return self.remember(flush_into(self.store, onto.root, tail, TINY).root, {}, model)

    @rule(target=states, state=consumes(states))
    def forget(self, state: State) -> State:
        """The oldest use of a state ends; at least one lives on."""
        if len(self.live) > 1:
            self.live.remove(state)
            return multiple()  # type: ignore[return-value]
        return state

    @rule()
    def sweep(self) -> None:
        """Delete every row that no living state reaches."""
        reached = set[int]().union(*(reachable(self.store.load, state.root) for state in self.live))
        self.store.delete(self.store.rows.keys() - reached)

    @rule()
    def restart(self) -> None:
        self.store.drop_cache()

    @rule(state=states, key=keys)
    def read(self, state: State, key: bytes) -> None:
        assert self.index(state).get(key) == state.model.get(key)
        assert_reads_like(self.index(state), state.model)
        assert_well_formed(self.store, state.root)

    @rule(state=states, lower=keys, upper=keys, path=paths)
    def read_ranges(self, state: State, lower: bytes, upper: bytes, path: tuple[str, ...]) -> None:
        index = self.index(state)
        assert list(index.items(lower, upper, reverse=True)) == between(state.model, lower, upper)[::-1]
        assert [key for key, _ in index.under(path)] == below(state.model, path)

    @rule(before=states, after=states)
    def compare(self, before: State, after: State) -> None:
        assert list(diff(self.index(before), self.index(after))) == differences(before.model, after.model)

    @invariant()
    def newest_state_reads_right(self) -> None:
        if self.live:
            assert list(self.index(self.live[-1]).items()) == sorted(self.live[-1].model.items())


def test_branches_of_an_index_read_like_plain_dicts() -> None:
    examples = 3_000 if os.environ.get("HEADWATER_SOAK") else 100
    run_state_machine_as_test(Indexes, settings=settings(max_examples=examples, stateful_step_count=50, deadline=None))
