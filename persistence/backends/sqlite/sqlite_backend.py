"""The SPI on one SQLite file. Every write takes the write lock first, then reads and applies."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from headwater.persistence.backend import Durability, DurabilityLevel, Moves, MoveToken
from headwater.persistence.backends.sql.keys import KEY_COLUMNS, Key, revision_key
from headwater.persistence.backends.sql.sql_backend import Row, SqlBackend, checked_objects, grouped_by_id, pointer_row
from headwater.persistence.backends.sql.statements import OBJECT_COLUMNS, POINTER_COLUMNS, Statement, Statements
from headwater.persistence.backends.sql.tables import TABLES, objects, pointers
from headwater.persistence.backends.sqlite import sqlite_moves
from headwater.persistence.backends.sqlite.group_commit import GroupCommit
from headwater.persistence.backends.sqlite.sqlite_connections import SqliteConnections, SqliteOptions, copy_text
from headwater.persistence.backends.sqlite.sqlite_schema import create_sqlite_schema
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.rows import ObjectRow, PointerRow, ScannedRow, Table

FETCH_IDS_MAX = 512
"""Ids in one query; lists are filled up to a power of two, so that ten prepared statements serve all lengths."""

UPSERT_ROWS_MAX = 256
"""Objects in one statement; also by powers of two."""

_SYNCHRONOUS = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}


class SqliteBackend(SqlBackend):
    name = "sqlite"

    def __init__(self, path: Path, options: SqliteOptions | None = None, clock: Clock | None = None) -> None:
        dialect = SQLiteDialect_pysqlite(paramstyle="qmark")
        statements = Statements(dialect, first_move=sqlite_moves.FIRST_MOVE, next_move=sqlite_moves.NEXT_MOVE)
        super().__init__(statements, clock or SystemClock())
        self._connections = SqliteConnections(path, options or SqliteOptions())
        self._commits = GroupCommit(self._connections)
        self._fetches: dict[int, str] = {}
        self._upserts = _upserts_by_rows(self._statements.upsert_object)

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        create_sqlite_schema(self._connections, self._statements, self._clock.now_micros())

    def durability(self) -> Durability:
        in_force = self._connections.read_pragmas("journal_mode", "synchronous")
        in_force["synchronous"] = _SYNCHRONOUS.get(in_force["synchronous"], in_force["synchronous"])
        warnings = []
        if in_force["synchronous"] not in ("FULL", "EXTRA"):
            warnings.append(f"SQLite's synchronous is {in_force['synchronous']}: a power cut may lose acknowledged commits.")
        if in_force["journal_mode"] in ("off", "memory"):
            warnings.append(f"SQLite's journal_mode is {in_force['journal_mode']}: a crash may damage the store.")
        level = DurabilityLevel.WEAK if warnings else DurabilityLevel.DURABLE
        return Durability(level=level, settings=in_force, warnings=warnings)

    def data_identity(self) -> str:
        """The cookie alone: a file may be moved, or be another inode on another host."""
        return str(self._connections.check_read_copy()[1])

    def data_copy(self) -> str:
        return copy_text(self._connections.check_read_copy())

    def close(self) -> None:
        self._commits.exclusively(self._connections.close)

    # ── pointers and objects ────────────────────────────────────────────────────────────────────────────────

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        found: dict[str, PointerRow] = {}
        for first in range(0, len(names), FETCH_IDS_MAX):
            some = names[first : first + FETCH_IDS_MAX]
            columns = ", ".join(POINTER_COLUMNS)
            marks = ", ".join("?" * len(some))
            sql = f"SELECT name, {columns} FROM {pointers.name} WHERE realm = ? AND name IN ({marks})"  # noqa: S608
            with self._connections.reader() as connection:
                found |= {row[0]: pointer_row(row[1:]) for row in connection.execute(sql, (realm, *some))}
        return found

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        with self._connections.reader() as connection:
            if token is None:
                counter = connection.execute(sqlite_moves.READ_COUNTER, (realm,)).fetchone()
                return Moves((counter[0] if counter else 0,))
            rows = connection.execute(sqlite_moves.READ_MOVES, (token[0] - sqlite_moves.GRAIN, realm)).fetchall()
            newest = rows[0][0] if rows else 0
            if newest < token[0]:  # another file by the same name: an older one
                rows = connection.execute(sqlite_moves.READ_MOVES, (0, realm)).fetchall()
        return Moves((newest,), {name: version for _, name, version in rows if name is not None})

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        values = self._object_values(realm, rows)
        if values:
            self._commits.run(lambda connection: self._upsert(connection, values))

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        found: dict[int, list[ObjectRow]] = {}
        for first in range(0, len(ids), FETCH_IDS_MAX):
            found |= grouped_by_id(self._fetch(realm, ids[first : first + FETCH_IDS_MAX]))
        return found

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        """The pointer first: if it has moved, nothing else is written."""
        pointer = self._cas_values(realm, name, expected, row)
        values = self._object_values(realm, objects)
        move = self._statements.cas_pointer.sql

        def apply(connection: sqlite3.Connection) -> bool:
            self._connections.require_copy(of)
            if connection.execute(move, pointer).rowcount != 1:
                return False
            self._upsert(connection, values)
            return True

        return self._commits.run(apply)

    def _object_values(self, realm: str, rows: Sequence[ObjectRow]) -> list[Row]:
        now = self._clock.now_micros()
        checked = checked_objects(realm, rows)
        return [(realm, row.id, row.part, row.type, row.parts, row.created_at, now, row.payload) for row in checked]

    def _upsert(self, connection: sqlite3.Connection, values: Sequence[Row]) -> None:
        """Few statements for many rows: at each of them the driver lets the other threads of this process run, and under
        load waits until it is its turn again."""
        at = 0
        while at < len(values):
            count = min(1 << (len(values) - at).bit_length() - 1, UPSERT_ROWS_MAX)
            connection.execute(self._upserts[count], list(chain.from_iterable(values[at : at + count])))
            at += count

    def _fetch(self, realm: str, ids: Sequence[int]) -> Iterator[ObjectRow]:
        length = 1 << (len(ids) - 1).bit_length()
        padded = (*ids, *[ids[-1]] * (length - len(ids)))
        with self._connections.reader() as connection:
            rows = connection.execute(self._fetch_sql(length), (realm, *padded)).fetchall()
        return (ObjectRow(*row) for row in rows)

    def _fetch_sql(self, length: int) -> str:
        sql = self._fetches.get(length)
        if sql is None:
            ids: list[Any] = [bindparam(f"id{n}") for n in range(length)]
            query = select(*[objects.c[name] for name in OBJECT_COLUMNS]).where(
                objects.c.realm == bindparam("realm"), objects.c.id.in_(ids)
            )
            sql = self._fetches[length] = self._statements.compiled(query.order_by(objects.c.id, objects.c.part)).sql
        return sql

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        super().delete_realms(realms, of=of)
        values = [(realm,) for realm in realms]
        self._commits.run(lambda connection: connection.executemany(sqlite_moves.DELETE_COUNTER, values))

    # ── what SqlBackend asks for ────────────────────────────────────────────────────────────────────────────

    def _read(self, statement: Statement, parameters: Row) -> list[Row]:
        with self._connections.reader() as connection:
            return connection.execute(statement.sql, parameters).fetchall()

    def _write(self, statement: Statement, parameters: Row) -> int:
        sql = statement.sql
        return self._commits.run(lambda connection: connection.execute(sql, parameters).rowcount)

    def _write_all(self, statement: Statement, rows: Sequence[Row]) -> None:
        self._commits.run(lambda connection: connection.executemany(statement.sql, rows))

    def _read_decided(self, realm: str, name: str) -> list[Row]:
        """Under the write lock: its holder before has committed or rolled back."""
        sql = self._statements.read_pointer.sql
        return self._commits.run(lambda connection: connection.execute(sql, (realm, name)).fetchall())

    def _sample_keys(self, table: Table, count: int) -> list[Key]:
        """Rows at even distances of rowid, which SQLite gives out in order of writing."""
        source = TABLES[table].name
        next_row = f"SELECT {', '.join(KEY_COLUMNS[table])} FROM {source} WHERE rowid >= ? ORDER BY rowid LIMIT 1"  # noqa: S608
        with self._connections.reader() as connection:
            low, high = connection.execute(f"SELECT min(rowid), max(rowid) FROM {source}").fetchone()  # noqa: S608
            if low is None:
                return []
            steps = sorted({low + (high - low) * n // count for n in range(count)})
            found = [connection.execute(next_row, (step,)).fetchone() for step in steps]
        return [key for key in found if key is not None]

    def _delete_batch(self, table: Table, rows: Sequence[ScannedRow], of: str) -> int:
        sql = self._delete_scanned[table].sql
        values = [revision_key(row) for row in rows]
        return self._delete(of, lambda connection: connection.executemany(sql, values).rowcount)

    def _delete(self, of: str, delete: Callable[[sqlite3.Connection], int]) -> int:
        def checked(connection: sqlite3.Connection) -> int:
            self._connections.require_copy(of)
            return delete(connection)

        return self._commits.run(checked)

    def _delete_realm_batch(self, table: Table, realm: str, limit: int, of: str) -> int:
        source = TABLES[table].name
        sql = f"DELETE FROM {source} WHERE rowid IN (SELECT rowid FROM {source} WHERE realm = ? LIMIT ?)"  # noqa: S608
        return self._delete(of, lambda connection: connection.execute(sql, (realm, limit)).rowcount)


def _upserts_by_rows(upsert: Statement) -> dict[int, str]:
    """The statement for 1, 2, 4 … rows at once."""
    row = f"({', '.join('?' * len(upsert.parameters))})"
    before, after = upsert.sql.split(row)
    counts = [1 << n for n in range(UPSERT_ROWS_MAX.bit_length())]
    return {count: before + ", ".join([row] * count) + after for count in counts}
