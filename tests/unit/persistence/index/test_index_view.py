"""Reading: ranges both ways, subtrees, pages, and how little of a large index one read touches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.index import IndexRows, table_key
from headwater.persistence.index import (
    GEOMETRY,
    Directory,
    Index,
    IndexObject,
    IndexRoot,
    IndexValue,
    children_bounds,
    decode_key,
    encode_key,
    flush,
    just_after,
)
from headwater.persistence.index.level import open_levels
from headwater.schemas.errors import ObjectNotFound, WrongObjectType
from tests.support.models.index_cases import Model, apply, below, between, flush_into, keys, paths, tails
from tests.support.models.index_history import TINY


class Loads:
    """Counts bulk loads and the objects that they ask for."""

    def __init__(self, store: IndexRows) -> None:
        self._store = store
        self.calls: list[Sequence[int]] = []

    def __call__(self, ids: Sequence[int]) -> dict[int, IndexObject]:
        self.calls.append(ids)
        return self._store.load(ids)

    @property
    def objects(self) -> int:
        return len({object_id for ids in self.calls for object_id in ids})


@pytest.fixture(scope="module")
def large() -> tuple[IndexRows, IndexRoot, Model]:
    """100,000 tables in 100 namespaces, the last 20,000 operations spread over all levels."""
    store, chance = IndexRows(), random.Random(7)
    model: Model = {table_key(number): IndexValue(store.new_id(), 1) for number in range(100_000)}
    root = flush_into(store, IndexRoot(), model, GEOMETRY).root
    every_key = list(model)
    for _ in range(625):
        tail: dict[bytes, IndexValue | None] = {
            key: None if chance.random() < 0.1 else IndexValue(store.new_id(), 2) for key in chance.choices(every_key, k=32)
        }
        flushed = flush(store.load, root, tail, store.new_id)
        store.write(flushed.added)
        store.delete(flushed.released)
        root = flushed.root
        model.update((key, value) for key, value in tail.items() if value is not None)
        for key in [key for key, value in tail.items() if value is None]:
            model.pop(key, None)
    assert sum(isinstance(store.load([top])[top], Directory) for top in root.levels if top) >= 3
    return store, root, model


@settings(deadline=None)
@given(st.lists(tails, max_size=12), tails, st.tuples(keys, keys), paths)
def test_ranges_subtrees_and_pages_read_like_a_dict(
    history: list[dict[bytes, IndexValue | None]],
    tail: dict[bytes, IndexValue | None],
    bounds: tuple[bytes, bytes],
    path: tuple[str, ...],
) -> None:
    store, root = IndexRows(), IndexRoot()
    model: Model = {}
    for older in history:
        root, model = flush_into(store, root, older, TINY).root, apply(model, older)
    model = apply(model, tail)
    index = Index(store.load, root, tail)
    assert list(index.items(*bounds)) == between(model, *bounds)
    assert list(index.items(*bounds, reverse=True)) == between(model, *bounds)[::-1]
    assert [key for key, _ in index.under(path)] == below(model, path)
    assert [key for key, _ in index.under(path, reverse=True)] == below(model, path)[::-1]
    assert [key for key, _ in index.under((), after=bounds[0])] == [key for key in sorted(model) if key > bounds[0]]
    assert index.get(bounds[0]) == model.get(bounds[0])
    assert _in_pages_of(2, index, path, reverse=False) == below(model, path)
    assert _in_pages_of(2, index, path, reverse=True) == below(model, path)[::-1]


def test_a_new_tail_over_the_same_levels_reads_no_level_again(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    loads = Loads(store)
    index = Index(loads, root, {})
    key = next(iter(model))
    assert index.get(key) == model[key]
    loads.calls.clear()
    assert index.with_tail({key: IndexValue(9, 9)}).get(key) == IndexValue(9, 9)
    assert loads.calls == []
    assert index.with_tail({key: None}).get(key) is None
    other = next(other for other in model if other != key and model[other].tag == 1)  # never updated: in the last level
    assert index.with_tail({key: None}).get(other) == model[other]
    assert len(loads.calls) == 1
    assert not set(loads.calls[0]) & set(root.levels)


def test_one_lookup_takes_one_load_of_levels_and_one_of_a_stripe_per_level(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    for key in random.Random(8).sample(list(model), 50):
        loads = Loads(store)
        assert Index(loads, root, {}).get(key) == model[key]
        assert len(loads.calls) <= 2
        assert loads.objects <= 2 * len(root.levels)


def test_many_lookups_take_two_loads(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    loads = Loads(store)
    wanted = random.Random(9).sample(list(model), 500)
    assert Index(loads, root, {}).get_many(wanted) == {key: model[key] for key in wanted}
    assert len(loads.calls) == 2


def test_a_page_of_a_large_index_reads_a_few_stripes(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    for reverse in (False, True):
        loads = Loads(store)
        page = list(islice(Index(loads, root, {}).items(reverse=reverse), 100))
        assert page == sorted(model.items(), reverse=reverse)[:100]
        assert loads.objects <= 3 * len(root.levels)


def test_a_namespace_of_a_large_index_reads_about_its_own_stripes(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    loads = Loads(store)
    lower, upper = children_bounds(["db7"])
    namespace = list(Index(loads, root, {}).under(["db7"]))
    assert namespace == between(model, lower, upper)
    assert {decode_key(key)[0] for key, _ in namespace} == {"db7"}
    assert loads.objects <= 4 * len(root.levels) < len(store.rows) / 2


def test_a_full_scan_is_exact_and_reads_ahead_in_bulk(large: tuple[IndexRows, IndexRoot, Model]) -> None:
    store, root, model = large
    loads = Loads(store)
    index = Index(loads, root, {})
    assert list(index.items()) == sorted(model.items())
    assert len(loads.calls) <= 12
    assert len(model) <= index.count_estimate() <= 1.5 * len(model)


def test_the_estimate_is_exact_where_nothing_is_replaced() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(1, 1) for n in range(500)}, TINY).root
    assert Index(store.load, root, {}).count_estimate() == 500
    assert Index(store.load, root, {encode_key(["new"]): IndexValue(1, 1), table_key(1): None}).count_estimate() == 501


def test_a_state_that_misses_a_stripe_fails_and_is_never_partial() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(1, 1) for n in range(500)}, TINY).root
    lost = open_levels(store.load, root)[-1].refs[3].id
    store.delete([lost])
    with pytest.raises(ObjectNotFound) as caught:
        list(Index(store.load, root, {}).items())
    assert caught.value.facts["object_id"] == lost
    store.delete([root.levels[-1]])
    with pytest.raises(ObjectNotFound):
        Index(store.load, root, {}).get(table_key(3))


def test_a_directory_in_the_place_of_a_stripe_is_corruption() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(1, 1) for n in range(500)}, TINY).root
    directory = store.load([root.levels[-1]])[root.levels[-1]]
    with pytest.raises(WrongObjectType, match="Directory"):
        list(Index(lambda ids: dict.fromkeys(ids, directory), root, {}).items())


def _in_pages_of(size: int, index: Index, path: tuple[str, ...], *, reverse: bool) -> list[bytes]:
    found: list[bytes] = []
    while True:
        page = [key for key, _ in islice(index.under(path, after=found[-1] if found else None, reverse=reverse), size)]
        found += page
        if len(page) < size:
            return found
        assert just_after(page[-1]) > page[-1]
