"""Loads the rows of a checked file into a realm instance, reads them back and compares every one.

Writing a row that is there already changes nothing, so a load that was interrupted is simply repeated. Rows keep their ids,
bytes and times; only the realm instance is another. Pointers come last: none of them ever names what is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, Table
from headwater.schemas.errors import ImportDiffers, OutcomeUnknown
from headwater.streaming.expire.readers import READER_TYPE
from headwater.streaming.transfer.checked_file import CheckedFile
from headwater.streaming.transfer.file_format import Section
from headwater.streaming.transfer.file_records import FileCounts, MutableRecord, PointerRecord
from headwater.streaming.transfer.import_record import IMPORT_TYPE

LEFT_OUT = frozenset({READER_TYPE, IMPORT_TYPE})
"""Mutable rows that belong to the original instance: what its jobs have read, and its own import record."""
WRITE_TRIES_MAX = 5
SPLITS = 8

Progress = Callable[[str, int], None]


class Load:
    """Loads one file into one realm instance."""

    def __init__(self, backend: Backend, realm: str, file: CheckedFile, clock: Clock, on_progress: Progress) -> None:
        self._backend = backend
        self._realm = realm
        self._file = file
        self._clock = clock
        self._progress = on_progress

    def write(self) -> None:
        for section, records in self._file.frames():
            match section:
                case Section.NAMES:
                    for name in records:
                        _again_if_unclear(partial(self._backend.add_name, self._realm, name))
                case Section.OBJECTS:
                    _again_if_unclear(partial(self._backend.write_objects, self._realm, records))
                case Section.MUTABLE:
                    for row in _loaded(records):
                        self._insert(row)
                case Section.POINTERS:
                    for pointer in records:
                        self._reserve(pointer)
                case _:
                    continue
            self._progress("loaded", len(records))

    def compare(self) -> dict[str, PointerRow]:
        """⚠ Compares every row that the store returns now with the file; there must be no other row. Returns the pointers'
        rows."""
        pointers: dict[str, PointerRow] = {}
        names = set(self._backend.all_names(self._realm))
        counted = FileCounts()
        mutable_count = 0
        for section, records in self._file.frames():
            match section:
                case Section.NAMES:
                    self._same("name", {name: name for name in records}, {name: name for name in records if name in names})
                case Section.OBJECTS:
                    self._same_objects(records)
                case Section.MUTABLE:
                    mutable_count += len(_loaded(records))
                    self._same_mutable(_loaded(records))
                case Section.POINTERS:
                    pointers |= self._same_pointers(records)
                case Section.END:
                    counted = records[0].counts
                case _:
                    continue
            self._progress("compared", len(records))
        expected = {
            Table.OBJECTS: counted.objects,
            Table.NAMES: counted.names,
            Table.POINTERS: counted.pointers,
            Table.MUTABLE: mutable_count + 1,  # the record of the import itself
        }
        for table, count in expected.items():
            self._same(f"count of {table.value}", {"": count}, {"": self._rows_of(table)})
        return pointers

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _insert(self, row: MutableRecord) -> None:
        with suppress(OutcomeUnknown):  # compared at the end
            cas_row(self._backend, self._realm, None, row.row(), self._clock)

    def _reserve(self, pointer: PointerRecord) -> None:
        with suppress(OutcomeUnknown):
            self._backend.reserve_pointer(self._realm, pointer.name, pointer.fresh_row())

    # ── comparing ───────────────────────────────────────────────────────────────────────────────────────────

    def _same_objects(self, rows: Sequence[ObjectRow]) -> None:
        stored = self._backend.fetch_objects(self._realm, list(dict.fromkeys(row.id for row in rows)))
        found = {(row.id, row.part): row for parts in stored.values() for row in parts}
        self._same("object", {(row.id, row.part): row for row in rows}, found)

    def _same_mutable(self, records: Sequence[MutableRecord]) -> None:
        wanted = {(it.type, it.key): it.row() for it in records}
        found: dict[Any, MutableRow | None] = {key: self._backend.read_mutable(self._realm, *key) for key in wanted}
        self._same("mutable row", wanted, found)

    def _same_pointers(self, records: Sequence[PointerRecord]) -> dict[str, PointerRow]:
        wanted = {it.name: it.fresh_row() for it in records}
        self._same("pointer", wanted, self._backend.read_pointers(self._realm, list(wanted)))
        return wanted

    def _same(self, what: str, wanted: dict[Any, Any], found: dict[Any, Any]) -> None:
        for key, value in wanted.items():
            if found.get(key) != value:
                raise ImportDiffers(
                    f"{what} {key} of {self._realm!r} is not what the file holds.",
                    field="realm",
                    remedy="Purge the realm and import again.",
                    realm=self._realm,
                )

    def _rows_of(self, table: Table) -> int:
        splits = self._backend.splits(table, SPLITS)
        return sum(1 for split in splits for _ in self._backend.scan(split, realm=self._realm))


def _again_if_unclear(write: Callable[[], None]) -> None:
    """For writes that may be repeated at any time."""
    for _ in range(WRITE_TRIES_MAX - 1):
        try:
            return write()
        except OutcomeUnknown:
            continue
    return write()


def _loaded(records: Sequence[MutableRecord]) -> list[MutableRecord]:
    return [it for it in records if it.type not in LEFT_OUT]
