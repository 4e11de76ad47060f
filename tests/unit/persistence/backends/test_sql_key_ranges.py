"""Splits of the SQL backends: every possible key lies in exactly one, and each large realm in all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.backends.sql.key_ranges import ranges, splits_between
from headwater.persistence.backends.sql.keys import Key
from headwater.persistence.rows import Split, Table
from headwater.schemas.errors import InvalidInput

texts = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=4)
few_texts = st.sampled_from(["a", "a\x01", "a\x02", "ab", "b", "é", "z~1", "\U0010ffff"])
realms = few_texts | texts
object_keys = st.tuples(realms, st.integers(1, 50), st.integers(0, 2))
mutable_keys = st.tuples(realms, few_texts, texts)


def holders(splits: list[Split], key: Key, realm: str | None) -> int:
    found = 0
    for split in splits:
        found += sum(1 for start, end in ranges(split, realm) if key >= start and (end is None or key < end))
    return found


@given(st.lists(object_keys, max_size=200), st.integers(1, 6), st.lists(object_keys, max_size=30))
def test_every_object_lies_in_exactly_one_split(sampled: list[Key], count: int, written_later: list[Key]) -> None:
    splits = splits_between(Table.OBJECTS, sampled, count)
    assert 1 <= len(splits) <= count
    for key in (*sampled, *written_later):
        assert holders(splits, key, None) == 1
        assert holders(splits, key, key[0]) == 1
        assert holders(splits, key, key[0] + "x") == 0


@given(st.lists(mutable_keys, max_size=100), st.integers(1, 6), st.lists(mutable_keys, max_size=30))
def test_every_mutable_row_lies_in_exactly_one_split(sampled: list[Key], count: int, written_later: list[Key]) -> None:
    splits = splits_between(Table.MUTABLE, sampled, count)
    for key in (*sampled, *written_later):
        assert holders(splits, key, None) == 1
        assert holders(splits, key, key[0]) == 1


def test_a_large_realm_among_others_is_spread_evenly_over_all_splits() -> None:
    others: list[Key] = [(f"tenant-{n:03}", id, 0) for n in range(300) for id in range(3)]
    large: list[Key] = [("tenant-150x", id, 0) for id in range(1, 201)]
    splits = splits_between(Table.OBJECTS, [*others, *large], 4)
    for keys in (others, large):
        held = [sum(holders([split], key, None) for key in keys) for split in splits]
        assert sum(held) == len(keys)
        assert min(held) > len(keys) / 8, held


@pytest.mark.parametrize("lower", ["", "[]]", '[["realm",1]]', '[[["r","x",0],null]]', "null"])
def test_a_border_that_is_none_is_bad_input(lower: str) -> None:
    with pytest.raises(InvalidInput):
        ranges(Split(Table.OBJECTS, lower, ""), None)
