"""The difference of two states: exact for any two of a branching history, and blind to what they share."""

from __future__ import annotations

import random
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.index import IndexRows, table_key
from headwater.persistence.index import GEOMETRY, Index, IndexRoot, IndexValue, diff, flush, just_after
from headwater.persistence.index.walking import reachable
from tests.support.models.index_cases import Model, apply, differences, flush_into, keys, tails
from tests.support.models.index_history import TINY

State = tuple[IndexRoot, dict[bytes, IndexValue | None], Model]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), tails, tails), min_size=1, max_size=15), st.data())
def test_any_two_states_of_a_branching_history_differ_like_their_dicts(
    history: list[tuple[int, dict[bytes, IndexValue | None], dict[bytes, IndexValue | None]]], data: st.DataObject
) -> None:
    store = IndexRows()
    flushed_states: list[tuple[IndexRoot, Model]] = [(IndexRoot(), {})]
    states: list[State] = [(IndexRoot(), {}, {})]
    for onto, flushed_tail, tail in history:
        root, model = flushed_states[onto % len(flushed_states)]
        root, model = flush_into(store, root, flushed_tail, TINY).root, apply(model, flushed_tail)
        flushed_states.append((root, model))
        states.append((root, tail, apply(model, tail)))
    before = data.draw(st.sampled_from(states))
    after = data.draw(st.sampled_from(states))
    index_before, index_after = (Index(store.load, root, tail) for root, tail, _ in (before, after))
    expected = differences(before[2], after[2])
    assert list(diff(index_before, index_after)) == expected
    lower, upper = data.draw(keys), data.draw(keys)
    assert list(diff(index_before, index_after, lower, upper)) == [found for found in expected if lower <= found[0] < upper]


def test_a_difference_can_be_taken_in_pages() -> None:
    store = IndexRows()
    model: Model = {table_key(n): IndexValue(n + 1, 1) for n in range(600)}
    before = flush_into(store, IndexRoot(), model, TINY).root
    after = before
    for n in range(0, 600, 2):
        after = flush_into(store, after, {table_key(n): IndexValue(7_000 + n, 1)}, TINY).root
    one, other = Index(store.load, before, {}), Index(store.load, after, {})
    found: list[bytes] = []
    while page := list(islice(diff(one, other, just_after(found[-1]) if found else b""), 7)):
        found += [key for key, _, _ in page]
    assert found == sorted(table_key(n) for n in range(0, 600, 2))


def test_states_that_differ_in_ten_operations_over_100_000_keys_read_a_handful_of_stripes() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(n + 1, 1) for n in range(100_000)}, GEOMETRY).root
    root = _update(store, root, 2_000)
    neighbours: dict[bytes, IndexValue | None] = {table_key(4_200 + 100 * n): IndexValue(1, n) for n in range(10)}

    store.drop_cache()
    read_before = store.objects_read
    assert len(list(diff(Index(store.load, root, {}), Index(store.load, root, neighbours)))) == 10
    assert store.objects_read - read_before <= len(root.levels) + 4

    # The same across a flush: the small levels were rewritten and are read on both sides, the large ones are shared.
    flushed = flush(store.load, root, neighbours, store.new_id)
    store.write(flushed.added)
    store.drop_cache()
    read_before = store.objects_read
    assert len(list(diff(Index(store.load, root, {}), Index(store.load, flushed.root, {})))) == 10
    assert store.objects_read - read_before <= 2 * len(root.levels) + 10
    assert len(store.rows) > 50


def test_equal_states_read_nothing() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(n + 1, 1) for n in range(5_000)}, GEOMETRY).root
    store.drop_cache()
    read_before = store.objects_read
    tail: dict[bytes, IndexValue | None] = {table_key(1): None}
    assert list(diff(Index(store.load, root, tail), Index(store.load, root, dict(tail)))) == []
    assert store.objects_read == read_before


def test_branches_share_most_of_their_stripes() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(n + 1, 1) for n in range(100_000)}, GEOMETRY).root
    branch = _update(store, root, 320)
    shared = reachable(store.load, root) & reachable(store.load, branch)
    assert len(shared) > 0.9 * len(reachable(store.load, root))


def _update(store: IndexRows, root: IndexRoot, updates: int) -> IndexRoot:
    chance = random.Random(11)
    for _ in range(updates // 32):
        tail = {table_key(chance.randrange(100_000)): IndexValue(store.new_id(), 1) for _ in range(32)}
        root = flush_into(store, root, tail, GEOMETRY).root
    return root
