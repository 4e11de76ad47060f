"""The tables in SQLAlchemy Core: one definition for SQLite and PostgreSQL.

Two rules shape the columns. Text compares by code point (BINARY on SQLite, COLLATE "C" on PostgreSQL), because pages, splits
and cursors of both rely on one order. Payloads come last, so that a scan which leaves them out never touches their pages.
`move` says when a pointer's row was written, by the database's own order of writes and never by a clock: sqlite_moves.py and
postgresql_statements.py say how. `revision` is the time of a row's last write in microseconds, or one more than before where
the clock stands still or goes back: it changes with every write, and a row that was deleted and created again does not get an
old one again, as a counter would.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Dialect, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.schema import CreateTable

from headwater.persistence import rows

SCHEMA_VERSION = 2
"""What this version writes. It changes with any change below."""

_TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()

schema = Table(
    "headwater_schema",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("created_at", BigInteger, nullable=False),
)

pointers = Table(
    "headwater_pointers",
    metadata,
    Column("realm", _TEXT, primary_key=True),
    Column("name", _TEXT, primary_key=True),
    Column("head", LargeBinary, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("anchor_id", LargeBinary),
    Column("anchor_time", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("move", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    # With room in each page and a coarse move number, PostgreSQL updates a hot pointer in place, without touching its indexes.
    postgresql_with={"fillfactor": 50},
)

BY_MOVE = "headwater_pointers_by_move"

MOVE_COLLATION = "POSIX"
"""The same order as "C" by another name. PostgreSQL uses an index only for comparisons of its own collation, and this keeps
it from looking up a pointer in the index of moves (and moves in that of names), which it does where its statistics are old."""

names = Table(
    "headwater_names",
    metadata,
    Column("realm", _TEXT, primary_key=True),
    Column("name", _TEXT, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

objects = Table(
    "headwater_objects",
    metadata,
    Column("realm", _TEXT, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("type", _TEXT, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

mutable_rows = Table(
    "headwater_mutable_rows",
    metadata,
    Column("realm", _TEXT, primary_key=True),
    Column("type", _TEXT, primary_key=True),
    Column("key", _TEXT, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

TABLES: dict[rows.Table, Table] = {
    rows.Table.OBJECTS: objects,
    rows.Table.POINTERS: pointers,
    rows.Table.MUTABLE: mutable_rows,
    rows.Table.NAMES: names,
}


def schema_ddl(dialect: Dialect) -> list[str]:
    """What creates all that is missing."""
    tables = [str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)) for table in metadata.sorted_tables]
    realm = f'realm COLLATE "{MOVE_COLLATION}"' if dialect.name == "postgresql" else "realm"
    return [*tables, f"CREATE INDEX IF NOT EXISTS {BY_MOVE} ON {pointers.name} ({realm}, move, name)"]
