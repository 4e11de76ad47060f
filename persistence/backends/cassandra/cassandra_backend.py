"""The SPI on Cassandra. Thin: each kind of row has a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from headwater.persistence.backend import Abilities, Backend, DeleteResult, Durability, Moves, MoveToken, ObjectKey
from headwater.persistence.backends.cassandra import mutable_rows, names, objects, pointers, scans, schema
from headwater.persistence.backends.cassandra.calls import Call, Calls
from headwater.persistence.backends.cassandra.durability import read_durability
from headwater.persistence.backends.cassandra.move_journal import MoveJournal
from headwater.persistence.backends.cassandra.objects import remove_calls, write_calls
from headwater.persistence.backends.cassandra.url import parse_url
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.limits import check_mutable_row, check_name, check_objects
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown


class CassandraBackend(Backend):
    name = "cassandra"
    abilities = Abilities(commits_in_one_transaction=False, can_delete_realms=False, shared_between_processes=True)
    schema_version = schema.SCHEMA_VERSION

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._moves = MoveJournal(calls)

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

    def data_identity(self) -> str:
        return schema.table_identity(self._calls)

    def close(self) -> None:
        self._moves.close()
        self._calls.close()

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        check_name(realm, "realm")
        check_name(name, "pointer")
        return self._announced(realm, name, 0, (), lambda: pointers.reserve_pointer(self._calls, realm, name, row))

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        # Both at the serial level: pointers.py says why that decides.
        return pointers.read_pointer(self._calls, realm, name)

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        return pointers.read_pointers(self._calls, realm, names)

    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        return self._cas(realm, name, expected, row, ())

    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        return pointers.delete_pointer(self._calls, realm, name, expected)

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        return self._moves.since(realm, token)

    def _cas(self, realm: str, name: str, expected: PointerRow, row: PointerRow, also: Sequence[Call]) -> bool:
        cas = partial(pointers.cas_pointer, self._calls, realm, name, expected, row)
        return self._announced(realm, name, expected.version, also, cas)

    def _announced(self, realm: str, name: str, expected_version: int, also: Sequence[Call], lwt: Callable[[], bool]) -> bool:
        """The announcement and whatever must be written before, all of it acknowledged, then the LWT."""
        announced = self._moves.announce(realm, name, also)
        in_doubt: int | None = expected_version
        try:
            applied = lwt()
            in_doubt = None
            return applied
        except OutcomeUnknown:
            raise
        except HeadwaterError:
            in_doubt = None
            raise
        finally:
            self._moves.settled(announced, in_doubt)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────

    def add_name(self, realm: str, name: str) -> None:
        names.add_name(self._calls, check_name(realm, "realm"), check_name(name))

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        return names.list_names(self._calls, realm, prefix=prefix, after=after, limit=limit)

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        check_name(realm, "realm")
        check_objects(rows)
        self._calls.run_all(write_calls(self._calls, realm, rows))

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        return objects.fetch_objects(self._calls, realm, ids)

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        self._calls.run_all(remove_calls(self._calls, realm, keys))

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        """⚠ Cassandra cannot tell one copy of the data from another: a restore needs all processes stopped."""
        check_objects(objects)
        return self._cas(realm, name, expected, row, write_calls(self._calls, realm, objects))

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        check_name(realm, "realm")
        check_mutable_row(row)
        return mutable_rows.insert_mutable(self._calls, realm, row)

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        return mutable_rows.read_mutable(self._calls, realm, type, key)

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        check_mutable_row(row)
        return mutable_rows.update_mutable(self._calls, realm, expected, row)

    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        return mutable_rows.delete_mutable(self._calls, realm, expected)

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        return mutable_rows.list_mutable(self._calls, realm, type, after=after, limit=limit)

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def splits(self, table: Table, count: int) -> list[Split]:
        return scans.splits(table, count)

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        return scans.scan(self._calls, split, realm)

    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        """⚠ Cassandra cannot tell: a restore needs all processes stopped."""
        return scans.delete_scanned(self._calls, rows)

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        raise NotImplementedError("Cassandra cannot delete whole realms in bulk: scan the tables and delete by realm.")
