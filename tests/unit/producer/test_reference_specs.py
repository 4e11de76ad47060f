"""Names of references and the specs that lead from them, as text."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.producer.page_tokens import make_token, read_token
from headwater.producer.pointer_names import (
    ReferencePointer,
    ReferenceType,
    branch_pointer,
    check_catalog_name,
    check_reference_name,
    parse_reference_pointer,
)
from headwater.producer.references.reference_specs import ReferenceSpec, Step, StepKind, parse_reference_spec
from headwater.schemas.errors import InvalidInput, InvalidName

COMMIT = "0123456789abcdef" * 4
RAW = bytes.fromhex(COMMIT)
ANCESTOR, PARENT, TIME = StepKind.ANCESTOR, StepKind.PARENT, StepKind.TIME
NOON_MICROS = 1_769_860_800_000_000
"""2026-01-31T12:00:00Z"""


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("main", ReferenceSpec("main")),
        ("-", ReferenceSpec("-")),
        ("feature/a.b_c-1", ReferenceSpec("feature/a.b_c-1")),
        (f"main@{COMMIT}", ReferenceSpec("main", RAW)),
        (f"@{COMMIT}", ReferenceSpec(None, RAW)),
        (COMMIT, ReferenceSpec(None, RAW)),
        (COMMIT.upper(), ReferenceSpec(None, RAW)),
        ("main~3", ReferenceSpec("main", None, (Step(ANCESTOR, 3),))),
        (f"{COMMIT}^2~1", ReferenceSpec(None, RAW, (Step(PARENT, 2), Step(ANCESTOR, 1)))),
        ("main*2026-01-31T12:00:00Z", ReferenceSpec("main", None, (Step(TIME, NOON_MICROS),))),
        ("main*2026-01-31T13:00:00+01:00~2", ReferenceSpec("main", None, (Step(TIME, NOON_MICROS), Step(ANCESTOR, 2)))),
        ("-*1769860800000", ReferenceSpec("-", None, (Step(TIME, NOON_MICROS),))),
    ],
)  # fmt: skip
def test_a_spec_is_read_into_its_parts(text: str, spec: ReferenceSpec) -> None:
    assert parse_reference_spec(text) == spec


@pytest.mark.parametrize(
    "text",
    ["", "~1", "*0", "main@", "main@abc", "@", "main~", "main~x", "main^-1", "main*yesterday", "main*2026-01-31T12:00:00",
     "main@x@y", "main~1@" + COMMIT, "a..b", "1main", "main/", "main.", "ma in", "main~" + "9" * 20, "main" + "~1" * 101],
)  # fmt: skip
def test_what_is_not_a_spec_is_refused_with_field_and_remedy(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_reference_spec(text)
    assert refused.value.field == "reference" and refused.value.remedy


@given(st.text())
def test_any_text_is_a_spec_or_invalid_input(text: str) -> None:
    try:
        parse_reference_spec(text)
    except InvalidInput as refused:
        assert refused.remedy


@pytest.mark.parametrize("name", ["deadbeef", COMMIT, "HEAD", "detached", "x" * 257, "", "a//..b", "é"])
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_reference_name(name)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".a", "a.", "x" * 257, "a b", 7])
def test_bad_catalog_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_catalog_name(name)


def test_pointer_names_survive_a_round_trip() -> None:
    assert branch_pointer(7, "a/tags/b") == "cat/7/heads/a/tags/b"
    assert parse_reference_pointer(branch_pointer(7, "a/tags/b")) == ReferencePointer(7, ReferenceType.BRANCH, "a/tags/b")
    assert parse_reference_pointer("cat/12/tags/v1") == ReferencePointer(12, ReferenceType.TAG, "v1")
    assert parse_reference_pointer("cat/7/roles") is None
    assert parse_reference_pointer("catalogs") is None


class Position(msgspec.Struct, frozen=True, array_like=True):
    at: bytes
    seq: int


@given(st.binary(), st.integers(0, 2**63 - 1))
def test_tokens_survive_a_round_trip(at: bytes, seq: int) -> None:
    assert read_token(make_token(Position(at, seq)), Position) == Position(at, seq)


@given(st.text())
def test_what_is_not_a_token_is_refused(text: str) -> None:
    try:
        read_token(text, Position)
    except InvalidInput as refused:
        assert refused.field == "page_token"
