"""Scans a share of the token ring page by page, and deletes exactly the revisions that were scanned.

A row keeps its token, each token lies in one share, and paging continues after the last row it gave: so every row that is
there throughout is seen exactly once, whatever is written meanwhile.

Immutable rows are deleted at their scanned writetime: a rewrite since then has a larger one and survives. Within a process
timestamps only grow. Between processes the clocks may differ, but a sweep deletes only what was created longer ago than its
grace (5 minutes at least), so that a rewrite after the scan is newer as long as clocks differ by less than that; a
clock that is off by more than 30 s makes the store report weak durability. Mutable rows go by LWT on the
stamp of their last write.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headwater.persistence.backend import DeleteResult
from headwater.persistence.backends.cassandra.calls import Call, Calls, Row
from headwater.persistence.backends.cassandra.mutable_rows import remove_names_of_deleted
from headwater.persistence.backends.cassandra.names import bucket_of
from headwater.persistence.backends.cassandra.objects import BATCH_ROWS_MAX, batch_call, by_shard, shard_of
from headwater.persistence.rows import ScannedRow, Split, Table

TOKEN_MIN = -(2**63)
TOKEN_MAX = 2**63 - 1
"""Murmur3 gives no row the least token, so shares of the form (lower, upper] cover the ring."""
SPLITS_MAX = 4_096

_KEYS = {
    Table.OBJECTS: "realm, shard",
    Table.POINTERS: "realm, name",
    Table.MUTABLE: "realm, type, key",
    Table.NAMES: "realm, bucket",
}
# In the order of ScannedRow's fields behind `table`. The payload is never read: all cells of a row have one writetime.
_COLUMNS = {
    Table.OBJECTS: "realm, type, id, part, created_at, WRITETIME(created_at)",
    Table.POINTERS: "realm, name, created_at, stamp",
    Table.MUTABLE: "realm, type, key, created_at, stamp",
    Table.NAMES: "realm, name, created_at, WRITETIME(created_at)",
}
_OBJECT_REVISIONS = """SELECT id, part, WRITETIME(created_at) FROM {ks}.objects
                       WHERE realm = ? AND shard = ? AND id IN ?"""
_DELETE_OBJECT = "DELETE FROM {ks}.objects USING TIMESTAMP ? WHERE realm = ? AND shard = ? AND id = ? AND part = ?"
_NAME_REVISION = "SELECT WRITETIME(created_at) FROM {ks}.names WHERE realm = ? AND bucket = ? AND name = ?"
_DELETE_NAME = "DELETE FROM {ks}.names USING TIMESTAMP ? WHERE realm = ? AND bucket = ? AND name = ?"
_DELETE_POINTER = "DELETE FROM {ks}.pointers WHERE realm = ? AND name = ? IF stamp = ?"
_TABLES = {Table.OBJECTS: "objects", Table.POINTERS: "pointers", Table.MUTABLE: "mutable_rows", Table.NAMES: "names"}
_DELETE_MUTABLE = "DELETE FROM {ks}.mutable_rows WHERE realm = ? AND type = ? AND key = ? IF stamp = ?"


def splits(table: Table, count: int) -> list[Split]:
    count = max(1, min(count, SPLITS_MAX))
    cuts = [TOKEN_MIN + (TOKEN_MAX - TOKEN_MIN) * n // count for n in range(count + 1)]
    return [Split(table, str(lower), str(upper)) for lower, upper in itertools.pairwise(cuts)]


def scan(calls: Calls, split: Split, realm: str | None) -> Iterator[ScannedRow]:
    key = _KEYS[split.table]
    cql = f"SELECT {_COLUMNS[split.table]} FROM {{ks}}.{_TABLES[split.table]} WHERE token({key}) > ? AND token({key}) <= ?"  # noqa: S608
    for page in calls.pages(calls.read(cql, (int(split.lower), int(split.upper)))):
        for row in page.rows:
            if realm is None or row[0] == realm:
                yield _scanned(split.table, row)


def _scanned(table: Table, row: Row) -> ScannedRow:
    match table:
        case Table.OBJECTS:
            realm, type, id, part, created_at, revision = row
            return ScannedRow(table, realm, type, "", id, part, created_at, revision)
        case Table.MUTABLE:
            realm, type, key, created_at, revision = row
            return ScannedRow(table, realm, type, key, 0, 0, created_at, revision)
        case Table.POINTERS | Table.NAMES:
            realm, name, created_at, revision = row
            return ScannedRow(table, realm, "", name, 0, 0, created_at, revision)


def delete_scanned(calls: Calls, rows: Sequence[ScannedRow]) -> DeleteResult:
    deleted = 0
    for table in Table:
        of_table = list(dict.fromkeys(row for row in rows if row.table is table))
        if table in (Table.OBJECTS, Table.NAMES):
            deleted += _delete_immutable(calls, table, of_table)
        else:
            gone = [row for row in of_table if _delete_mutable(calls, row)]
            deleted += len(gone)
            for (realm, type), keys in _by_type(row for row in gone if table is Table.MUTABLE).items():
                remove_names_of_deleted(calls, realm, type, keys)
    return DeleteResult(deleted=deleted, spared=len(rows) - deleted)


def _delete_mutable(calls: Calls, row: ScannedRow) -> bool:
    if row.table is Table.POINTERS:
        return calls.lwt(_DELETE_POINTER, (row.realm, row.key, row.revision))
    return calls.lwt(_DELETE_MUTABLE, (row.realm, row.type, row.key, row.revision))


def _delete_immutable(calls: Calls, table: Table, rows: Sequence[ScannedRow]) -> int:
    """Reads before and after, to count only rows that existed and are gone: Cassandra's DELETE reports nothing."""
    revisions_of = _object_revisions if table is Table.OBJECTS else _name_revisions
    before = revisions_of(calls, rows)
    unchanged = [row for row in rows if before.get(_place(row)) == row.revision]
    calls.run_all(_delete_objects(calls, unchanged) if table is Table.OBJECTS else _delete_names(calls, unchanged))
    after = revisions_of(calls, unchanged)
    return sum(_place(row) not in after for row in unchanged)


Place = tuple[str, str, int, int]


def _place(row: ScannedRow) -> Place:
    return row.realm, row.key, row.id, row.part


def _object_revisions(calls: Calls, rows: Sequence[ScannedRow]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for realm, of_realm in _by_realm(rows):
        reads = [calls.read(_OBJECT_REVISIONS, (realm, shard, ids)) for shard, ids in by_shard(row.id for row in of_realm)]
        for read, first in zip(reads, calls.run_all(reads), strict=True):
            for page in calls.pages_after(read, first):
                found.update({(realm, "", id, part): revision for id, part, revision in page.rows})
    return found


def _delete_objects(calls: Calls, rows: Sequence[ScannedRow]) -> list[Call]:
    by_partition: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        shard = shard_of(row.id)
        values = (row.revision, row.realm, shard, row.id, row.part)
        by_partition.setdefault((row.realm, shard), []).append(calls.bind(_DELETE_OBJECT, values))
    return [
        batch_call(statements[start : start + BATCH_ROWS_MAX])
        for statements in by_partition.values()
        for start in range(0, len(statements), BATCH_ROWS_MAX)
    ]


def _name_revisions(calls: Calls, rows: Sequence[ScannedRow]) -> dict[Place, int]:
    reads = [calls.read(_NAME_REVISION, (row.realm, bucket_of(row.key), row.key)) for row in rows]
    pages = calls.run_all(reads)
    return {_place(row): page.rows[0][0] for row, page in zip(rows, pages, strict=True) if page.rows}


def _delete_names(calls: Calls, rows: Sequence[ScannedRow]) -> list[Call]:
    return [calls.write(_DELETE_NAME, (row.revision, row.realm, bucket_of(row.key), row.key)) for row in rows]


def _by_type(rows: Iterable[ScannedRow]) -> dict[tuple[str, str], list[str]]:
    by_type: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_type.setdefault((row.realm, row.type), []).append(row.key)
    return by_type


def _by_realm(rows: Sequence[ScannedRow]) -> Iterator[tuple[str, list[ScannedRow]]]:
    by_realm: dict[str, list[ScannedRow]] = {}
    for row in rows:
        by_realm.setdefault(row.realm, []).append(row)
    yield from by_realm.items()
