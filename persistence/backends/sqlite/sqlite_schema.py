"""Creates or checks our tables in an SQLite file, and refuses the file of another program."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from headwater.persistence.backends.sql.sql_backend import check_versions
from headwater.persistence.backends.sql.statements import Statements
from headwater.persistence.backends.sql.tables import SCHEMA_VERSION, schema, schema_ddl
from headwater.persistence.backends.sqlite.sqlite_connections import PAGE_BYTES, SqliteConnections
from headwater.persistence.backends.sqlite.sqlite_errors import is_busy, sqlite_error
from headwater.persistence.backends.sqlite.sqlite_moves import MOVES_DDL
from headwater.schemas.errors import StoreRefused

WAL_SWITCH_SECONDS_MAX = 10.0


def create_sqlite_schema(connections: SqliteConnections, statements: Statements, now_micros: int) -> None:
    path = str(connections.path)
    try:
        with closing(connections.connect(create=True)) as connection:
            _check_not_foreign(connection, path)
            _switch_to_wal(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            for ddl in (*schema_ddl(statements.dialect), *MOVES_DDL):
                connection.execute(ddl)
            found = [row[0] for row in connection.execute(statements.read_version.sql)]
            if not found:
                connection.execute(statements.add_version.sql, (SCHEMA_VERSION, now_micros))
            connection.execute("COMMIT")
            check_versions(found or [SCHEMA_VERSION])
    except sqlite3.Error as error:
        raise sqlite_error(error, path) from error


def _check_not_foreign(connection: sqlite3.Connection, path: str) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and schema.name not in tables:
        raise StoreRefused(
            f"{path} is the database of another program (its tables: {', '.join(sorted(tables)[:3])} …).",
            field="store",
            remedy="Name a new file.",
        )


def _switch_to_wal(connection: sqlite3.Connection, path: str) -> None:
    """The switch needs the file for itself and does not wait for it, so another process that is creating it too is
    waited for here."""
    deadline = time.monotonic() + WAL_SWITCH_SECONDS_MAX
    while True:
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreRefused(
                f"{path} is on a file system on which SQLite cannot keep a write-ahead log (it stays in mode {mode}).",
                field="store",
                remedy="Put the store on a local disk.",
            )
        return
