"""Numbers that others wrote are read or refused; no text raises an error of Python's."""

from __future__ import annotations

import pytest

from headwater.schemas.whole_numbers import NUMBER_MAX, whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (str(NUMBER_MAX), NUMBER_MAX)])
def test_a_whole_number_is_read(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", " 1", "+1", "-1", "1.0", "1_000", "²", "１", "soon", str(NUMBER_MAX + 1), "9" * 5_000])
def test_any_other_text_is_none(text: str) -> None:
    assert whole_number(text) is None
