"""The step that commits: objects and pointer move together, or the pointer does not move."""

from __future__ import annotations

import threading

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.rows import ROW_BYTES_MAX
from headwater.schemas.errors import ObjectTooLarge
from tests.support.fixtures.contract_rows import an_object, patiently, pointer
from tests.support.fixtures.contract_stores import Scale


def test_a_commit_writes_the_objects_and_moves_the_pointer(backend: Backend, other_backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    rows = [an_object(n, b"%d" % n) for n in range(1, 8)]
    assert backend.commit(realm, "main", pointer(1), pointer(2), rows) is True
    assert other_backend.read_pointer(realm, "main") == pointer(2)
    assert other_backend.fetch_objects(realm, range(1, 8)) == {row.id: [row] for row in rows}


def test_a_lost_commit_does_not_move_the_pointer_and_leaves_no_object_where_that_is_promised(
    backend: Backend, realm: str
) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert backend.commit(realm, "main", pointer(1), pointer(2, head=b"\x07" * 32), [an_object(1)]) is False
    assert backend.commit(realm, "absent", pointer(1), pointer(2), [an_object(1)]) is False
    assert backend.read_pointer(realm, "main") == pointer(2)
    assert backend.read_pointer(realm, "absent") is None
    if backend.abilities.commits_in_one_transaction:
        assert backend.fetch_objects(realm, [1]) == {}


def test_the_identical_commit_again_changes_nothing(backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    assert backend.commit(realm, "main", pointer(1), pointer(2), [an_object(1)]) is True
    assert backend.commit(realm, "main", pointer(1), pointer(2), [an_object(1)]) is False
    assert backend.read_pointer(realm, "main") == pointer(2)
    assert backend.fetch_objects(realm, [1]) == {1: [an_object(1)]}


def test_a_commit_with_too_large_an_object_has_no_effect(backend: Backend, realm: str) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    with pytest.raises(ObjectTooLarge):
        backend.commit(realm, "main", pointer(1), pointer(2), [an_object(1), an_object(2, bytes(ROW_BYTES_MAX + 1))])
    assert backend.read_pointer(realm, "main") == pointer(1)
    assert backend.fetch_objects(realm, [1, 2]) == {}


def test_a_reader_that_sees_the_moved_pointer_sees_the_objects(
    backend: Backend, other_backend: Backend, realm: str, scale: Scale
) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    commits = scale.rounds * 5
    done = threading.Event()
    seen: list[int] = []
    missing: list[int] = []

    def read() -> None:
        while not done.is_set() and not missing:
            row = patiently(lambda: other_backend.read_pointer(realm, "main"))
            assert row is not None
            wanted = [row.version * 10, row.version * 10 + 1] if row.version > 1 else []
            found = other_backend.fetch_objects(realm, wanted)
            seen.append(row.version)
            missing.extend(object_id for object_id in wanted if object_id not in found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for version in range(2, 20_000):
            if version > commits and len(set(seen)) > 3:
                break
            rows = [an_object(version * 10), an_object(version * 10 + 1)]
            assert backend.commit(realm, "main", pointer(version - 1), pointer(version), rows)
    finally:
        done.set()
        reader.join()
    assert missing == []
    assert seen == sorted(seen), "an acknowledged move must not be unseen again"
    assert len(set(seen)) > 3, "the reader never ran while commits continued"
