"""Mutable rows with a life of their own: every write is conditional on the version, lists are complete and in order."""

from __future__ import annotations

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.rows import NAME_BYTES_MAX, ROW_BYTES_MAX, MutableRow
from headwater.schemas.errors import InvalidName, ObjectTooLarge
from tests.support.fixtures.contract_rows import mutable

KEYS = ["A", "a", "a%", "a/b", "aa", "b", "z", "é", "\ufffd", "𝔘", "\U0010ffff"]


def test_a_row_is_inserted_once_and_read_back_whole_by_everyone(backend: Backend, other_backend: Backend, realm: str) -> None:
    assert backend.read_mutable(realm, "lease", "k") is None
    assert backend.insert_mutable(realm, mutable("k")) is True
    assert other_backend.insert_mutable(realm, mutable("k", payload=b"other")) is False
    assert other_backend.read_mutable(realm, "lease", "k") == mutable("k")


def test_every_column_survives(backend: Backend, realm: str) -> None:
    extreme = MutableRow(
        type="t", key="k", version=2**62, created_at=2**53 + 1, expires_at=2**63 - 1, payload=bytes(range(256))
    )
    plain = MutableRow(type="u", key="k", created_at=1)
    assert backend.insert_mutable(realm, extreme)
    assert backend.insert_mutable(realm, plain)
    assert backend.read_mutable(realm, "t", "k") == extreme
    assert backend.read_mutable(realm, "u", "k") == plain
    assert backend.update_mutable(realm, plain, MutableRow(type="u", key="k", version=2**62, created_at=3, payload=b"\0"))
    assert backend.read_mutable(realm, "u", "k") == MutableRow(type="u", key="k", version=2**62, created_at=3, payload=b"\0")


def test_an_update_is_applied_on_the_expected_version_only(backend: Backend, other_backend: Backend, realm: str) -> None:
    assert backend.update_mutable(realm, mutable("k", 1), mutable("k", 2)) is False
    assert backend.read_mutable(realm, "lease", "k") is None
    backend.insert_mutable(realm, mutable("k", 1))
    assert backend.update_mutable(realm, mutable("k", 1), mutable("k", 2, payload=b"two")) is True
    assert other_backend.update_mutable(realm, mutable("k", 1), mutable("k", 2, payload=b"late")) is False
    assert other_backend.update_mutable(realm, mutable("k", 3, payload=b"two"), mutable("k", 4, payload=b"early")) is False
    assert other_backend.read_mutable(realm, "lease", "k") == mutable("k", 2, payload=b"two")


def test_a_row_is_deleted_on_the_expected_version_only_and_may_be_inserted_again(backend: Backend, realm: str) -> None:
    assert backend.delete_mutable(realm, mutable("k", 1)) is False
    backend.insert_mutable(realm, mutable("k", 1))
    assert backend.delete_mutable(realm, mutable("k", 2)) is False
    assert backend.delete_mutable(realm, mutable("k", 1)) is True
    assert backend.read_mutable(realm, "lease", "k") is None
    assert backend.delete_mutable(realm, mutable("k", 1)) is False
    assert backend.insert_mutable(realm, mutable("k", 1, payload=b"again")) is True
    assert backend.read_mutable(realm, "lease", "k") == mutable("k", 1, payload=b"again")


def test_a_repeated_version_with_another_payload_is_not_the_one_that_was_read(backend: Backend, realm: str) -> None:
    """A lease that was renewed to version 3 before a restore is not the one that another holder has renewed to 3 since."""
    ours, theirs = mutable("k", 3, payload=b"ours"), mutable("k", 3, payload=b"theirs")
    assert backend.insert_mutable(realm, theirs)
    assert not backend.update_mutable(realm, ours, mutable("k", 4, payload=b"ours"))
    assert not backend.delete_mutable(realm, ours)
    assert backend.read_mutable(realm, "lease", "k") == theirs
    assert backend.update_mutable(realm, theirs, mutable("k", 4, payload=b""))
    assert backend.delete_mutable(realm, mutable("k", 4, payload=b""))


def test_types_and_realms_do_not_see_each_other(backend: Backend, realm: str, other_realm: str) -> None:
    backend.insert_mutable(realm, mutable("k", type="one"))
    assert backend.read_mutable(realm, "two", "k") is None
    assert backend.read_mutable(other_realm, "one", "k") is None
    assert backend.insert_mutable(realm, mutable("k", type="two", payload=b"2"))
    assert backend.insert_mutable(other_realm, mutable("k", type="one", payload=b"3"))
    assert backend.delete_mutable(realm, mutable("k", type="two", payload=b"2"))
    assert backend.list_mutable(realm, "one") == [mutable("k", type="one")]
    assert backend.list_mutable(realm, "two") == []
    assert backend.list_mutable(other_realm, "one") == [mutable("k", type="one", payload=b"3")]


def test_rows_of_a_type_are_listed_in_code_point_order_after_a_key(backend: Backend, realm: str) -> None:
    for key in reversed(KEYS):
        assert backend.insert_mutable(realm, mutable(key, payload=key.encode()))
    for after in ["", "A", "a", "a0", "é", "\ufffe", *KEYS]:
        expected = [mutable(key, payload=key.encode()) for key in sorted(KEYS) if key > after]
        assert backend.list_mutable(realm, "lease", after=after) == expected, after


def test_pages_are_full_until_the_end_also_over_deleted_rows(backend: Backend, realm: str) -> None:
    keys = [f"{n:03d}" for n in range(40)]
    for key in keys:
        backend.insert_mutable(realm, mutable(key))
    for key in keys[5:25]:
        assert backend.delete_mutable(realm, mutable(key))
    left = keys[:5] + keys[25:]
    for limit in (1, 6, 20, 21):
        listed: list[str] = []
        while page := backend.list_mutable(realm, "lease", after=listed[-1] if listed else "", limit=limit):
            assert len(page) == min(limit, len(left) - len(listed))
            listed += [row.key for row in page]
        assert listed == left


def test_limits_of_key_and_payload_are_kept(backend: Backend, realm: str) -> None:
    full = mutable("k" * NAME_BYTES_MAX, payload=bytes(ROW_BYTES_MAX))
    assert backend.insert_mutable(realm, full)
    assert backend.read_mutable(realm, "lease", full.key) == full
    with pytest.raises(InvalidName):
        backend.insert_mutable(realm, mutable("k" * (NAME_BYTES_MAX + 1)))
    with pytest.raises(ObjectTooLarge):
        backend.insert_mutable(realm, mutable("big", payload=bytes(ROW_BYTES_MAX + 1)))
    with pytest.raises(ObjectTooLarge):
        backend.update_mutable(realm, full, mutable(full.key, 2, payload=bytes(ROW_BYTES_MAX + 1)))
    assert backend.read_mutable(realm, "lease", full.key) == full
    assert backend.read_mutable(realm, "lease", "big") is None
