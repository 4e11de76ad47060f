"""What SQLite and PostgreSQL do alike, over the few calls in which they differ."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any

from headwater.persistence.backend import Abilities, Backend, DeleteResult, ObjectKey
from headwater.persistence.backends.sql.key_ranges import ranges, splits_between
from headwater.persistence.backends.sql.keys import KEY_COLUMNS, Key, scanned_row
from headwater.persistence.backends.sql.statements import Statement, Statements
from headwater.persistence.backends.sql.tables import SCHEMA_VERSION
from headwater.persistence.clock import Clock
from headwater.persistence.limits import check_mutable_row, check_name, check_objects
from headwater.persistence.rows import Anchor, MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table
from headwater.schemas.errors import StoreNotCreated, StoreVersionMismatch

SCAN_PAGE_ROWS = 1_000
DELETE_BATCH_ROWS = 500
REALM_DELETE_BATCH_ROWS = 2_000
SPLIT_SAMPLES_EACH = 256
SPLIT_SAMPLES_MAX = 16_384
SPLITS_MAX = 1_024

Row = tuple[Any, ...]


class SqlBackend(Backend):
    abilities = Abilities(commits_in_one_transaction=True, can_delete_realms=True, shared_between_processes=True)
    schema_version = SCHEMA_VERSION

    def __init__(self, statements: Statements, clock: Clock) -> None:
        self._statements = statements
        self._clock = clock
        self._delete_scanned = {table: statements.delete_scanned(table) for table in Table}

    # ── in which the databases differ ───────────────────────────────────────────────────────────────────────

    @abc.abstractmethod
    def _read(self, statement: Statement, parameters: Row) -> list[Row]:
        """Rows as of now, outside any transaction."""

    @abc.abstractmethod
    def _write(self, statement: Statement, parameters: Row) -> int:
        """Number of rows that one statement changed, durably."""

    @abc.abstractmethod
    def _write_all(self, statement: Statement, rows: Sequence[Row]) -> None:
        """One statement for each of the rows, in one transaction."""

    @abc.abstractmethod
    def _read_decided(self, realm: str, name: str) -> list[Row]:
        """`read_pointer` after all writes that the database has begun."""

    @abc.abstractmethod
    def _sample_keys(self, table: Table, count: int) -> list[Key]:
        """About `count` keys from all over the table, at a cost that grows with `count` alone."""

    @abc.abstractmethod
    def _delete_batch(self, table: Table, rows: Sequence[ScannedRow], of: str) -> int:
        """Delete the scanned revisions in one transaction; how many were there."""

    @abc.abstractmethod
    def _delete_realm_batch(self, table: Table, realm: str, limit: int, of: str) -> int:
        """Delete up to `limit` rows of a realm in one transaction; how many were there."""

    # ── schema ──────────────────────────────────────────────────────────────────────────────────────────────

    def check_schema(self) -> None:
        check_versions([row[0] for row in self._read(self._statements.read_version, ())])

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        check_name(realm, "realm")
        check_name(name, "pointer")
        statement = self._statements.reserve_pointer
        revision = self._clock.now_micros()
        values = statement.bind(realm=realm, name=name, revision=revision, **pointer_values(row))
        return self._write(statement, values) == 1

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        found = self._read_decided(realm, name) if decide else self._read(self._statements.read_pointer, (realm, name))
        return pointer_row(found[0]) if found else None

    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        return self._write(self._statements.cas_pointer, self._cas_values(realm, name, expected, row)) == 1

    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        return self._write(self._statements.delete_pointer, (realm, name, expected.version, expected.head)) == 1

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────

    def add_name(self, realm: str, name: str) -> None:
        check_name(realm, "realm")
        check_name(name, "pointer")
        self._write(self._statements.add_name, (realm, name, self._clock.now_micros()))

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        statement = self._statements.list_names
        found = self._read(statement, statement.bind(realm=realm, prefix=prefix, after=after, limit=limit))
        # In code point order all names with the prefix come first, from `prefix` or `after` on.
        return [name for (name,) in found if name.startswith(prefix)]

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        if keys:
            self._write_all(self._statements.remove_object, [(realm, *key) for key in keys])

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        check_name(realm, "realm")
        check_mutable_row(row)
        now = self._clock.now_micros()
        values = (realm, row.type, row.key, row.version, row.created_at, row.expires_at, now, row.payload)
        return self._write(self._statements.insert_mutable, values) == 1

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        found = self._read(self._statements.read_mutable, (realm, type, key))
        return mutable_row(found[0]) if found else None

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        check_mutable_row(row)
        new = (row.version, row.created_at, row.expires_at, self._clock.now_micros(), row.payload)
        return self._write(self._statements.update_mutable, (*new, *_as_expected(realm, expected))) == 1

    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        return self._write(self._statements.delete_mutable, _as_expected(realm, expected)) == 1

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        statement = self._statements.list_mutable
        found = self._read(statement, statement.bind(realm=realm, type=type, after=after, limit=limit))
        return [mutable_row(row) for row in found]

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def splits(self, table: Table, count: int) -> list[Split]:
        count = min(count, SPLITS_MAX)
        samples = self._sample_keys(table, min(count * SPLIT_SAMPLES_EACH, SPLIT_SAMPLES_MAX)) if count > 1 else []
        return splits_between(table, samples, count)

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        """Keyset pages, each a short read of its own: keys never change, so no row is met twice and none that stays is
        missed, and no transaction stays open to hold off a checkpoint or a vacuum."""
        for start, end in ranges(split, realm):
            page = self._page(split.table, start, end, after=False)
            while page:
                for row in page:
                    yield scanned_row(split.table, row)
                if len(page) < SCAN_PAGE_ROWS:
                    break
                page = self._page(split.table, page[-1][: len(start)], end, after=True)

    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        deleted = 0
        for table in Table:
            of_table = [row for row in rows if row.table is table]
            for first in range(0, len(of_table), DELETE_BATCH_ROWS):
                deleted += self._delete_batch(table, of_table[first : first + DELETE_BATCH_ROWS], of)
        return DeleteResult(deleted=deleted, spared=len(rows) - deleted)

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        # Names last: they may name what is not there, never the reverse.
        for table in (Table.POINTERS, Table.OBJECTS, Table.MUTABLE, Table.NAMES):
            for realm in realms:
                while self._delete_realm_batch(table, realm, REALM_DELETE_BATCH_ROWS, of):
                    pass

    # ── shared steps ────────────────────────────────────────────────────────────────────────────────────────

    def _cas_values(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> Row:
        anchor_id, anchor_time = (row.anchor.entry_id, row.anchor.time_micros) if row.anchor else (None, None)
        new = (row.head, row.seq, row.floor, row.fence, row.version, anchor_id, anchor_time, row.created_at)
        return (*new, self._clock.now_micros(), realm, name, expected.version, expected.head)

    def _page(self, table: Table, start: Key, end: Key | None, *, after: bool) -> list[Row]:
        columns = KEY_COLUMNS[table]
        values: dict[str, object] = {f"from_{column}": value for column, value in zip(columns, start, strict=True)}
        if end is not None:
            values |= {f"to_{column}": value for column, value in zip(columns, end, strict=True)}
        statement = self._statements.page(table, after=after, bounded=end is not None)
        return self._read(statement, statement.bind(**values, limit=SCAN_PAGE_ROWS))


def _as_expected(realm: str, row: MutableRow) -> Row:
    return realm, row.type, row.key, row.version, row.payload


def check_versions(found: Sequence[int]) -> None:
    if not found:
        raise StoreNotCreated("the store has no schema yet.", field="store", remedy="Run `headwater store create`.")
    version = max(found)
    if version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        raise StoreVersionMismatch(
            f"the store has schema version {version}, this program writes version {SCHEMA_VERSION}.",
            field="store",
            remedy="Upgrade this program."
            if newer
            else "Use the program that wrote it, or export and import into a new store.",
            store_version=version,
            program_version=SCHEMA_VERSION,
        )


def checked_objects(realm: str, rows: Sequence[ObjectRow]) -> Sequence[ObjectRow]:
    check_name(realm, "realm")
    check_objects(rows)
    return rows


def pointer_values(row: PointerRow) -> dict[str, object]:
    return {
        "head": row.head,
        "seq": row.seq,
        "floor": row.floor,
        "fence": row.fence,
        "version": row.version,
        "anchor_id": row.anchor.entry_id if row.anchor else None,
        "anchor_time": row.anchor.time_micros if row.anchor else None,
        "created_at": row.created_at,
    }


def pointer_row(values: Row) -> PointerRow:
    head, seq, floor, fence, version, anchor_id, anchor_time, created_at = values
    return PointerRow(
        head=head,
        seq=seq,
        floor=floor,
        fence=fence,
        version=version,
        anchor=None if anchor_id is None else Anchor(anchor_id, anchor_time),
        created_at=created_at,
    )


def mutable_row(values: Row) -> MutableRow:
    type, key, version, created_at, expires_at, payload = values
    return MutableRow(type=type, key=key, version=version, created_at=created_at, expires_at=expires_at, payload=payload)


def grouped_by_id(found: Iterator[ObjectRow]) -> dict[int, list[ObjectRow]]:
    """Rows that come in order of part, as `fetch_objects` gives them."""
    by_id: dict[int, list[ObjectRow]] = {}
    for row in found:
        by_id.setdefault(row.id, []).append(row)
    return by_id
