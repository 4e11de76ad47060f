"""Cursor tokens come back as they went, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.change import Kind, Op
from headwater.schemas.cursor import POINTERS_MAX, Cursor, Position, decode_cursor, encode_cursor, is_cursor
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import Filter

POSITIONS = st.dictionaries(
    st.text(min_size=1, max_size=40),
    st.builds(Position, st.integers(0, 2**62), st.binary(min_size=32, max_size=32)),
    max_size=5,
)
FILTERS = st.builds(
    Filter,
    kinds=st.lists(st.sampled_from(Kind), max_size=2).map(tuple),
    operations=st.lists(st.sampled_from(Op), max_size=2).map(tuple),
    prefix=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@given(st.builds(Cursor, st.text(max_size=30), POSITIONS, FILTERS))
def test_a_cursor_comes_back_as_it_went(cursor: Cursor) -> None:
    token = encode_cursor(cursor)
    assert is_cursor(token)
    assert decode_cursor(token) == cursor


@given(st.data())
def test_a_cursor_with_one_other_character_is_refused(data: st.DataObject) -> None:
    token = encode_cursor(Cursor("r#1", {"cat/1/heads/main": Position(7, b"x" * 32)}))
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("Aa0_-!é").filter(lambda c: c != token[at]))
    with pytest.raises(InvalidInput):
        decode_cursor(token[:at] + other + token[at + 1 :])


@pytest.mark.parametrize("token", ["", "hwc1_", "hwc1_AAAA", "hwc2_abc", "7", "hwc1_" + "A" * 5000])
def test_what_is_no_cursor_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="after: the cursor is damaged"):
        decode_cursor(token)


def test_a_truncated_cursor_is_refused_wherever_it_is_cut() -> None:
    token = encode_cursor(Cursor("r#1", {"p": Position(7, b"x" * 32)}))
    for length in range(len(token)):
        with pytest.raises(InvalidInput):
            decode_cursor(token[:length])


def test_more_pointers_than_a_cursor_holds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="named subscription"):
        encode_cursor(Cursor("r#1", {str(n): Position(0, b"") for n in range(POINTERS_MAX + 1)}))
