"""Immutable rows: written in bulk, durable and seen by everyone when the write returns, at most 350 kB each."""

from __future__ import annotations

import secrets
from functools import partial

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.rows import ROW_BYTES_MAX
from headwater.schemas.errors import ObjectTooLarge
from tests.support.fixtures.contract_rows import an_object, in_threads, scan_all
from tests.support.fixtures.contract_stores import Scale


def test_rows_are_read_back_whole_by_everyone(backend: Backend, other_backend: Backend, realm: str) -> None:
    rows = [
        an_object(1, b""),
        an_object(2, bytes(range(256))),
        an_object(2**63 - 1, b"last"),
        an_object(2**40 + 7, b"x", type="a.type-0123456789.of-32-letters"),
    ]
    backend.write_objects(realm, rows)
    found = other_backend.fetch_objects(realm, [row.id for row in rows])
    assert found == {row.id: [row] for row in rows}


def test_absent_ids_are_left_out_and_doubled_ones_found_once(backend: Backend, realm: str) -> None:
    backend.write_objects(realm, [an_object(5)])
    assert backend.fetch_objects(realm, [4, 5, 6, 5]) == {5: [an_object(5)]}
    assert backend.fetch_objects(realm, [4]) == {}
    assert backend.fetch_objects(realm, []) == {}
    backend.write_objects(realm, [])


def test_parts_are_read_in_order_in_whatever_order_they_were_written(backend: Backend, realm: str) -> None:
    parts = [an_object(9, bytes([part]) * 10, part, 12) for part in range(12)]
    backend.write_objects(realm, parts[::-1][:7])
    backend.write_objects(realm, [parts[0], *parts[1:5]])
    assert backend.fetch_objects(realm, [9]) == {9: parts}


def test_parts_without_the_first_are_still_found(backend: Backend, realm: str) -> None:
    backend.write_objects(realm, [an_object(9, part=2, parts=3), an_object(9, part=1, parts=3)])
    assert [row.part for row in backend.fetch_objects(realm, [9])[9]] == [1, 2]


def test_writing_again_replaces_the_row_and_changes_its_revision(backend: Backend, other_backend: Backend, realm: str) -> None:
    from headwater.persistence.rows import Table

    backend.write_objects(realm, [an_object(1, b"old"), an_object(2)])
    before = {row.id: row.revision for row in scan_all(backend, Table.OBJECTS, realm)}
    other_backend.write_objects(realm, [an_object(1, b"new", type="other")])
    assert backend.fetch_objects(realm, [1]) == {1: [an_object(1, b"new", type="other")]}
    after = {row.id: row.revision for row in scan_all(backend, Table.OBJECTS, realm)}
    assert after[1] != before[1]
    assert after[2] == before[2]


def test_a_row_of_350_kb_is_stored_and_a_larger_one_refused_before_any_effect(backend: Backend, realm: str) -> None:
    full = an_object(1, secrets.token_bytes(ROW_BYTES_MAX))
    backend.write_objects(realm, [full])
    assert backend.fetch_objects(realm, [1]) == {1: [full]}
    with pytest.raises(ObjectTooLarge):
        backend.write_objects(realm, [an_object(2), an_object(3, bytes(ROW_BYTES_MAX + 1)), an_object(4)])
    assert backend.fetch_objects(realm, [2, 3, 4]) == {}


def test_many_full_rows_go_through_one_call(backend: Backend, realm: str) -> None:
    rows = [an_object(n, bytes([n]) * ROW_BYTES_MAX) for n in range(1, 25)]
    backend.write_objects(realm, rows)
    assert backend.fetch_objects(realm, range(1, 25)) == {row.id: [row] for row in rows}


def test_thousands_of_rows_go_through_one_call(backend: Backend, other_backend: Backend, realm: str, scale: Scale) -> None:
    rows = [an_object(n * 4_096, b"%d" % n) for n in range(1, scale.objects + 1)]
    backend.write_objects(realm, rows)
    found = other_backend.fetch_objects(realm, [row.id for row in rows] + list(range(1, 100)))
    assert found == {row.id: [row] for row in rows}


def test_realms_do_not_see_each_others_objects(backend: Backend, realm: str, other_realm: str) -> None:
    backend.write_objects(realm, [an_object(1, b"one")])
    assert backend.fetch_objects(other_realm, [1]) == {}
    backend.write_objects(other_realm, [an_object(1, b"two")])
    assert backend.fetch_objects(realm, [1]) == {1: [an_object(1, b"one")]}
    assert backend.fetch_objects(other_realm, [1]) == {1: [an_object(1, b"two")]}


def test_threads_write_and_read_through_one_backend(backend: Backend, realm: str) -> None:
    def work(thread: int) -> None:
        for n in range(10):
            rows = [an_object(thread * 1_000 + n * 10 + k + 1, b"%d" % thread) for k in range(5)]
            backend.write_objects(realm, rows)
            assert backend.fetch_objects(realm, [row.id for row in rows]) == {row.id: [row] for row in rows}

    in_threads([partial(work, thread) for thread in range(8)])
    ids = [thread * 1_000 + n * 10 + k + 1 for thread in range(8) for n in range(10) for k in range(5)]
    assert len(backend.fetch_objects(realm, ids)) == 400
