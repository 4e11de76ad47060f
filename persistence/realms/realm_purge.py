"""Deletes all rows of a closed realm instance, and confirms it by a scan."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.rows import ScannedRow, Table
from headwater.schemas.errors import StoreUnavailable

TABLES_IN_ORDER = (Table.OBJECTS, Table.MUTABLE, Table.POINTERS, Table.NAMES)
"""Names last: they may name what is not there, never the reverse."""
DELETE_BATCH_ROWS = 1_000
ROUNDS_MAX = 5
"""A writer that was under way when the realm was closed may still add objects that nothing will ever refer to."""


class PurgeCounts(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int
    deleted: int | None
    """Rows; None where the database deletes in bulk and does not say."""


def purge_rows(backend: Backend, realm: str) -> PurgeCounts:
    """`StoreUnavailable` if rows keep appearing. May be repeated at any time."""
    deleted = 0
    for round_number in range(1, ROUNDS_MAX + 1):
        if backend.abilities.can_delete_realms:
            backend.delete_realms([realm])
        else:
            deleted += _delete_by_scan(backend, realm)
        if next(rows_of(backend, realm), None) is None:
            counted = None if backend.abilities.can_delete_realms else deleted
            return PurgeCounts(rounds=round_number, deleted=counted)
    raise StoreUnavailable(
        f"{realm!r} still has rows after {ROUNDS_MAX} rounds of deleting.", field="realm", remedy="Repeat the purge."
    )


def rows_of(backend: Backend, realm: str) -> Iterator[ScannedRow]:
    """Every row of a realm instance, table after table."""
    for table in TABLES_IN_ORDER:
        for split in backend.splits(table, 1):
            yield from backend.scan(split, realm=realm)


def _delete_by_scan(backend: Backend, realm: str) -> int:
    deleted = 0
    batch: list[ScannedRow] = []
    for row in rows_of(backend, realm):
        batch.append(row)
        if len(batch) == DELETE_BATCH_ROWS:
            deleted += backend.delete_scanned(batch).deleted
            batch = []
    return deleted + (backend.delete_scanned(batch).deleted if batch else 0)
