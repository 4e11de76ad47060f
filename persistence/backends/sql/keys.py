"""The key columns of each table, and scanned rows as the SPI wants them.

A key is the primary key as a tuple; Python, SQLite (BINARY) and PostgreSQL (COLLATE "C") order it alike, by code point.
"""

from __future__ import annotations

from typing import Any

from headwater.persistence.rows import ScannedRow, Table

Key = tuple[Any, ...]

KEY_COLUMNS: dict[Table, tuple[str, ...]] = {
    Table.OBJECTS: ("realm", "id", "part"),
    Table.POINTERS: ("realm", "name"),
    Table.MUTABLE: ("realm", "type", "key"),
    Table.NAMES: ("realm", "name"),
}


def scanned_columns(table: Table) -> tuple[str, ...]:
    """What a scan reads: the key, then what `scanned_row` needs."""
    match table:
        case Table.OBJECTS:
            return (*KEY_COLUMNS[table], "type", "created_at", "revision")
        case Table.NAMES:
            return (*KEY_COLUMNS[table], "revision")
        case _:
            return (*KEY_COLUMNS[table], "created_at", "revision")


def scanned_row(table: Table, row: Key) -> ScannedRow:
    match table:
        case Table.OBJECTS:
            realm, id, part, type, created_at, revision = row
            return ScannedRow(table, realm, type, "", id, part, created_at, revision)
        case Table.MUTABLE:
            realm, type, key, created_at, revision = row
            return ScannedRow(table, realm, type, key, 0, 0, created_at, revision)
        case Table.POINTERS:
            realm, name, created_at, revision = row
            return ScannedRow(table, realm, "", name, 0, 0, created_at, revision)
        case Table.NAMES:
            realm, name, revision = row
            # A name's revision is the time when it was last added.
            return ScannedRow(table, realm, "", name, 0, 0, revision, revision)


def revision_key(row: ScannedRow) -> Key:
    """Key columns and revision: they identify exactly the write that was scanned."""
    match row.table:
        case Table.OBJECTS:
            return (row.realm, row.id, row.part, row.revision)
        case Table.MUTABLE:
            return (row.realm, row.type, row.key, row.revision)
        case _:
            return (row.realm, row.key, row.revision)
