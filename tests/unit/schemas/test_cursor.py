"""Cursor tokens come back as they went, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.change import Kind, Op
from headwater.schemas.cursor import (
    POINTERS_MAX,
    After,
    AfterEntry,
    AfterSeq,
    AfterTime,
    Cursor,
    Edge,
    Position,
    check_many,
    decode_cursor,
    encode_cursor,
    is_cursor,
    parse_after,
)
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
def test_a_cursor_survives_a_round_trip(cursor: Cursor) -> None:
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
def test_what_is_not_a_cursor_is_refused(token: str) -> None:
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


# ── what `after` may say ────────────────────────────────────────────────────────────────────────────────────

NOON = AfterTime(1_769_860_800_000_000)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("0", AfterSeq(0)),
        (7, AfterSeq(7)),
        ("9" * 19, AfterSeq(int("9" * 19))),
        ("ab" * 32, AfterEntry(b"\xab" * 32)),
        ("20" * 32, AfterEntry(b"\x20" * 32)),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31 12:00:00Z", NOON),
        ("2026-01-31 14:00:00.000+02:00", NOON),
        ("20260131T120000Z", NOON),
    ],
)
def test_each_kind_of_place_is_known_by_its_text(text: str | int, means: After) -> None:
    assert parse_after(text) == means
    assert parse_after(means) == means, "what is parsed stays as it is"


def test_a_token_is_parsed_to_what_it_carries() -> None:
    cursor = Cursor("r@1", {"main": Position(3, b"\x01" * 32)})
    assert parse_after(encode_cursor(cursor)) == cursor


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "1.5", "٣", "9" * 20, "EARLIEST", "Text", "AB" * 32, "a" * 63, "2026-01-31", "2026-01-31T12:00:00",
     "2026-13-01T00:00:00Z", "hwc1_", "hwc1_AAAA", "yesterday"],
)  # fmt: skip
def test_what_is_not_a_place_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_after(text, field="at")
    assert refused.value.field == "at" and refused.value.remedy


@given(st.text(max_size=80))
def test_any_text_is_a_place_or_is_refused(text: str) -> None:
    try:
        parse_after(text)
    except InvalidInput:
        return


def test_a_seq_or_an_id_is_refused_for_several_pointers() -> None:
    for after in (AfterSeq(1), AfterEntry(b"\x01" * 32)):
        check_many(after, 1)
        with pytest.raises(InvalidInput, match="2 pointers"):
            check_many(after, 2)
    for other in (NOON, Edge.EARLIEST, Edge.LATEST, Cursor("r@1", {})):
        check_many(other, 2)
