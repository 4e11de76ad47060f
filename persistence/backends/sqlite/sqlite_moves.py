"""The move number of a pointer's row in SQLite: a counter for each realm, advanced in the transaction that moves the pointer.

SQLite runs one writing transaction at a time, so numbers become visible in their order: a row that moves after the counter was
read has a higher number than that, however long its writer waited for the lock.
A pointer whose number is among the newest `GRAIN` keeps it, so a busy pointer changes neither the index nor the counter. The
question reaches back by as much, and names up to `GRAIN` pointers too many.
"""

# ruff: noqa: S608 — only names of our own tables and columns are put into the text

from __future__ import annotations

from headwater.persistence.backends.sql.tables import BY_MOVE, pointers

GRAIN = 64

_COUNTER = "headwater_moves"
_NEWEST = f"SELECT number FROM {_COUNTER} WHERE realm = {pointers.name}.realm"

FIRST_MOVE = "0"
"""A placeholder: the trigger replaces it."""
NEXT_MOVE = f"CASE WHEN move > ({_NEWEST}) - {GRAIN} THEN move ELSE ({_NEWEST}) + 1 END"

MOVES_DDL = (
    f"CREATE TABLE IF NOT EXISTS {_COUNTER} (realm TEXT PRIMARY KEY, number BIGINT NOT NULL) WITHOUT ROWID",
    f"""CREATE TRIGGER IF NOT EXISTS {_COUNTER}_on_insert AFTER INSERT ON {pointers.name} BEGIN
     INSERT INTO {_COUNTER} SELECT NEW.realm, 0 WHERE NOT EXISTS (SELECT 1 FROM {_COUNTER} WHERE realm = NEW.realm);
     UPDATE {pointers.name} SET move = 1 + (SELECT number FROM {_COUNTER} WHERE realm = NEW.realm)
      WHERE realm = NEW.realm AND name = NEW.name;
    END""",
    f"""CREATE TRIGGER IF NOT EXISTS {_COUNTER}_on_update AFTER UPDATE OF move ON {pointers.name}
     WHEN NEW.move <> OLD.move BEGIN
     UPDATE {_COUNTER} SET number = NEW.move WHERE realm = NEW.realm;
    END""",
)

READ_COUNTER = f"SELECT number FROM {_COUNTER} WHERE realm = ?"
READ_MOVES = f"""SELECT counter.number, moved.name, moved.version FROM {_COUNTER} AS counter
 LEFT JOIN {pointers.name} AS moved INDEXED BY {BY_MOVE} ON moved.realm = counter.realm AND moved.move > ?
 WHERE counter.realm = ?"""
"""Parameters: the number that the question reaches back to, realm."""

DELETE_COUNTER = f"DELETE FROM {_COUNTER} WHERE realm = ?"
