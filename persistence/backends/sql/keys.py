"""Sampled keys enter; splits leave, and a split, cut to one realm if wanted, becomes the bounds of a keyset scan.

A key is the primary key as a tuple; Python, SQLite (BINARY) and PostgreSQL (COLLATE "C") order it alike, by code point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.persistence.rows import ScannedRow, Split, Table
from headwater.schemas.errors import InvalidInput

Key = tuple[Any, ...]

KEY_COLUMNS: dict[Table, tuple[str, ...]] = {
    Table.OBJECTS: ("realm", "id", "part"),
    Table.POINTERS: ("realm", "name"),
    Table.ROOTED: ("realm", "type", "key"),
    Table.NAMES: ("realm", "name"),
}

REVISION_COLUMNS: dict[Table, tuple[str, ...]] = {
    Table.OBJECTS: ("revision",),
    # A pointer or rooted row that was deleted and made anew has version 1 again; its time of creation tells the two apart.
    Table.POINTERS: ("version", "created_at"),
    Table.ROOTED: ("version", "created_at"),
    Table.NAMES: ("revision",),
}

_LOWEST: dict[Table, Key] = {
    Table.OBJECTS: ("", -(2**63), 0),
    Table.POINTERS: ("", ""),
    Table.ROOTED: ("", "", ""),
    Table.NAMES: ("", ""),
}

_KEY_TYPES: dict[Table, Any] = {
    Table.OBJECTS: tuple[str, int, int],
    Table.POINTERS: tuple[str, str],
    Table.ROOTED: tuple[str, str, str],
    Table.NAMES: tuple[str, str],
}

_JUST_ABOVE = "\x01"
"""No text contains U+0000, so nothing lies between a text and that text followed by U+0001."""


def scanned_columns(table: Table) -> tuple[str, ...]:
    """What a scan reads: the key, then what `scanned_row` and `delete_scanned` need."""
    extra = {Table.OBJECTS: ("type", "created_at"), Table.POINTERS: (), Table.ROOTED: (), Table.NAMES: ()}[table]
    return (*KEY_COLUMNS[table], *extra, *REVISION_COLUMNS[table])


def scanned_row(table: Table, row: Key) -> ScannedRow:
    if table is Table.OBJECTS:
        realm, id, part, type, created_at, revision = row
        return ScannedRow(table, realm, type, "", id, part, created_at, revision)
    if table is Table.ROOTED:
        realm, type, key, version, created_at = row
        return ScannedRow(table, realm, type, key, 0, 0, created_at, version)
    if table is Table.POINTERS:
        realm, name, version, created_at = row
        return ScannedRow(table, realm, "", name, 0, 0, created_at, version)
    realm, name, revision = row
    return ScannedRow(table, realm, "", name, 0, 0, 0, revision)


def revision_key(row: ScannedRow) -> Key:
    """Key and revision columns of a scanned row: what identifies just this revision."""
    if row.table is Table.OBJECTS:
        return (row.realm, row.id, row.part, row.revision)
    if row.table is Table.ROOTED:
        return (row.realm, row.type, row.key, row.revision, row.created_at)
    if row.table is Table.POINTERS:
        return (row.realm, row.key, row.revision, row.created_at)
    return (row.realm, row.key, row.revision)


def splits_between(table: Table, samples: Sequence[Key], count: int) -> list[Split]:
    """At most `count` splits of about equal weight; the first and last are open, so they cover whatever is written later."""
    keys = sorted(set(samples))
    wanted = max(1, min(count, len(keys)))
    borders = [_encoded(keys[len(keys) * n // wanted]) for n in range(1, wanted)]
    return [Split(table, lower, upper) for lower, upper in zip(["", *borders], [*borders, ""], strict=True)]


def bounds(split: Split, realm: str | None) -> tuple[Key, Key | None] | None:
    """First key (inclusive) and end (exclusive, None for open) of a split, cut to one realm; None if nothing is left."""
    lowest = _LOWEST[split.table]
    lower = _decoded(split.table, split.lower) if split.lower else lowest
    upper = _decoded(split.table, split.upper) if split.upper else None
    if realm is None:
        return lower, upper
    behind_realm = (realm + _JUST_ABOVE, *lowest[1:])
    lower = max(lower, (realm, *lowest[1:]))
    upper = behind_realm if upper is None else min(upper, behind_realm)
    return (lower, upper) if lower < upper else None


def _encoded(key: Key) -> str:
    return msgspec.json.encode(key).decode()


def _decoded(table: Table, text: str) -> Key:
    try:
        key: Key = msgspec.json.decode(text, type=_KEY_TYPES[table])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{text!r} is no border of table {table.value}: {error}.", field="split") from error
    return key
