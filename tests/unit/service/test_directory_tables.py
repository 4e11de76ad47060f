"""Content ids and keys in few bytes, and as the columns of a checkpoint's parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headwater.service.directory.directories import id_bytes
from headwater.service.directory.key_table import EMPTY_TABLE, ID_BYTES, table_from, table_of
from headwater.service.directory.known_keys import KnownKeys

PAIRS = some.lists(some.tuples(some.integers(0, 30).map(lambda n: n.to_bytes(ID_BYTES, "big")), some.binary(max_size=5)))


@given(PAIRS, PAIRS)
def test_a_table_has_every_pair_that_was_put_in_once_and_in_order(
    first: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]
) -> None:
    table = table_of(first).with_pairs(more)
    pairs = {*first, *more}
    assert [id for id, _ in table.pairs()] == sorted(id for id, _ in pairs)
    assert set(table.pairs()) == pairs and len(table) == len(pairs)
    for id, _ in pairs:
        assert sorted(table.keys_of(id)) == sorted(key for known, key in pairs if known == id)
    assert table.keys_of(b"\xff" * ID_BYTES) == []


@given(PAIRS, some.integers(0, 20))
def test_a_table_is_the_same_after_it_was_cut_into_parts(pairs: list[tuple[bytes, bytes]], cut: int) -> None:
    table = table_of(pairs)
    cut = min(cut, len(table))
    ids = [table.ids[: cut * ID_BYTES], table.ids[cut * ID_BYTES :]]
    keys = [table.keys[: table.offsets[cut]], table.keys[table.offsets[cut] :]]
    assert table_from(ids, [table.lengths(0, cut), table.lengths(cut, len(table))], keys) == table


def test_columns_that_contradict_each_other_are_refused() -> None:
    table = table_of([(b"a" * ID_BYTES, b"key")])
    for ids, lengths, keys in (
        (table.ids * 2, table.lengths(0, 1), table.keys),
        (table.ids, b"\x09\x00", table.keys),
        (table.ids, b"\x03", table.keys),
    ):
        with pytest.raises(ValueError):
            table_from([ids], [lengths], [keys])


def test_a_cached_key_uses_its_own_bytes_and_twenty_more() -> None:
    table = table_of((n.to_bytes(ID_BYTES, "big"), b"k" * 19) for n in range(1_000))
    assert table.size_bytes == 1_000 * (ID_BYTES + 4 + 19) + 4


def test_cached_keys_find_entries_of_the_table_and_later_ones() -> None:
    id, keys = b"i" * ID_BYTES, KnownKeys(EMPTY_TABLE)
    keys.add(id, b"b")
    keys.merge()
    keys.add(id, b"a")
    keys.add(id, b"b")
    assert (keys.keys_of(id), keys.later_count) == ([b"a", b"b"], 1)
    keys.add(b"short", b"key")
    assert len(keys) == 2


def test_what_is_no_uuid_is_no_id() -> None:
    assert id_bytes("0" * 32) == id_bytes("00000000-0000-0000-0000-000000000000") == bytes(ID_BYTES)
    for text in ("", "x" * 32, "00", "0" * 34, "é" * 16):
        assert id_bytes(text) is None
