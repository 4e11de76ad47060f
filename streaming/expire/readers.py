"""Pins history for jobs that read all pointers of a realm, up to a maximum age.

`retained` and `archive` register here. A registered reader has a position in every pointer: one that it has not seen yet is
pinned from its first entry. Rows are mutable and hold a few thousand positions each, so there is no limit on the number of
pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import change_row, delete_row
from headwater.persistence.limits import check_name
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.schemas.errors import Conflict

READER_TYPE = "reader"
POINTERS_PER_ROW = 2_000
PIN_SECONDS = 7 * 86_400


class ReaderRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    positions: dict[str, int]
    """Pointer → the last seq that was read and stored."""
    pin_seconds: int
    updated_at: int


OBJECT_TYPES.register(ObjectType(READER_TYPE, ReaderRecord, Life.MUTABLE))


class RegisteredReader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    positions: dict[str, int]
    pinned_until: int
    """Microseconds."""


class RegisteredReaders:
    """One per realm instance."""

    def __init__(self, backend: Backend, realm: str, clock: Clock) -> None:
        self._backend = backend
        self._realm = realm
        self._clock = clock

    def save(
        self,
        name: str,
        positions: Mapping[str, int],
        *,
        pin_seconds: int = PIN_SECONDS,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        """⚠ Save here only what is stored durably elsewhere: history up to it may be deleted. `may_write` raises if the right
        to act for the reader was lost: then its successor has saved its position, or will."""
        check_name(name, "reader")
        now = self._clock.now_micros()
        pointers = sorted(positions)
        shares = [pointers[at : at + POINTERS_PER_ROW] for at in range(0, len(pointers), POINTERS_PER_ROW)] or [[]]
        for number, share in enumerate(shares):
            record = ReaderRecord({pointer: positions[pointer] for pointer in share}, pin_seconds, now)
            self._write(f"{name}/{number:06d}", msgspec.msgpack.encode(record), may_write)
        for row in self._rows():
            owner, _, number_text = row.key.rpartition("/")
            if owner == name and int(number_text) >= len(shares):
                may_write()
                delete_row(self._backend, self._realm, row, self._clock)

    def forget(self, name: str) -> None:
        for row in self._rows():
            if row.key.rpartition("/")[0] == name:
                delete_row(self._backend, self._realm, row, self._clock)

    def list(self) -> list[RegisteredReader]:
        found: dict[str, RegisteredReader] = {}
        for row in self._rows():
            name = row.key.rpartition("/")[0]
            record = msgspec.msgpack.decode(row.payload, type=ReaderRecord)
            until = record.updated_at + record.pin_seconds * MICROS
            known = found.get(name)
            positions = record.positions if known is None else _lower(known.positions, record.positions)
            until = until if known is None else max(until, known.pinned_until)
            found[name] = RegisteredReader(name=name, positions=positions, pinned_until=until)
        return list(found.values())

    def _write(self, key: str, payload: bytes, may_write: Callable[[], None]) -> None:
        if not change_row(self._backend, self._realm, READER_TYPE, key, lambda _: payload, self._clock, may_write=may_write):
            raise Conflict(f"another process keeps writing the reader {key!r}.", field="reader", remedy="Run one of them.")

    def _rows(self) -> Iterator[MutableRow]:
        return self._backend.all_mutable(self._realm, READER_TYPE)


def _lower(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """⚠ While several rows are being written a pointer may appear in two of them: the lower position holds."""
    both = {pointer: min(seq, other[pointer]) for pointer, seq in one.items() if pointer in other}
    return {**one, **other, **both}
