"""Maintenance deletes just what it scanned; whatever was written again since is spared, in every table."""

from __future__ import annotations

import msgspec
import pytest

from headwater.persistence.backend import Backend, DeleteResult
from headwater.persistence.rows import ScannedRow, Table
from tests.support.fixtures.contract_rows import an_object, keys_of, mutable, pointer, scan_all
from tests.support.fixtures.contract_stores import Scale


def put(backend: Backend, realm: str, table: Table, n: int, later_micros: int = 0) -> None:
    """Row n of a table, as new."""
    match table:
        case Table.OBJECTS:
            backend.write_objects(realm, [an_object(n)])
        case Table.POINTERS:
            row = pointer(1)
            new = msgspec.structs.replace(row, created_at=row.created_at + later_micros)
            assert backend.reserve_pointer(realm, str(n), new)
        case Table.MUTABLE:
            lease = mutable(str(n))
            assert backend.insert_mutable(realm, msgspec.structs.replace(lease, created_at=lease.created_at + later_micros))
        case Table.NAMES:
            backend.add_name(realm, str(n))


def rewrite(backend: Backend, realm: str, table: Table, n: int) -> None:
    match table:
        case Table.OBJECTS:
            backend.write_objects(realm, [an_object(n)])
        case Table.POINTERS:
            assert backend.cas_pointer(realm, str(n), pointer(1), pointer(2))
        case Table.MUTABLE:
            assert backend.update_mutable(realm, mutable(str(n)), mutable(str(n), 2))
        case Table.NAMES:
            backend.add_name(realm, str(n))


def is_there(backend: Backend, realm: str, table: Table, n: int) -> bool:
    match table:
        case Table.OBJECTS:
            return n in backend.fetch_objects(realm, [n])
        case Table.POINTERS:
            return backend.read_pointer(realm, str(n)) is not None
        case Table.MUTABLE:
            return backend.read_mutable(realm, "lease", str(n)) is not None
        case Table.NAMES:
            return str(n) in backend.list_names(realm)


def scanned(backend: Backend, realm: str, table: Table) -> dict[int, ScannedRow]:
    return {row.id or int(row.key): row for row in scan_all(backend, table, realm)}


@pytest.mark.parametrize("table", Table)
def test_scanned_rows_are_deleted_and_only_those(backend: Backend, other_backend: Backend, realm: str, table: Table) -> None:
    for n in (1, 2, 3):
        put(backend, realm, table, n)
    rows = scanned(backend, realm, table)
    assert backend.delete_scanned([rows[1], rows[3]]) == DeleteResult(deleted=2, spared=0)
    assert [is_there(other_backend, realm, table, n) for n in (1, 2, 3)] == [False, True, False]
    assert list(scanned(other_backend, realm, table)) == [2]
    assert backend.delete_scanned([]) == DeleteResult(deleted=0, spared=0)


@pytest.mark.parametrize("table", Table)
def test_a_row_rewritten_since_the_scan_is_spared(backend: Backend, other_backend: Backend, realm: str, table: Table) -> None:
    for n in (1, 2):
        put(backend, realm, table, n)
    rows = scanned(backend, realm, table)
    rewrite(other_backend, realm, table, 1)
    assert backend.delete_scanned([rows[1], rows[2]]) == DeleteResult(deleted=1, spared=1)
    assert [is_there(backend, realm, table, n) for n in (1, 2)] == [True, False]


@pytest.mark.parametrize("table", Table)
def test_a_row_that_was_removed_already_is_not_counted_as_deleted(backend: Backend, realm: str, table: Table) -> None:
    put(backend, realm, table, 1)
    rows = list(scanned(backend, realm, table).values())
    assert backend.delete_scanned(rows) == DeleteResult(deleted=1, spared=0)
    assert backend.delete_scanned(rows) == DeleteResult(deleted=0, spared=1)


@pytest.mark.parametrize("table", Table)
def test_a_row_that_was_deleted_and_created_again_is_spared(backend: Backend, realm: str, table: Table) -> None:
    put(backend, realm, table, 1)
    old = list(scanned(backend, realm, table).values())
    assert backend.delete_scanned(old).deleted == 1
    put(backend, realm, table, 1, later_micros=1)
    assert backend.delete_scanned(old) == DeleteResult(deleted=0, spared=1)
    assert is_there(backend, realm, table, 1), "same key and version, but not the row that was scanned"


@pytest.mark.parametrize("table", Table)
def test_a_deleted_row_may_be_recreated(backend: Backend, other_backend: Backend, realm: str, table: Table) -> None:
    put(backend, realm, table, 1)
    backend.delete_scanned(list(scanned(backend, realm, table).values()))
    put(other_backend, realm, table, 1)
    assert is_there(backend, realm, table, 1)
    assert list(scanned(backend, realm, table)) == [1]


def test_single_parts_are_deleted_by_themselves(backend: Backend, realm: str) -> None:
    backend.write_objects(realm, [an_object(5, part=part, parts=3) for part in range(3)])
    middle = [row for row in scan_all(backend, Table.OBJECTS, realm) if row.part == 1]
    assert backend.delete_scanned(middle) == DeleteResult(deleted=1, spared=0)
    assert [row.part for row in backend.fetch_objects(realm, [5])[5]] == [0, 2]


def test_rows_are_removed_by_id_and_part_and_no_others(backend: Backend, other_backend: Backend, realm: str) -> None:
    rows = [*(an_object(n) for n in (1, 2, 40, -2)), *(an_object(5, part=part, parts=3) for part in range(3))]
    backend.write_objects(realm, rows)
    backend.remove_objects(realm, [(1, 0), (40, 0), (5, 1), (5, 2), (77, 0), (-2, 0)])
    assert {id: [row.part for row in rows] for id, rows in other_backend.fetch_objects(realm, [1, 2, 40, 5, -2]).items()} == {
        2: [0],
        5: [0],
    }
    backend.write_objects(realm, [an_object(1)])
    assert other_backend.fetch_objects(realm, [1]) == {1: [an_object(1)]}, "what was removed may be written again"
    backend.remove_objects(realm, [])


def test_a_pointer_that_was_deleted_by_scan_can_be_reserved_and_is_found_as_moved(backend: Backend, realm: str) -> None:
    backend.add_name(realm, "1")
    put(backend, realm, Table.POINTERS, 1)
    token = backend.moves_since(realm, None).token
    backend.delete_scanned(list(scanned(backend, realm, Table.POINTERS).values()))
    assert not backend.cas_pointer(realm, "1", pointer(1), pointer(2))
    put(backend, realm, Table.POINTERS, 1, later_micros=1)
    assert set(backend.moves_since(realm, token).versions) == {"1"}


def test_thousands_are_deleted_in_one_call_over_realms_and_tables(
    backend: Backend, realm: str, other_realm: str, scale: Scale
) -> None:
    backend.write_objects(realm, [an_object(n) for n in range(1, scale.objects + 1)])
    backend.write_objects(other_realm, [an_object(n) for n in range(1, 11)])
    backend.add_name(realm, "main")
    rows = scan_all(backend, Table.OBJECTS, realm) + scan_all(backend, Table.OBJECTS, other_realm)
    rows += scan_all(backend, Table.NAMES, realm)
    rewritten = [an_object(n, b"again") for n in range(1, 101)]
    backend.write_objects(realm, rewritten)
    assert backend.delete_scanned(rows) == DeleteResult(deleted=scale.objects - 100 + 11, spared=100)
    assert backend.fetch_objects(realm, range(1, 301)) == {row.id: [row] for row in rewritten}
    assert backend.list_names(realm) == []


def test_a_realm_is_emptied_by_scan_and_its_neighbour_stays(backend: Backend, realm: str, other_realm: str) -> None:
    for one in (realm, other_realm):
        for table in Table:
            put(backend, one, table, 1)
            put(backend, one, table, 2)
    for table in Table:
        assert backend.delete_scanned(scan_all(backend, table, realm)).deleted == 2
        assert scan_all(backend, table, realm) == []
        assert len(scan_all(backend, table, other_realm)) == 2


def test_realms_are_deleted_in_bulk_where_the_backend_can(backend: Backend, realm: str, other_realm: str) -> None:
    third = realm + "-third"
    for one in (realm, other_realm, third):
        for table in Table:
            put(backend, one, table, 1)
    if not backend.abilities.can_delete_realms:
        with pytest.raises(NotImplementedError):
            backend.delete_realms([realm])
        return
    backend.delete_realms([])
    backend.delete_realms([realm, third, "never-there@1"])
    for table in Table:
        assert scan_all(backend, table, realm) == scan_all(backend, table, third) == []
        assert not is_there(backend, realm, table, 1)
        assert keys_of(scan_all(backend, table, other_realm))
        assert is_there(backend, other_realm, table, 1)
    assert backend.list_mutable(realm, "lease") == []
    for table in Table:
        put(backend, realm, table, 1)
        assert is_there(backend, realm, table, 1), "the instance's key can be written again"
