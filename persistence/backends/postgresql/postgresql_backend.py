"""The SPI on PostgreSQL: single autocommitted statements, each one round trip and one transaction.

So a write is either unsent, answered, or in doubt: there is no state in between that a lost connection could leave behind.
A hint to listeners (NOTIFY) goes out in `commit`, after the answer and never as part of the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from headwater.persistence.backend import Durability, DurabilityLevel, Moves, MoveToken
from headwater.persistence.backends.postgresql import postgresql_statements as sql
from headwater.persistence.backends.postgresql.postgresql_connections import (
    ConnectionParameters,
    PostgresqlConnections,
    PostgresqlOptions,
)
from headwater.persistence.backends.postgresql.postgresql_hints import HintListener, HintSender
from headwater.persistence.backends.sql.keys import Key, revision_key
from headwater.persistence.backends.sql.sql_backend import (
    Row,
    SqlBackend,
    check_versions,
    checked_objects,
    grouped_by_id,
    pointer_row,
)
from headwater.persistence.backends.sql.statements import Statement, Statements
from headwater.persistence.backends.sql.tables import SCHEMA_VERSION, TABLES, schema_ddl
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.rows import ObjectRow, PointerRow, ScannedRow, Table
from headwater.schemas.errors import StoreRefused

FETCH_IDS_MAX = 2_048
WRITE_BATCH_BYTES_MAX = 8 * 1024 * 1024
"""Payload bytes in one statement of `write_objects`; a commit is one statement whatever its size."""

_WEAKENED = {
    "fsync": ("off", "PostgreSQL's fsync is off: a power cut may lose acknowledged commits and damage the database."),
    "synchronous_commit": ("off", "PostgreSQL's synchronous_commit is off: a crash may lose acknowledged commits."),
    "full_page_writes": ("off", "PostgreSQL's full_page_writes is off: a power cut may leave torn pages."),
}


class PostgresqlBackend(SqlBackend):
    name = "postgresql"

    def __init__(
        self, parameters: ConnectionParameters, options: PostgresqlOptions | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(Statements(postgresql_dialect(), first_move=sql.MOVE, next_move=sql.MOVE), clock or SystemClock())
        self._connections = PostgresqlConnections(parameters, options or PostgresqlOptions())
        self._commit = sql.commit_statement(self._statements).encode()
        self._deletes = {table: sql.delete_statement(table) for table in Table}
        self._hints = HintSender(self._connections.connect_alone)

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        with self._connections.connection(writing=False) as connection:
            _check_encoding(connection)
            with connection.transaction():
                connection.execute(sql.LOCK_SCHEMA)
                for ddl in schema_ddl(self._statements.dialect):
                    connection.execute(ddl.encode())
                found = [row[0] for row in connection.execute(self._statements.read_version.sql.encode()).fetchall()]
                if not found:
                    connection.execute(self._statements.add_version.sql.encode(), (SCHEMA_VERSION, self._clock.now_micros()))
        check_versions(found or [SCHEMA_VERSION])

    def durability(self) -> Durability:
        in_force: dict[str, str] = dict(self._rows(sql.DURABILITY, ()))
        warnings = [warning for name, (weak, warning) in _WEAKENED.items() if in_force[name] == weak]
        level = DurabilityLevel.WEAK if warnings else DurabilityLevel.DURABLE
        return Durability(level=level, settings=in_force, warnings=warnings)

    def data_identity(self) -> str:
        return self._connections.data_identity()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return HintListener(self._connections.connect_alone, wake).stop

    def close(self) -> None:
        self._hints.close()
        self._connections.close()

    # ── pointers and objects ────────────────────────────────────────────────────────────────────────────────

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        return {row[0]: pointer_row(row[1:]) for row in self._rows(sql.READ_POINTERS, (sorted(set(names)), realm))}

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        if token is None:
            return Moves((self._rows(sql.READ_SNAPSHOT, ())[0][0],))
        first, unfinished = sql.unseen(token[0])
        moves = self._moves(realm, first, unfinished)
        # Another server by the same address, restored or a standby that was behind: then everything may have changed.
        return moves if sql.unseen(moves.token[0])[0] >= first else self._moves(realm, 0, [])

    def _moves(self, realm: str, first: int, unfinished: list[int]) -> Moves:
        rows = self._rows(sql.READ_MOVES, (realm, first, unfinished, realm))
        snapshot = next(row[0] for row in rows if row[0] is not None)
        return Moves((snapshot,), {name: version for _, name, version in rows if name is not None})

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        for batch in _batches(checked_objects(realm, rows)):
            self._changed(sql.WRITE_OBJECTS, self._object_values(realm, batch))

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        found: dict[int, list[ObjectRow]] = {}
        wanted = sorted(set(ids))
        for first in range(0, len(wanted), FETCH_IDS_MAX):
            rows = self._rows(sql.FETCH_OBJECTS, (wanted[first : first + FETCH_IDS_MAX], realm))
            found |= grouped_by_id(ObjectRow(*row) for row in rows)
        return found

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        if not objects:
            return self.cas_pointer(realm, name, expected, row)
        values = self._object_values(realm, checked_objects(realm, objects))
        pointer = self._cas_values(realm, name, expected, row)
        table = sql.table_of(of)
        with self._connections.connection(writing=True) as connection:
            self._connections.require_data(connection, of)
            answer = connection.execute(self._commit, (*pointer, table, table, *values), binary=True).fetchone()
        moved, table_now = answer or (0, 0)
        if not moved and table and table_now != table:
            raise self._connections.restored()
        if moved:
            self._hints.moved()
        return bool(moved)

    def _object_values(self, realm: str, rows: Sequence[ObjectRow]) -> Row:
        """In order of key, so that two writers of the same rows lock them in the same order; the last of equals wins."""
        by_key = {(row.id, row.part): row for row in rows}
        ordered = [by_key[key] for key in sorted(by_key)]
        columns = ([getattr(row, column) for row in ordered] for column in sql.WRITTEN_COLUMNS)
        return (realm, self._clock.now_micros(), *columns)

    # ── what SqlBackend asks for ────────────────────────────────────────────────────────────────────────────

    def _read(self, statement: Statement, parameters: Row) -> list[Row]:
        return self._rows(statement.sql, parameters)

    def _write(self, statement: Statement, parameters: Row) -> int:
        return self._changed(statement.sql, parameters)

    def _write_all(self, statement: Statement, rows: Sequence[Row]) -> None:
        with self._connections.connection(writing=True) as connection, connection.cursor() as cursor:
            cursor.executemany(statement.sql.encode(), sorted(rows))

    def _read_decided(self, realm: str, name: str) -> list[Row]:
        """With the row locked: the transaction that was changing it has committed or rolled back."""
        return self._rows(self._statements.read_pointer_locked.sql, (realm, name))

    def _sample_keys(self, table: Table, count: int) -> list[Key]:
        blocks = self._rows(sql.SAMPLE_BLOCKS, (TABLES[table].name,))[0][0]
        wanted = max(1, count // sql.rows_of_a_block(table))
        percent = 100.0 if blocks <= 2 * wanted else 100.0 * wanted / blocks
        return self._rows(sql.sample_statement(table), (percent,))

    def _delete_batch(self, table: Table, rows: Sequence[ScannedRow], of: str) -> int:
        columns = zip(*sorted({revision_key(row) for row in rows}), strict=True)
        return self._deleted(self._deletes[table], tuple(list(column) for column in columns), of)

    def _delete_realm_batch(self, table: Table, realm: str, limit: int, of: str) -> int:
        return self._deleted(sql.delete_realm_statement(table), (realm, limit), of)

    def _deleted(self, text: str, parameters: Row, of: str) -> int:
        table = sql.table_of(of)
        with self._connections.connection(writing=True) as connection:
            self._connections.require_data(connection, of)
            deleted = connection.execute(text.encode(), (*parameters, table, table)).rowcount
            if not deleted:
                self._connections.require_data(connection, of, asking=True)
            return deleted

    def _rows(self, text: str, parameters: Row) -> list[Row]:
        with self._connections.connection(writing=False) as connection:
            return connection.execute(text.encode(), parameters, binary=True).fetchall()

    def _changed(self, text: str, parameters: Row) -> int:
        with self._connections.connection(writing=True) as connection:
            return connection.execute(text.encode(), parameters).rowcount


def postgresql_dialect() -> Dialect:
    make: Any = PGDialect_psycopg
    dialect: Dialect = make(paramstyle="format")
    return dialect


def _batches(rows: Sequence[ObjectRow]) -> list[list[ObjectRow]]:
    batches: list[list[ObjectRow]] = []
    size_bytes = 0
    for row in rows:
        if not batches or size_bytes + len(row.payload) > WRITE_BATCH_BYTES_MAX:
            batches.append([])
            size_bytes = 0
        batches[-1].append(row)
        size_bytes += len(row.payload)
    return batches


def _check_encoding(connection: psycopg.Connection[Any]) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreRefused(f"the database is encoded in {encoding}.", field="store", remedy="Create one WITH ENCODING 'UTF8'.")
