"""Path keys: their order, their bounds, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.persistence.index import END, START, children_bounds, decode_key, encode_key, just_after, subtree_bounds
from headwater.persistence.index.keys import check_encoded
from headwater.schemas.errors import InvalidInput

any_element = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
any_path = st.lists(any_element, min_size=1, max_size=5).map(tuple)


@settings(deadline=None)
@given(any_path)
def test_a_key_decodes_to_its_path(path: tuple[str, ...]) -> None:
    assert decode_key(encode_key(path)) == path
    check_encoded(encode_key(path))
    assert START < encode_key(path) < END


@settings(deadline=None)
@given(any_path, any_path)
def test_keys_sort_like_the_paths_level_by_level(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (encode_key(one) < encode_key(other)) == (_code_points(one) < _code_points(other))


@settings(deadline=None)
@given(any_path, any_path)
def test_bounds_hold_exactly_the_subtree(parent: tuple[str, ...], path: tuple[str, ...]) -> None:
    for candidate in (path, parent + path, parent, (parent[0] + path[0], *path)):
        key, is_inside = encode_key(candidate), candidate[: len(parent)] == parent
        lower, upper = subtree_bounds(parent)
        assert (lower <= key < upper) == is_inside
        lower, upper = children_bounds(parent)
        assert (lower <= key < upper) == (is_inside and candidate != parent)


@settings(deadline=None)
@given(any_path, any_path, st.integers(min_value=1, max_value=4))
def test_bounds_with_a_beginning_hold_the_names_that_have_it_and_what_is_below(
    parent: tuple[str, ...], candidate: tuple[str, ...], length: int
) -> None:
    for below in (candidate, (*parent, *candidate)[:20]):
        for beginning in (candidate[0][:length], candidate[0], "z"):
            for path in (parent, ()):
                lower, upper = children_bounds(path, beginning)
                is_below = len(below) > len(path) and below[: len(path)] == path
                has_it = is_below and below[len(path)].startswith(beginning)
                assert (lower <= encode_key(below) < upper) == has_it


@settings(deadline=None)
@given(any_path, any_path)
def test_nothing_lies_between_a_key_and_just_after_it(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    key = encode_key(other)
    assert (key < just_after(encode_key(one))) == (key <= encode_key(one))


def test_a_parent_sorts_right_before_its_children_and_is_not_a_prefix_of_a_longer_name() -> None:
    paths = [
        ("acc",),
        ("acc", "x"),
        ("acc", "x", "y"),
        ("acc", "z"),
        ("acc\x01",),
        ("acc ",),
        ("accounting",),
        ("accounting", "x"),
    ]
    assert sorted(map(encode_key, paths)) == [encode_key(path) for path in paths]
    lower, upper = children_bounds(["acc"])
    assert [path for path in paths if lower <= encode_key(path) < upper] == paths[1:4]
    assert children_bounds([]) == (START, END)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ([], "0 elements"),
        (["x"] * 21, "21 elements"),
        ([""], "element 1 is empty"),
        (["a", "x\0y"], "element 2 holds a NUL"),
        (["a", "é" * 251], "element 2 takes 502 bytes"),
        (["a" * 400] * 3, "1202 bytes"),
        (["\ud800"], "not valid Unicode"),
        (["a", 7], "element 2 is int"),
        ("abc", "not one string"),
    ],
)
def test_a_key_that_cannot_be_kept_is_refused_with_field_and_remedy(path: list[str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        encode_key(path)
    assert caught.value.field == "key"
    assert caught.value.remedy


def test_the_longest_key_is_accepted() -> None:
    path = ("é" * 250, "y" * 499)
    assert len(encode_key(path)) == 1_000
    assert decode_key(encode_key(path)) == path


@pytest.mark.parametrize("raw", [b"", b"\0a", b"a\0", b"a\0\0b", b"\xff", b"a" * 1_001])
def test_bytes_that_no_path_encodes_to_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput, match="not an encoded key"):
        check_encoded(raw)


def _code_points(path: tuple[str, ...]) -> list[list[int]]:
    return [[ord(character) for character in element] for element in path]
