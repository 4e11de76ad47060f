"""The SPI enters; calls on Cassandra leave. Thin: each kind of row has its module, and this one only puts them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.persistence.backend import Abilities, Backend, DeleteResult, Durability
from headwater.persistence.backends.cassandra import mutable_rows, names, objects, pointers, scans, schema
from headwater.persistence.backends.cassandra.calls import Calls
from headwater.persistence.backends.cassandra.durability import read_durability
from headwater.persistence.backends.cassandra.move_hints import MoveHints
from headwater.persistence.backends.cassandra.url import parse_url
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.limits import check_mutable_row, check_name, check_objects
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table


class CassandraBackend(Backend):
    name = "cassandra"
    abilities = Abilities(commits_in_one_transaction=False, can_delete_realms=False, shared_between_processes=True)
    schema_version = schema.SCHEMA_VERSION

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._moves = MoveHints(calls)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> CassandraBackend:
        return cls(Calls(parse_url(url), clock or SystemClock()))

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        schema.create_schema(self._calls)

    def check_schema(self) -> None:
        schema.check_schema(self._calls)

    def durability(self) -> Durability:
        return read_durability(self._calls)

    def close(self) -> None:
        self._calls.close()

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        check_name(realm, "realm")
        check_name(name, "pointer")
        self._moves.hint(realm, name)
        return pointers.reserve_pointer(self._calls, realm, name, row)

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        # Both at the serial level: pointers.py says why that decides.
        return pointers.read_pointer(self._calls, realm, name)

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        return pointers.read_pointers(self._calls, realm, names)

    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        self._moves.hint(realm, name)
        return pointers.cas_pointer(self._calls, realm, name, expected, row)

    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        return pointers.delete_pointer(self._calls, realm, name, expected)

    def pointers_moved_since(self, realm: str, since_micros: int) -> Iterator[str]:
        return self._moves.since(realm, since_micros)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────

    def add_name(self, realm: str, name: str) -> None:
        names.add_name(self._calls, check_name(realm, "realm"), check_name(name))

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        return names.list_names(self._calls, realm, prefix=prefix, after=after, limit=limit)

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        check_name(realm, "realm")
        check_objects(rows)
        self._calls.run_all(objects.write_calls(self._calls, realm, rows))

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        return objects.fetch_objects(self._calls, realm, ids)

    def commit(self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow]) -> bool:
        """Objects and the hint side by side, all of them acknowledged, then the LWT."""
        self._write_with_hint(realm, name, objects)
        return self.cas_pointer(realm, name, expected, row)

    def _write_with_hint(self, realm: str, name: str, rows: Sequence[ObjectRow]) -> None:
        check_objects(rows)
        hint = self._moves.hint_call(realm, name)
        hint_calls = [] if hint is None else [hint[1]]
        self._calls.run_all(hint_calls + objects.write_calls(self._calls, realm, rows))
        if hint is not None:
            self._moves.acknowledged(realm, name, hint[0])

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        check_name(realm, "realm")
        check_mutable_row(row)
        return mutable_rows.insert_mutable(self._calls, realm, row)

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        return mutable_rows.read_mutable(self._calls, realm, type, key)

    def update_mutable(self, realm: str, expected_version: int, row: MutableRow) -> bool:
        check_mutable_row(row)
        return mutable_rows.update_mutable(self._calls, realm, expected_version, row)

    def delete_mutable(self, realm: str, type: str, key: str, expected_version: int) -> bool:
        return mutable_rows.delete_mutable(self._calls, realm, type, key, expected_version)

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        return mutable_rows.list_mutable(self._calls, realm, type, after=after, limit=limit)

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def splits(self, table: Table, count: int) -> list[Split]:
        return scans.splits(table, count)

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        return scans.scan(self._calls, split, realm)

    def delete_scanned(self, rows: Sequence[ScannedRow]) -> DeleteResult:
        return scans.delete_scanned(self._calls, rows)

    def delete_realms(self, realms: Sequence[str]) -> None:
        raise NotImplementedError("Cassandra cannot delete whole realms in bulk: scan the tables and delete by realm.")
