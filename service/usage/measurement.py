"""Counts the rows of a store by realm and type, slice by slice, and records a complete round.

Rows are counted one by one, as a scan tells them; bytes are estimated, from every so manieth row's payload. A slice ends with
its time, and the next one continues there: so the cost is bounded, whatever the size of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.rows import ScannedRow, Table
from headwater.persistence.store import Store
from headwater.service.usage.usage_records import UsageOfType, UsageRecord, forget_usage, write_usage

SPLITS = 16
KEY_ROW_BYTES = 64
"""What a row of a pointer or a name takes beside its name."""
ROWS_BETWEEN_LOOKS = 200


class MeasuringOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = 300.0
    """Between two rounds."""
    slice_seconds: float = 0.2
    rest_seconds: float = 4.0
    """Between two slices of a round: so a round takes a twentieth of one thread."""
    sample_every: int = 100
    """One of so many rows is read for its size."""


class _Count:
    __slots__ = ("bytes", "rows", "sampled")

    def __init__(self) -> None:
        self.rows = self.sampled = self.bytes = 0

    @property
    def estimated_bytes(self) -> int:
        return round(self.bytes * self.rows / self.sampled) if self.sampled else 0


class Measuring:
    def __init__(self, store: Store, options: MeasuringOptions, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._options = options
        self._now_seconds = now_seconds
        self._rows: Iterator[ScannedRow] | None = None
        self._counts: dict[tuple[str, str, str], _Count] = {}
        self.rounds = 0

    def slice(self) -> bool:
        """Whether the round is complete, and written down."""
        if self._rows is None:
            self._rows, self._counts = self._scan(), {}
        deadline = self._now_seconds() + self._options.slice_seconds
        for number, row in enumerate(self._rows, 1):
            self._count(row)
            if number % ROWS_BETWEEN_LOOKS == 0 and self._now_seconds() >= deadline:
                return False
        self._rows = None
        self._write()
        self.rounds += 1
        return True

    def _scan(self) -> Iterator[ScannedRow]:
        backend = self._store.backend
        for table in Table:
            for split in backend.splits(table, SPLITS):
                yield from backend.scan(split)

    def _count(self, row: ScannedRow) -> None:
        count = self._counts.setdefault((row.realm, row.table.value, row.type), _Count())
        if count.rows % self._options.sample_every == 0:
            size = _size(self._store.backend, row)
            if size is not None:
                count.sampled += 1
                count.bytes += size
        count.rows += 1

    def _write(self) -> None:
        now = self._store.clock.now_micros()
        by_realm: dict[str, list[UsageOfType]] = {}
        for (realm, table, type), count in sorted(self._counts.items()):
            by_realm.setdefault(realm, []).append(UsageOfType(table, type, count.rows, count.estimated_bytes))
        for realm, types in by_realm.items():
            write_usage(self._store, realm, UsageRecord(now, types))
        forget_usage(self._store, set(by_realm))


def _size(backend: Backend, row: ScannedRow) -> int | None:
    """None for one that is gone meanwhile."""
    if row.table is Table.OBJECTS:
        parts = backend.fetch_objects(row.realm, [row.id]).get(row.id, [])
        return next((len(part.payload) for part in parts if part.part == row.part), None)
    if row.table is Table.MUTABLE:
        mutable = backend.read_mutable(row.realm, row.type, row.key)
        return None if mutable is None else len(mutable.payload)
    return KEY_ROW_BYTES + len(row.key.encode())
