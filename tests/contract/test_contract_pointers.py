"""The compare-and-swap that everything rests on: reserve, strong read, CAS on version, and whose row has moved."""

from __future__ import annotations

import secrets

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.rows import FENCE_CLOSED, NAME_BYTES_MAX, PointerRow
from headwater.schemas.errors import InvalidName
from tests.support.fixtures.contract_rows import an_object, pointer


def test_a_pointer_that_was_never_reserved_is_not_there(backend: Backend, realm: str) -> None:
    assert backend.read_pointer(realm, "main") is None
    assert backend.read_pointer(realm, "main", decide=True) is None
    assert not backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert not backend.delete_pointer(realm, "main", pointer(1))
    assert backend.read_pointer(realm, "main") is None


def test_a_pointer_is_reserved_once_and_read_back_whole_by_everyone(
    backend: Backend, other_backend: Backend, realm: str
) -> None:
    assert backend.reserve_pointer(realm, "main", pointer()) is True
    assert other_backend.reserve_pointer(realm, "main", pointer(head=b"\x02" * 32)) is False
    assert other_backend.read_pointer(realm, "main") == pointer()
    assert other_backend.read_pointer(realm, "main", decide=True) == pointer()


@pytest.mark.parametrize(
    "row",
    [
        PointerRow(created_at=1),
        PointerRow(created_at=2**53 + 1, fence=FENCE_CLOSED, seq=2**62, floor=2**61, head=b"\xff\x00" * 16),
        pointer(),
    ],
    ids=["reserved", "extreme", "ordinary"],
)
def test_every_column_survives_reserve_and_cas(backend: Backend, realm: str, row: PointerRow) -> None:
    assert backend.reserve_pointer(realm, "reserved", row)
    assert backend.read_pointer(realm, "reserved") == row
    assert backend.reserve_pointer(realm, "moved", pointer(7))
    assert backend.cas_pointer(realm, "moved", pointer(7), row)
    assert backend.read_pointer(realm, "moved") == row


def test_a_cas_is_applied_on_the_expected_version_only(backend: Backend, other_backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2)) is True
    assert other_backend.cas_pointer(realm, "main", pointer(1), pointer(2, head=b"\x09" * 32)) is False
    assert other_backend.cas_pointer(realm, "main", pointer(3), pointer(4)) is False
    assert other_backend.read_pointer(realm, "main") == pointer(2)
    assert other_backend.cas_pointer(realm, "main", pointer(2), pointer(3)) is True
    assert backend.read_pointer(realm, "main") == pointer(3)


def test_the_identical_cas_again_is_allowed_and_not_applied_twice(backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2)) is True
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2)) is False
    assert backend.read_pointer(realm, "main") == pointer(2)


def test_many_pointers_are_read_at_once_without_those_that_are_absent(
    backend: Backend, other_backend: Backend, realm: str
) -> None:
    for n in range(5):
        backend.reserve_pointer(realm, f"p{n}", pointer(n + 1))
    assert backend.cas_pointer(realm, "p3", pointer(4), pointer(9))
    names = [f"p{n}" for n in range(7)] + ["p1"]
    expected = {f"p{n}": pointer(9 if n == 3 else n + 1) for n in range(5)}
    assert other_backend.read_pointers(realm, names) == expected
    assert other_backend.read_pointers(realm, []) == {}


def test_a_pointer_is_deleted_on_the_expected_version_only_and_may_be_reserved_again(backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert backend.delete_pointer(realm, "main", pointer(1)) is False
    assert backend.read_pointer(realm, "main") == pointer(2)
    assert backend.delete_pointer(realm, "main", pointer(2)) is True
    assert backend.read_pointer(realm, "main") is None
    assert backend.read_pointer(realm, "main", decide=True) is None
    assert backend.delete_pointer(realm, "main", pointer(2)) is False
    assert backend.reserve_pointer(realm, "main", pointer(1)) is True
    assert backend.read_pointer(realm, "main") == pointer(1)


def test_realms_do_not_see_each_others_pointers(backend: Backend, realm: str, other_realm: str) -> None:
    assert backend.reserve_pointer(realm, "main", pointer(1))
    assert backend.read_pointer(other_realm, "main") is None
    assert backend.reserve_pointer(other_realm, "main", pointer(5))
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert backend.read_pointer(other_realm, "main") == pointer(5)
    assert backend.delete_pointer(other_realm, "main", pointer(5))
    assert backend.read_pointer(realm, "main") == pointer(2)


AWKWARD = [
    "a",
    "A",
    "a ",
    "é",
    "e\u0301",
    "cat/1/heads/main",
    "100%",
    "a_b",
    "a\\b",
    "'; --",
    "\n",
    "𝔘",
    "::x",
    "?",
    "%s",
    ":p",
]


def test_awkward_names_are_names_of_their_own(backend: Backend, realm: str) -> None:
    for n, name in enumerate(AWKWARD):
        assert backend.reserve_pointer(realm, name, pointer(n + 1)), name
    assert backend.read_pointers(realm, AWKWARD) == {name: pointer(n + 1) for n, name in enumerate(AWKWARD)}


def test_the_longest_name_is_kept_and_a_longer_one_refused(backend: Backend, realm: str) -> None:
    longest = "é" * (NAME_BYTES_MAX // 2 - 10) + secrets.token_hex(10)
    assert len(longest.encode()) == NAME_BYTES_MAX
    assert backend.reserve_pointer(realm, longest, pointer())
    assert backend.read_pointer(realm, longest) == pointer()
    for refused in (longest + "x", "", "a\0b"):
        with pytest.raises(InvalidName):
            backend.reserve_pointer(realm, refused, pointer())


def test_a_repeated_version_with_another_head_is_not_the_one_that_was_read(backend: Backend, realm: str) -> None:
    """A store that was restored counts on from an older version: others come to the very number that somebody remembers."""
    ours, theirs = pointer(3, head=b"\x0a" * 32), pointer(3, head=b"\x0b" * 32)
    assert backend.reserve_pointer(realm, "main", theirs)
    assert not backend.cas_pointer(realm, "main", ours, pointer(4))
    assert not backend.commit(realm, "main", ours, pointer(4), [])
    assert not backend.commit(realm, "main", ours, pointer(4), [an_object(1)])
    assert not backend.delete_pointer(realm, "main", ours)
    assert backend.read_pointer(realm, "main") == theirs
    if backend.abilities.commits_in_one_transaction:
        assert backend.fetch_objects(realm, [1]) == {}
    assert backend.cas_pointer(realm, "main", theirs, pointer(4))


def test_a_pointer_that_is_only_reserved_is_moved_by_its_empty_head(backend: Backend, realm: str) -> None:
    reserved = PointerRow(created_at=1)
    assert backend.reserve_pointer(realm, "main", reserved)
    assert not backend.cas_pointer(realm, "main", PointerRow(head=b"\x01" * 32, created_at=1), pointer(2))
    assert backend.cas_pointer(realm, "main", reserved, pointer(2))
