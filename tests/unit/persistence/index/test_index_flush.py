"""Flushing: the levels say what a plain dict says, exactly the objects that change are named, and no flush does too much."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.index import IndexRows, table_key
from headwater.persistence.index import GEOMETRY, Index, IndexRoot, IndexValue, encode_key, flush
from headwater.persistence.index.level import load_stripes, open_levels
from headwater.persistence.index.merging import Workbench, elements_of, merge
from headwater.persistence.index.objects import DELETED
from headwater.persistence.rows import ROW_BYTES_MAX
from headwater.schemas.errors import IdOutOfRange, InvalidInput
from tests.support.models.index_cases import Model, apply, assert_reads_like, assert_well_formed, flush_into, keys, tails
from tests.support.models.index_history import TINY, written_digest


@settings(deadline=None)
@given(st.lists(tails, max_size=25), keys)
def test_any_sequence_of_flushes_reads_like_a_dict(history: list[dict[bytes, IndexValue | None]], absent: bytes) -> None:
    store, root = IndexRows(), IndexRoot()
    model: Model = {}
    for tail in history:
        flushed = flush_into(store, root, tail, TINY)
        store.delete(flushed.released)
        root, model = flushed.root, apply(model, tail)
        store.drop_cache()
        assert_well_formed(store, root)
        assert_reads_like(Index(store.load, root, {}), model, [absent] if absent not in model else [])


def test_a_growing_and_shrinking_index_gains_and_loses_levels_stripes_and_bytes() -> None:
    store, root, model = IndexRows(), IndexRoot(), dict[bytes, IndexValue]()
    chance = random.Random(3)
    all_keys = [table_key(number) for number in range(1_500)]
    level_counts, stripe_counts = [], []

    def go(tail: dict[bytes, IndexValue | None]) -> None:
        nonlocal root, model
        flushed = flush_into(store, root, tail, TINY)
        store.delete(flushed.released)
        root, model = flushed.root, apply(model, tail)
        level_counts.append(len(root.levels))
        stripe_counts.append(len(store.rows))

    chance.shuffle(all_keys)
    for at in range(0, len(all_keys), 4):
        go({key: IndexValue(at + 1, 1) for key in all_keys[at : at + 4]})
    assert_well_formed(store, root)
    assert_reads_like(Index(store.load, root, {}), model)
    assert max(level_counts) >= 7
    chance.shuffle(all_keys)
    for at in range(0, len(all_keys), 4):
        go(dict.fromkeys(all_keys[at : at + 4]))
        if at % 600 == 0:
            assert_well_formed(store, root)
    assert_reads_like(Index(store.load, root, {}), model, all_keys)
    assert model == {}
    for _ in range(40):  # what ordinary traffic on a single key leaves of the tombstones
        go({all_keys[0]: None})
    assert len(root.levels) <= 3
    assert stripe_counts[-1] <= 3 < max(stripe_counts)


def test_light_stripes_are_combined_and_heavy_ones_split() -> None:
    store = IndexRows()
    many = {table_key(number): IndexValue(number + 1, 1) for number in range(400)}
    root = flush_into(store, IndexRoot(), many, TINY).root
    last = open_levels(store.load, root)[-1]
    assert len(last.refs) > 50
    assert all(TINY.stripe_weight_min <= ref.weight <= TINY.stripe_weight_max + len(ref.first) + 11 for ref in last.refs)
    kept = dict(list(many.items())[::20])
    root = flush_into(store, root, {key: None for key in many if key not in kept}, TINY).root
    assert_reads_like(Index(store.load, root, {}), kept)
    last = open_levels(store.load, root)[-1]
    assert all(ref.weight >= TINY.stripe_weight_min for ref in last.refs)
    assert_well_formed(store, root)


def test_a_stripe_that_deletes_leave_light_joins_a_neighbour_and_the_others_stay() -> None:
    store = IndexRows()
    many = {table_key(number): IndexValue(number + 1, 1) for number in range(400)}
    last = open_levels(store.load, flush_into(store, IndexRoot(), many, TINY).root)[-1]
    thinned = [0, 20, 21, 40, len(last.refs) - 1]
    stripes = load_stripes(store.load, [ref.id for ref in last.refs])
    doomed = [key for at in thinned for key in stripes[last.refs[at].id].keys[1:]]
    bench = Workbench(store.load, TINY, [last])
    merged = merge(bench, last, dict.fromkeys(doomed, DELETED), into_last=True)
    assert all(ref.weight >= TINY.stripe_weight_min for ref in merged.refs)
    assert sorted(elements_of(bench.stripes(merged.refs))) == sorted(many.keys() - set(doomed))
    kept = {ref.id for ref in merged.refs} & {ref.id for ref in last.refs}
    assert len(last.refs) - 2 * len(thinned) <= len(kept) < len(last.refs) - len(thinned)


def test_the_longest_keys_still_fit_rows_and_levels() -> None:
    store, root = IndexRows(), IndexRoot()
    chance = random.Random(4)
    model: Model = {}
    for _ in range(40):
        tail = {
            encode_key([chance.randbytes(245).hex(), chance.randbytes(200).hex()]): IndexValue(chance.randrange(1, 2**63), 1)
            for _ in range(16)
        }
        flushed = flush_into(store, root, tail, GEOMETRY)
        store.delete(flushed.released)
        root, model = flushed.root, apply(model, tail)
    assert_reads_like(Index(store.load, root, {}), model)
    assert max(len(row.payload) for row in store.rows.values()) < ROW_BYTES_MAX / 4


def test_a_tail_of_twenty_thousand_keys_is_one_minimal_flush() -> None:
    store = IndexRows()
    root = flush_into(store, IndexRoot(), {table_key(n): IndexValue(n + 1, 1) for n in range(60_000)}, GEOMETRY).root
    before = store.bytes_written
    merged: dict[bytes, IndexValue | None] = {table_key(n * 3): IndexValue(n + 7, 2) for n in range(20_000)}
    root = flush_into(store, root, merged, GEOMETRY).root
    assert store.bytes_written - before < 1_000_000
    index = Index(store.load, root, {})
    assert index.get_many(merged) == merged
    assert sum(1 for _ in index.items()) == 60_000


def test_the_same_root_and_tail_give_the_same_bytes_in_every_process() -> None:
    digests = {_digest(seed) for seed in ("0", "77")}
    assert len(digests) == 1
    assert digests == {written_digest(shuffled=True)}


def test_a_flush_of_nothing_onto_nothing_is_nothing() -> None:
    flushed = flush(IndexRows().load, IndexRoot(), {}, IndexRows().new_id)
    assert (flushed.root, flushed.added, flushed.released) == (IndexRoot(), [], [])
    flushed = flush(IndexRows().load, IndexRoot(), {b"a": None}, IndexRows().new_id)
    assert (flushed.root, flushed.added, flushed.released) == (IndexRoot(), [], [])


def test_a_root_takes_little_room_in_an_entry() -> None:
    root = IndexRoot(tuple(2**62 + n for n in range(7)))
    encoded = msgspec.msgpack.encode(root)
    assert len(encoded) <= 66
    assert msgspec.msgpack.decode(encoded, type=IndexRoot) == root


@pytest.mark.parametrize("value", [IndexValue(0, 1), IndexValue(-1, 1), IndexValue(2**63, 1), IndexValue(1, 256)])
def test_a_value_that_does_not_fit_is_refused(value: IndexValue) -> None:
    with pytest.raises(IdOutOfRange):
        flush(IndexRows().load, IndexRoot(), {b"a": value}, IndexRows().new_id)


def test_a_key_that_no_path_encodes_to_is_refused() -> None:
    with pytest.raises(InvalidInput):
        flush(IndexRows().load, IndexRoot(), {b"a\0\0b": IndexValue(1, 1)}, IndexRows().new_id)


def _digest(hash_seed: str) -> str:
    program = "from tests.support.models.index_history import written_digest; print(written_digest())"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()
