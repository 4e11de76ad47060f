"""The SPI in dictionaries of this process: the reference for all backends, for tests and trials.

`memory://` is a fresh store, `memory://name` one that all of this process share until it ends.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from headwater.persistence.backend import (
    Abilities,
    Backend,
    DeleteResult,
    Durability,
    DurabilityLevel,
    Moves,
    MoveToken,
    ObjectKey,
)
from headwater.persistence.backends.memory.memory_store import BUCKETS, MemoryStore, RowKey, RowTable
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.limits import check_mutable_row, check_name, check_objects
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table
from headwater.schemas.errors import StoreNotCreated, StoreVersionMismatch

R = TypeVar("R")

__all__ = ["MemoryBackend", "MemoryStore"]

SCHEMA_VERSION = 1


class MemoryBackend(Backend):
    name = "memory"
    abilities = Abilities(commits_in_one_transaction=True, can_delete_realms=True, shared_between_processes=False)
    schema_version = SCHEMA_VERSION

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        self.store = store
        self._clock = clock or SystemClock()

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        with self.store.lock:
            if self.store.schema_version is None:
                self.store.schema_version = SCHEMA_VERSION
        self.check_schema()

    def check_schema(self) -> None:
        found = self.store.schema_version
        if found is None:
            raise StoreNotCreated("this memory store has no schema yet.", field="store", remedy="Create it first.")
        if found != SCHEMA_VERSION:
            raise StoreVersionMismatch(
                f"the store has schema version {found}; this version of headwater reads {SCHEMA_VERSION}.",
                field="store",
                remedy="Use the version of headwater that wrote it.",
                found=found,
                expected=SCHEMA_VERSION,
            )

    def durability(self) -> Durability:
        warning = "memory:// keeps nothing beyond this process"
        return Durability(level=DurabilityLevel.VOLATILE, settings={}, warnings=[warning])

    def close(self) -> None:
        """Nothing to close: a fresh store is freed with its backend, a named one stays for other users."""

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        check_name(realm, "realm")
        key = RowKey(realm, "", check_name(name, "pointer"))
        with self.store.lock:
            if self.store.pointers.get(key) is not None:
                return False
            self._put_pointer(key, row)
            return True

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        with self.store.lock:
            return self.store.pointers.get(RowKey(realm, "", name))

    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        return self.commit(realm, name, expected, row, ())

    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        key = RowKey(realm, "", name)
        with self.store.lock:
            kept = self.store.pointers.get(key)
            if kept is None or (kept.version, kept.head) != (expected.version, expected.head):
                return False
            self._remove_pointer(key)
            return True

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        with self.store.lock:
            since = self.store.writes if token is None else token[0]
            moved = itertools.takewhile(lambda move: move[1] > since, reversed(self.store.moved[realm].items()))
            return Moves((self.store.writes,), {name: self._version(realm, name) for name, _ in moved})

    def _version(self, realm: str, name: str) -> int | None:
        row = self.store.pointers.get(RowKey(realm, "", name))
        return None if row is None else row.version

    def _put_pointer(self, key: RowKey, row: PointerRow) -> None:
        number = self.store.next_revision()
        self.store.pointers.put(key, row, number)
        moved = self.store.moved[key.realm]
        moved.pop(key.key, None)
        moved[key.key] = number

    def _remove_pointer(self, key: RowKey) -> None:
        self.store.pointers.remove(key)
        self.store.moved[key.realm].pop(key.key, None)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────

    def add_name(self, realm: str, name: str) -> None:
        check_name(realm, "realm")
        key = RowKey(realm, "", check_name(name))
        with self.store.lock:
            if not self.store.names.parts(key):
                bisect.insort(self.store.sorted_names[realm], name)
            # Added again means written again: a purge that saw the old name must spare it.
            self.store.names.put(key, self._clock.now_micros(), self.store.next_revision())

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        with self.store.lock:
            names = self.store.sorted_names[realm]
            start = max(bisect.bisect_right(names, after), bisect.bisect_left(names, prefix))
            return [name for name in names[start : start + limit] if name.startswith(prefix)]

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        check_name(realm, "realm")
        check_objects(rows)
        with self.store.lock:
            self._put_objects(realm, rows)

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        found: dict[int, list[ObjectRow]] = {}
        with self.store.lock:
            for object_id in ids:
                parts = self.store.objects.parts(RowKey(realm, "", "", object_id))
                if parts:
                    found[object_id] = [parts[part].row for part in sorted(parts)]
        return found

    def _put_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        for row in rows:
            self.store.objects.put(RowKey(realm, "", "", row.id), row, self.store.next_revision(), row.part)

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        with self.store.lock:
            for object_id, part in keys:
                key = RowKey(realm, "", "", object_id)
                if part in self.store.objects.parts(key):
                    self.store.objects.remove(key, part)

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        check_name(realm, "realm")
        check_objects(objects)
        key = RowKey(realm, "", name)
        with self.store.lock:
            kept = self.store.pointers.get(key)
            if kept is None or (kept.version, kept.head) != (expected.version, expected.head):
                return False
            self._put_objects(realm, objects)
            self._put_pointer(key, row)
            return True

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        check_name(realm, "realm")
        check_mutable_row(row)
        key = RowKey(realm, row.type, row.key)
        with self.store.lock:
            if self.store.mutable_rows.get(key) is not None:
                return False
            self.store.mutable_rows.put(key, row, self.store.next_revision())
            bisect.insort(self.store.sorted_keys[realm, row.type], row.key)
            return True

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        with self.store.lock:
            return self.store.mutable_rows.get(RowKey(realm, type, key))

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        check_mutable_row(row)
        key = RowKey(realm, row.type, row.key)
        with self.store.lock:
            kept = self.store.mutable_rows.get(key)
            if kept is None or (kept.version, kept.payload) != (expected.version, expected.payload):
                return False
            self.store.mutable_rows.put(key, row, self.store.next_revision())
            return True

    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        row_key = RowKey(realm, expected.type, expected.key)
        with self.store.lock:
            kept = self.store.mutable_rows.get(row_key)
            if kept is None or (kept.version, kept.payload) != (expected.version, expected.payload):
                return False
            self._remove_mutable(row_key)
            return True

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        with self.store.lock:
            keys = self.store.sorted_keys[realm, type]
            start = bisect.bisect_right(keys, after)
            rows = (self.store.mutable_rows.get(RowKey(realm, type, key)) for key in keys[start : start + limit])
            return [row for row in rows if row is not None]

    def _remove_mutable(self, key: RowKey) -> None:
        self.store.mutable_rows.remove(key)
        _remove_sorted(self.store.sorted_keys[key.realm, key.type], key.key)

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def splits(self, table: Table, count: int) -> list[Split]:
        count = max(1, min(count, BUCKETS))
        cuts = [BUCKETS * n // count for n in range(count + 1)]
        return [Split(table, str(lower), str(upper)) for lower, upper in itertools.pairwise(cuts)]

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        for bucket in range(int(split.lower), int(split.upper)):
            yield from self._scan_bucket(split.table, bucket, realm)

    def _scan_bucket(self, table: Table, bucket: int, realm: str | None) -> list[ScannedRow]:
        with self.store.lock:
            return [
                ScannedRow(
                    table,
                    key.realm,
                    row.type if isinstance(row := kept.row, ObjectRow) else key.type,
                    key.key,
                    key.id,
                    part,
                    row if isinstance(row, int) else row.created_at,
                    kept.revision,
                )
                for key, parts in self._table(table).buckets[bucket].items()
                if realm is None or key.realm == realm
                for part, kept in parts.items()
            ]

    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        deleted = sum(map(self._delete_if_unchanged, rows))
        return DeleteResult(deleted=deleted, spared=len(rows) - deleted)

    def _delete_if_unchanged(self, row: ScannedRow) -> bool:
        key = RowKey(row.realm, row.type if row.table is Table.MUTABLE else "", row.key, row.id)
        with self.store.lock:
            kept = self._table(row.table).parts(key).get(row.part)
            if kept is None or kept.revision != row.revision:
                return False
            self._remove(row.table, key, row.part)
            return True

    def _remove(self, table: Table, key: RowKey, part: int) -> None:
        match table:
            case Table.POINTERS:
                self._remove_pointer(key)
            case Table.MUTABLE:
                self._remove_mutable(key)
            case Table.NAMES:
                self.store.names.remove(key)
                _remove_sorted(self.store.sorted_names[key.realm], key.key)
            case Table.OBJECTS:
                self.store.objects.remove(key, part)

    def _table(self, table: Table) -> RowTable[PointerRow] | RowTable[ObjectRow] | RowTable[MutableRow] | RowTable[int]:
        match table:
            case Table.POINTERS:
                return self.store.pointers
            case Table.OBJECTS:
                return self.store.objects
            case Table.MUTABLE:
                return self.store.mutable_rows
            case Table.NAMES:
                return self.store.names

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        gone = frozenset(realms)
        with self.store.lock:
            for table in Table:
                self._table(table).remove_realms(gone)
            _forget(self.store.sorted_names, gone)
            _forget(self.store.moved, gone)
            for realm_and_type in [key for key in self.store.sorted_keys if key[0] in gone]:
                del self.store.sorted_keys[realm_and_type]


def _remove_sorted(keys: list[str], key: str) -> None:
    del keys[bisect.bisect_left(keys, key)]


def _forget(by_realm: dict[str, R], realms: Iterable[str]) -> None:
    for realm in realms:
        by_realm.pop(realm, None)
