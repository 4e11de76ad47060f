"""The arithmetic of ids: 41 bits of milliseconds, 10 of node, 12 of sequence, and what is outside is refused."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.ids.snowflake import (
    EPOCH_MS,
    ID_MAX,
    IDS_PER_MS,
    NODES,
    TIME_MS_MAX,
    IdParts,
    check_id,
    id_base,
    id_parts,
    id_time_micros,
    parse_id,
)
from headwater.schemas.errors import IdOutOfRange

TIMES, NODE_IDS, SEQUENCES = st.integers(0, TIME_MS_MAX), st.integers(0, NODES - 1), st.integers(0, IDS_PER_MS - 1)


def make_id(time_ms: int, node: int, sequence: int) -> int:
    return id_base(time_ms, node) | sequence


def test_the_epoch_is_the_first_of_march_2025() -> None:
    assert dt.datetime.fromtimestamp(EPOCH_MS / 1_000, dt.UTC) == dt.datetime(2025, 3, 1, tzinfo=dt.UTC)


def test_the_layout_is_41_10_12_with_the_sign_bit_free() -> None:
    assert make_id(1, 0, 0) == 1 << 22
    assert make_id(0, 1, 0) == 1 << 12
    assert make_id(0, 0, 1) == 1
    assert make_id(TIME_MS_MAX, NODES - 1, IDS_PER_MS - 1) == ID_MAX == 2**63 - 1


@given(st.tuples(TIMES, NODE_IDS, SEQUENCES).filter(any))
def test_an_id_is_split_into_its_parts(parts: tuple[int, int, int]) -> None:
    made = make_id(*parts)
    assert id_parts(made) == IdParts(*parts)
    assert id_time_micros(made) == (parts[0] + EPOCH_MS) * 1_000
    assert parse_id(str(made)) == made


@given(TIMES, TIMES, NODE_IDS, NODE_IDS, SEQUENCES, SEQUENCES)
def test_ids_sort_by_time(time: int, other: int, node: int, node2: int, sequence: int, sequence2: int) -> None:
    if time != other:
        assert (make_id(time, node, sequence) < make_id(other, node2, sequence2)) == (time < other)


@pytest.mark.parametrize("number", [0, -1, ID_MAX + 1])
def test_a_number_out_of_range_is_not_an_id(number: int) -> None:
    with pytest.raises(IdOutOfRange, match="Ids are 1 to"):
        check_id(number)
    with pytest.raises(IdOutOfRange):
        id_parts(number)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "abc", "0x10", " 1", "9223372036854775808", "1" * 5_000, "١٢"])
def test_text_that_is_not_an_id_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(IdOutOfRange) as caught:
        parse_id(text)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
