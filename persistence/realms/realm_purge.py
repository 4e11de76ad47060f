"""Deletes all rows of closed realm instances, and confirms it by a scan.

Where the database cannot delete by realm, one scan on several threads serves all of them. A scan that finds no row of an
instance confirms that it is gone, so an instance without rows takes one scan in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.rows import ScannedRow, Split, Table
from headwater.schemas.errors import StoreUnavailable

TABLES_IN_ORDER = (Table.OBJECTS, Table.MUTABLE, Table.POINTERS, Table.NAMES)
"""Names last: they may name what is not there, never the reverse."""
DELETE_BATCH_ROWS = 1_000
ROUNDS_MAX = 5
"""A writer that was under way when the realm was closed may still add objects that nothing will ever refer to."""
SCAN_SPLITS = 16
SCAN_THREADS = 4


class PurgeCounts(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int
    """In which rows were deleted, and at least 1."""
    deleted: int | None
    """Rows deleted; None where the database deletes in bulk and does not report a number."""


class ScanFound(NamedTuple):
    deleted: Counter[str]
    """Rows by instance, also those that were gone before they could be deleted. An instance that is not in here had none."""
    others: set[str]
    """Instances that have rows and were not to be deleted."""


DeleteByScan = Callable[[Backend, Collection[str], Callable[[], None]], ScanFound]
"""Deletes all rows of some realms from a backend by one scan; the last argument is called before each batch."""


def purge_rows(backend: Backend, realm: str, *, of: str = "") -> PurgeCounts:
    """`StoreUnavailable` if rows keep appearing. May be repeated at any time. `of` is the copy of the data in which the realm
    was seen to be given up: in another one it may live."""
    if not backend.abilities.can_delete_realms:
        done = purge_by_scans(backend, {realm})
        if realm not in done:
            raise rows_left(realm)
        return done[realm]
    for round_number in range(1, ROUNDS_MAX + 1):
        backend.delete_realms([realm], of=of)
        if next(rows_of(backend, realm), None) is None:
            return PurgeCounts(rounds=round_number, deleted=None)
    raise rows_left(realm)


def purge_by_scans(
    backend: Backend,
    realms: Collection[str],
    *,
    also: Callable[[set[str]], Collection[str]] = lambda _: (),
    before_batch: Callable[[], None] = lambda: None,
    scan: DeleteByScan | None = None,
) -> dict[str, PurgeCounts]:
    """All of them by the same scans; those whose rows keep appearing are left out.

    `also` is asked after the first scan which of the other instances that it has met are to go too. `scan` uses threads of this
    process if left out."""
    left, deleted = set(realms), Counter[str]()
    done: dict[str, PurgeCounts] = {}
    for round_number in range(1, ROUNDS_MAX + 2):
        found = (scan or delete_by_scan)(backend, left, before_batch)
        deleted.update(found.deleted)
        for realm in left - found.deleted.keys():
            done[realm] = PurgeCounts(rounds=max(1, round_number - 1), deleted=deleted[realm])
        left &= found.deleted.keys()
        if round_number == 1:
            left |= set(also(found.others))
        if not left:
            break
    return done


def delete_by_scan(backend: Backend, realms: Collection[str], before_batch: Callable[[], None]) -> ScanFound:
    """One scan of everything, table after table."""
    found = ScanFound(Counter(), set())
    with ThreadPoolExecutor(SCAN_THREADS, thread_name_prefix="purge") as pool:
        for table in TABLES_IN_ORDER:
            splits = backend.splits(table, SCAN_SPLITS)
            for one in pool.map(lambda split: delete_of_split(backend, split, realms, before_batch), splits):
                found.deleted.update(one.deleted)
                found.others.update(one.others)
    return found


def delete_of_split(backend: Backend, split: Split, realms: Collection[str], before_batch: Callable[[], None]) -> ScanFound:
    """⚠ `before_batch` raises if the run may delete no more; each batch is for the copy of the data in which it was asked."""
    found = ScanFound(Counter(), set())
    batch: list[ScannedRow] = []

    def delete() -> None:
        if batch:
            copy = backend.data_copy()
            before_batch()
            backend.delete_scanned(batch, of=copy)
            found.deleted.update(row.realm for row in batch)
            batch.clear()

    for row in backend.scan(split):
        if row.realm not in realms:
            found.others.add(row.realm)
            continue
        batch.append(row)
        if len(batch) == DELETE_BATCH_ROWS:
            delete()
    delete()
    return found


def rows_of(backend: Backend, realm: str) -> Iterator[ScannedRow]:
    """Every row of a realm instance, table after table."""
    for table in TABLES_IN_ORDER:
        for split in backend.splits(table, 1):
            yield from backend.scan(split, realm=realm)


def rows_left(realm: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{realm!r} still has rows after {ROUNDS_MAX} rounds of deleting.", field="realm", remedy="Repeat the purge."
    )
