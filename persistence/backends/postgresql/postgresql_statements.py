"""SQL that only PostgreSQL understands: whole batches in one statement, by arrays.

Each is one round trip and one transaction. Arrays travel in binary (`%b`): as text, psycopg writes every payload in hex, which
made a commit of 64 objects four times as slow.
"""

# ruff: noqa: S608 — only names of our own tables and columns are put into the text

from __future__ import annotations

from headwater.persistence.backends.sql.keys import KEY_COLUMNS
from headwater.persistence.backends.sql.statements import OBJECT_COLUMNS, POINTER_COLUMNS, Statements
from headwater.persistence.backends.sql.tables import MOVE_COLLATION, TABLES, mutable_rows, names, objects, pointers
from headwater.persistence.rows import Table

WRITTEN_COLUMNS = ("id", "part", "type", "parts", "created_at", "payload")
_ARRAYS = {"id": "bigint", "part": "bigint", "type": "text", "parts": "bigint", "created_at": "bigint", "payload": "bytea"}

_ROWS = ", ".join(f"%b::{_ARRAYS[column]}[]" for column in WRITTEN_COLUMNS)
_REVISED = f"""ON CONFLICT (realm, id, part) DO UPDATE SET type = excluded.type, parts = excluded.parts,
 created_at = excluded.created_at, payload = excluded.payload,
 revision = greatest({objects.name}.revision + 1, excluded.revision)"""

_INSERT = f"""INSERT INTO {objects.name} (realm, revision, {", ".join(WRITTEN_COLUMNS)})
 SELECT %s::text, %s::bigint, row.* FROM unnest({_ROWS}) AS row"""

WRITE_OBJECTS = f"{_INSERT} {_REVISED}"
"""Parameters: realm, revision, one array per written column."""

# One index lookup for each wanted key, whatever the statistics say: OFFSET 0 keeps the planner from turning the lookups into
# a filter over the whole realm, which it does with `= ANY` for a realm that is younger than the last ANALYZE.

FETCH_OBJECTS = f"""SELECT found.* FROM unnest(%b::bigint[]) AS wanted (id) CROSS JOIN LATERAL
 (SELECT {", ".join(OBJECT_COLUMNS)} FROM {objects.name} WHERE realm = %s AND id = wanted.id OFFSET 0) AS found
 ORDER BY found.id, found.part"""
"""Parameters: ids without duplicates, realm."""

READ_POINTERS = f"""SELECT found.* FROM unnest(%b::text[]) AS wanted (name) CROSS JOIN LATERAL
 (SELECT name, {", ".join(POINTER_COLUMNS)} FROM {pointers.name} WHERE realm = %s AND name = wanted.name OFFSET 0) AS found"""
"""Parameters: names without duplicates, realm."""

# A pointer's move number is the id of the transaction that wrote its row, coarse: a busy pointer then keeps its number for
# GRAIN transactions of the server, so that its row is updated in place and no index changes. The token is a snapshot, and
# what it could not see yet is exactly: transactions from its xmax on, and those that were in progress. A clock has no part
# in it, and neither a transaction that stays open for long nor its commit at last is missed. Numbers above the present
# xmax are of the server that the rows were dumped from.

_GRAIN_BITS = 8
MOVE = f"(pg_current_xact_id()::text::bigint >> {_GRAIN_BITS})"
READ_SNAPSHOT = "SELECT pg_current_snapshot()::text"

_BY_MOVE = f'SELECT name, version FROM {pointers.name} WHERE realm COLLATE "{MOVE_COLLATION}" = %s'
READ_MOVES = f"""SELECT pg_current_snapshot()::text AS snapshot, NULL::text AS name, NULL::bigint AS version
 UNION ALL SELECT NULL, moved.* FROM ({_BY_MOVE} AND move >= %s::bigint
  AND move <= pg_snapshot_xmax(pg_current_snapshot())::text::bigint >> {_GRAIN_BITS}) AS moved
 UNION ALL SELECT NULL, late.* FROM unnest(%b::bigint[]) AS unfinished (move) CROSS JOIN LATERAL
  ({_BY_MOVE} AND move = unfinished.move OFFSET 0) AS late"""
"""Parameters: realm, then those of `unseen`, with the realm once more at the end."""


def unseen(snapshot: str) -> tuple[int, list[int]]:
    """The lowest number of all transactions that began after the snapshot, and the lower ones of those in progress."""
    _, newest, unfinished = snapshot.split(":")
    first = int(newest) >> _GRAIN_BITS
    numbers = {int(xid) >> _GRAIN_BITS for xid in unfinished.split(",") if xid}
    return first, sorted(number for number in numbers if number < first)


SAMPLE_BLOCKS = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::bigint"

LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(7310584512042869)"
"""An advisory lock that is held while the schema is created; the number is arbitrary."""

DATA_IDENTITY = f"""SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE coalesce(
 (SELECT system_identifier::text FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' ||
 (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || to_regclass('{pointers.name}')::oid, '') END"""
"""Cluster, timeline (a promotion or a recovery to a point in time begins a new one), database and table (a restored dump has
others). Empty on a standby, and where the tables are not there yet."""

DURABILITY = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')"


# A dump that is restored into a database that stays (`pg_restore --clean`) ends no session, but makes tables anew: whatever
# may only be written into the same data asks which table it is.

_TABLE = f"coalesce(to_regclass('{pointers.name}')::oid::bigint, 0)"
_SAME_TABLE = f"(%s::bigint = 0 OR {_TABLE} = %s::bigint)"


def table_of(identity: str) -> int:
    """The table's number, as the last part of DATA_IDENTITY; 0 where the server does not tell."""
    number = identity.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def commit_statement(statements: Statements) -> str:
    """Move the pointer and, only if it was as expected, write the objects. Parameters: those of `cas_pointer`, twice the number
    of the table or 0 for any, then those of WRITE_OBJECTS. The answer is how many pointers were moved, and the table."""
    return f"""WITH moved AS ({statements.cas_pointer.sql} AND (%s::bigint = 0 OR tableoid::bigint = %s::bigint) RETURNING 1),
 written AS ({_INSERT} WHERE EXISTS (SELECT FROM moved) {_REVISED})
 SELECT (SELECT count(*) FROM moved), {_TABLE}"""


def sample_statement(table: Table) -> str:
    """Rows of about so many percent of the table's blocks, chosen at random; no other block is read."""
    return f"SELECT {', '.join(KEY_COLUMNS[table])} FROM {TABLES[table].name} TABLESAMPLE SYSTEM (%s)"


def delete_statement(table: Table) -> str:
    """Parameters: one array per key column, that of the revisions, and twice the table's number or 0 for any."""
    sql_table = TABLES[table]
    columns = (*KEY_COLUMNS[table], "revision")
    integers = {"id", "part", "revision"}
    arrays = ", ".join(f"%b::{'bigint' if column in integers else 'text'}[]" for column in columns)
    same = " AND ".join(f"kept.{column} = scanned.{column}" for column in columns)
    return f"""DELETE FROM {sql_table.name} AS kept USING unnest({arrays}) AS scanned ({", ".join(columns)})
 WHERE {same} AND {_SAME_TABLE}"""


def delete_realm_statement(table: Table) -> str:
    """Parameters: realm, limit, and twice the table's number or 0 for any."""
    name = TABLES[table].name
    return f"DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {name} WHERE realm = %s LIMIT %s)) AND {_SAME_TABLE}"


def rows_of_a_block(table: Table) -> int:
    """A low guess: a sample should have too many rows rather than too few."""
    return {objects: 3, pointers: 20, mutable_rows: 4, names: 60}[TABLES[table]]
