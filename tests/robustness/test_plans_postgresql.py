"""What PostgreSQL reads for a call must not depend on when its statistics were taken: no plan filters through a whole realm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from headwater.persistence.backends.postgresql import open_postgresql
from headwater.persistence.backends.postgresql import postgresql_statements as sql
from headwater.persistence.backends.postgresql.postgresql_backend import PostgresqlBackend
from headwater.persistence.rows import ObjectRow, PointerRow, ScannedRow, Table

YOUNG = "young@2"
ROWS = 3_000


@pytest.fixture(scope="module")
def url(fresh_postgres: Callable[[], str]) -> str:
    """Statistics that know other realms only, then a realm with many rows."""
    url = fresh_postgres()
    backend = open_postgresql(url)
    backend.create_schema()
    for realm in ("old@1", "older@1", YOUNG):
        backend.write_objects(realm, [ObjectRow(n, "note", 1, b"x" * 500) for n in range(1, ROWS + 1)])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                b"""INSERT INTO headwater_pointers SELECT %s, 'p' || n, '', 0, 1, 0, 1, NULL, NULL, 1, -n, 1
                FROM generate_series(1, 2000) AS n""",
                (realm,),
            )
            if realm != YOUNG:
                connection.execute("ANALYZE")
    backend.close()
    return url


@pytest.fixture
def backend(url: str) -> Iterator[PostgresqlBackend]:
    opened = open_postgresql(url)
    assert isinstance(opened, PostgresqlBackend)
    yield opened
    opened.close()


def blocks_read(url: str, statement: str, parameters: tuple[object, ...]) -> int:
    """Blocks that the plan touches, at the worst. A filter through all of the young realm would touch hundreds."""
    worst = 0
    # As a generic plan too, since that is what a statement gets once it has been prepared for a while.
    for mode in ("force_custom_plan", "force_generic_plan"):
        with psycopg.connect(url) as connection:
            connection.execute(f"SET plan_cache_mode = {mode}".encode())
            connection.execute(b"SET enable_seqscan = off")  # as in our own sessions
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            row = connection.execute(explain.encode(), parameters, prepare=True).fetchone()
            assert row is not None
            plan: dict[str, Any] = row[0][0]["Plan"]
            worst = max(worst, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
            connection.rollback()
    return worst


def test_this_measure_distinguishes_a_lookup_from_a_walk(url: str) -> None:
    walk = "SELECT count(payload) FROM headwater_objects WHERE realm = %s"
    assert blocks_read(url, walk, (YOUNG,)) > 150
    assert blocks_read(url, "SELECT count(version) FROM headwater_pointers WHERE realm = %s", (YOUNG,)) > 30


def test_reads_by_key_look_up_just_those_keys(url: str, backend: PostgresqlBackend) -> None:
    pointer = backend._statements.read_pointer.sql
    assert blocks_read(url, sql.FETCH_OBJECTS, (list(range(1, 31)), YOUNG)) <= 30 * 4
    assert blocks_read(url, sql.FETCH_OBJECTS, ([7], YOUNG)) <= 10
    assert blocks_read(url, sql.READ_POINTERS, (["p1", "p2"], YOUNG)) <= 10
    assert blocks_read(url, pointer, (YOUNG, "p7")) <= 10
    assert blocks_read(url, f"{pointer} FOR UPDATE", (YOUNG, "p7")) <= 15


def test_a_compare_and_swap_looks_up_just_its_pointer(url: str, backend: PostgresqlBackend) -> None:
    values = backend._cas_values(YOUNG, "p7", PointerRow(created_at=1), PointerRow(version=2, created_at=1))
    assert blocks_read(url, backend._statements.cas_pointer.sql, values) <= 25


def test_moved_pointers_cost_by_moves_and_not_by_pointers(url: str) -> None:
    assert blocks_read(url, sql.READ_MOVES, (YOUNG, -2, [-7, -8, -9], YOUNG)) <= 25


def test_a_page_of_a_scan_reads_just_that_page(url: str, backend: PostgresqlBackend) -> None:
    statement = backend._statements.page(Table.OBJECTS, after=True, bounded=True)
    values = statement.bind(from_realm=YOUNG, from_id=500, from_part=0, to_realm=YOUNG, to_id=2_500, to_part=0, limit=100)
    assert blocks_read(url, statement.sql, values) <= 25


def test_a_second_delete_of_the_same_rows_deletes_nothing(url: str, backend: PostgresqlBackend) -> None:
    splits = backend.splits(Table.OBJECTS, 1)
    some: list[ScannedRow] = [row for row in backend.scan(splits[0], realm="old@1") if row.id <= 100]
    result = backend.delete_scanned(some)
    assert (result.deleted, result.spared) == (100, 0)
    again = backend.delete_scanned(some)
    assert (again.deleted, again.spared) == (0, 100)


def test_deletes_find_their_rows_by_key(url: str) -> None:
    """Also if they name the table that they are meant for."""
    with closing(open_postgresql(url)) as backend:
        table = sql.table_of(backend.data_copy())
    assert table
    for of in (0, table):
        keys = ([YOUNG] * 10, list(range(1, 11)), [0] * 10, [1] * 10)
        assert blocks_read(url, sql.delete_statement(Table.OBJECTS), (*keys, of, of)) <= 10 * 4
        assert blocks_read(url, sql.delete_realm_statement(Table.OBJECTS), ("nobody", 1_000, of, of)) <= 10
