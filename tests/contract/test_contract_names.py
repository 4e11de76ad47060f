"""Names come in code point order, by prefix, behind a name, as many as asked for."""

from __future__ import annotations

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.rows import NAME_BYTES_MAX
from headwater.schemas.errors import InvalidName

NAMES = [
    "A",
    "Z",
    "a",
    "a ",
    "a%",
    "a%b",
    "a/b",
    "a\\b",
    "a_b",
    "aa",
    "ab",
    "b",
    "cat/1/heads/main",
    "cat/1/heads/ärger",
    "cat/1/roles",
    "cat/10/heads/main",
    "cat/2/heads/main",
    "grants",
    "z",
    "zz",
    "e\u0301",
    "é",
    "ß",
    "я",
    "ﬀ",
    "\ufffd",
    "𝔘",
    "😀",
    "\U0010ffff",
]
PREFIXES = ["", "a", "a%", "a_", "a\\", "cat/", "cat/1", "cat/1/", "cat/1/heads/ä", "é", "\ufffd", "𝔘", "\U0010ffff", "nothing"]
AFTERS = ["", "A", "a", "a%", "aa", "cat/1/heads/main", "cat/1/z", "z", "\uffff", "😀", "\U0010ffff", "0"]


def expected(prefix: str, after: str, limit: int) -> list[str]:
    return sorted(name for name in NAMES if name.startswith(prefix) and name > after)[:limit]


def test_names_are_listed_as_a_sorted_list_of_code_points_would(backend: Backend, realm: str) -> None:
    for name in reversed(NAMES):
        backend.add_name(realm, name)
    for prefix in PREFIXES:
        for after in AFTERS:
            found = backend.list_names(realm, prefix=prefix, after=after)
            assert found == expected(prefix, after, 1_000), (prefix, after)
            assert backend.list_names(realm, prefix=prefix, after=after, limit=2) == found[:2], (prefix, after)


def test_pages_of_any_size_give_every_name_once(backend: Backend, realm: str) -> None:
    for name in NAMES:
        backend.add_name(realm, name)
    for limit in (1, 7, len(NAMES), len(NAMES) + 1):
        listed: list[str] = []
        while page := backend.list_names(realm, after=listed[-1] if listed else "", limit=limit):
            assert len(page) <= limit
            listed += page
        assert listed == sorted(NAMES)


def test_adding_a_name_again_changes_nothing(backend: Backend, other_backend: Backend, realm: str) -> None:
    backend.add_name(realm, "main")
    other_backend.add_name(realm, "main")
    assert backend.list_names(realm) == other_backend.list_names(realm) == ["main"]


def test_a_name_may_refer_to_no_pointer(backend: Backend, realm: str) -> None:
    backend.add_name(realm, "main")
    assert backend.read_pointer(realm, "main") is None


def test_realms_do_not_see_each_others_names(backend: Backend, realm: str, other_realm: str) -> None:
    backend.add_name(realm, "main")
    assert backend.list_names(other_realm) == []


def test_the_longest_name_is_listed_and_a_longer_one_refused(backend: Backend, realm: str) -> None:
    backend.add_name(realm, "n" * NAME_BYTES_MAX)
    assert backend.list_names(realm, prefix="n" * NAME_BYTES_MAX) == ["n" * NAME_BYTES_MAX]
    for refused in ("n" * (NAME_BYTES_MAX + 1), "", "a\0b"):
        with pytest.raises(InvalidName):
            backend.add_name(realm, refused)
