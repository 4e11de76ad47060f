"""Keys and tails to draw from, and what a plain dict says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from bench.index import IndexRows
from headwater.persistence.index import (
    END,
    START,
    Flushed,
    Geometry,
    Index,
    IndexRoot,
    IndexValue,
    decode_key,
    encode_key,
    flush,
    reachable,
)
from headwater.persistence.index.level import load_stripes, open_levels
from headwater.persistence.index.objects import DELETED

Model = dict[bytes, IndexValue]

elements = st.sampled_from(["a", "b", "acc", "accounting", "z", "é", "𝄞", "table_0001", "table_0002", "\x01", " "])
paths = st.lists(elements, min_size=1, max_size=3).map(tuple)
keys = paths.map(encode_key)
values = st.builds(IndexValue, st.integers(1, 2**63 - 1), st.integers(0, 255))
tails = st.dictionaries(keys, st.none() | values, max_size=12)


def apply(model: Model, tail: Mapping[bytes, IndexValue | None]) -> Model:
    """What a plain dict makes of the operations."""
    after = dict(model)
    for key, value in tail.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def flush_into(store: IndexRows, root: IndexRoot, tail: Mapping[bytes, IndexValue | None], geometry: Geometry) -> Flushed:
    """Flush, write, and check that `added` and `released` are exactly the difference of what is reachable."""
    before = reachable(store.load, root)
    flushed = flush(store.load, root, tail, store.new_id, geometry)
    added = [object_id for object_id, _ in flushed.added]
    assert len(set(added)) == len(added)
    assert not set(added) & store.rows.keys()
    store.write(flushed.added)
    after = reachable(store.load, flushed.root)
    assert set(added) == after - before
    assert set(flushed.released) == before - after
    assert len(set(flushed.released)) == len(flushed.released)
    return flushed


def assert_well_formed(store: IndexRows, root: IndexRoot) -> None:
    """Stripes of a level are sorted and disjoint, directories tell the truth, the last level holds no tombstone."""
    levels = open_levels(store.load, root)
    assert not levels or levels[-1].weight or len(levels) > 1
    for level in levels:
        stripes = load_stripes(store.load, [ref.id for ref in level.refs])
        in_order = [key for ref in level.refs for key in stripes[ref.id].keys]
        assert in_order == sorted(set(in_order))
        for ref in level.refs:
            stripe = stripes[ref.id]
            assert ref == (stripe.keys[0], ref.id, stripe.count, stripe.values.count(DELETED), stripe.weight)
            assert len(stripe.keys) == len(stripe.values) == stripe.count > 0
            if level is levels[-1]:
                assert DELETED not in stripe.values


def assert_reads_like(index: Index, model: Model, absent: Iterable[bytes] = ()) -> None:
    in_order = sorted(model.items())
    assert list(index.items()) == in_order
    assert list(index.items(reverse=True)) == in_order[::-1]
    assert index.get_many([*model, *absent]) == model
    assert index.count_estimate() >= len(model)


def between(model: Model, lower: bytes = START, upper: bytes = END) -> list[tuple[bytes, IndexValue]]:
    return sorted((key, value) for key, value in model.items() if lower <= key < upper)


def below(model: Model, path: tuple[str, ...]) -> list[bytes]:
    """Keys strictly below a path, by comparing element by element."""
    return sorted(key for key in model if len(decode_key(key)) > len(path) and decode_key(key)[: len(path)] == path)


def differences(before: Model, after: Model) -> list[tuple[bytes, IndexValue | None, IndexValue | None]]:
    either = sorted(before.keys() | after.keys())
    return [(key, before.get(key), after.get(key)) for key in either if before.get(key) != after.get(key)]
