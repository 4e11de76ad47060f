"""Records denied requests: a log line at once, and soon after a row that can be listed.

⚠ A flood of denials must not fill the store: equal ones are counted together, each worker writes so many a second, and rows lie
in a ring: when it is full, the oldest is written over. What was not written is counted in the next row that is.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.store import Store
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right, Securable

DENIAL_TYPE = "access-denial"
RINGS = 8
RING_ROWS = 500
"""So a realm has at most 4,000 rows of denials."""
WAITING_MAX = 1_000
ROWS_A_FLUSH_MAX = 20
KEPT_SECONDS = 90 * 24 * 3_600

_log = logging.getLogger("headwater.audit")


class DenialRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    time: int
    """Microseconds, of the first that is counted here."""
    principal: str
    right: str
    catalog: str | None
    key: KeyPath
    count: int
    unwritten: int = 0
    """How many other denials came in the meantime that have no row."""


OBJECT_TYPES.register(ObjectType(DENIAL_TYPE, DenialRecord, Life.MUTABLE))


class _Same(NamedTuple):
    instance: str
    principal: str
    right: Right
    over: Securable


class Denials:
    """One per worker. Thread-safe; `flush` is called periodically by the worker's housekeeping."""

    def __init__(self, store: Store, ring: int | None = None) -> None:
        self._store = store
        self._ring = random.randrange(RINGS) if ring is None else ring  # noqa: S311 - spreads rows, keeps no secret
        self._waiting: dict[_Same, tuple[int, int]] = {}
        self._unwritten: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._lock = threading.Lock()
        self.counted = 0

    def add(self, caller: Caller, right: Right, over: Securable) -> None:
        _log.warning(
            "denied",
            extra={"realm": caller.realm, "principal": caller.name, "right": str(right), "securable": str(over)[:500]},
        )
        same = _Same(caller.instance, caller.name, right, over)
        with self._lock:
            self.counted += 1
            first, count = self._waiting.get(same, (self._store.clock.now_micros(), 0))
            if not count and len(self._waiting) >= WAITING_MAX:
                self._unwritten[same.instance] = self._unwritten.get(same.instance, 0) + 1
                return
            self._waiting[same] = (first, count + 1)

    def flush(self) -> int:
        """Write what waits, as much as one flush may; how many rows. What the store does not take waits on."""
        with self._lock:
            due = list(self._waiting.items())[:ROWS_A_FLUSH_MAX]
            for same, _ in due:
                del self._waiting[same]
        written = 0
        for position, (same, (first, count)) in enumerate(due):
            try:
                self._write(same, first, count)
                written += 1
            except HeadwaterError:
                self._put_back(dict(due[position:]))
                break
        return written

    def list(self, instance: str, *, before: int | None = None, limit: int = 100) -> Sequence[DenialRecord]:
        """Newest first, those before that time (microseconds)."""
        since = self._store.clock.now_micros() - KEPT_SECONDS * MICROS
        rows = self._store.backend.list_mutable(instance, DENIAL_TYPE, limit=RINGS * RING_ROWS)
        found = [msgspec.msgpack.decode(row.payload, type=DenialRecord) for row in rows]
        shown = [one for one in found if one.time > since and (before is None or one.time < before)]
        return sorted(shown, key=lambda one: one.time, reverse=True)[:limit]

    def _write(self, same: _Same, first: int, count: int) -> None:
        slot = self._slots.get(same.instance)
        if slot is None:
            slot = self._first_slot(same.instance)
        with self._lock:
            unwritten = self._unwritten.pop(same.instance, 0)
        record = DenialRecord(first, same.principal, str(same.right), same.over.catalog, same.over.key[:20], count, unwritten)
        self._slots[same.instance] = (slot + 1) % RING_ROWS
        self._put(same.instance, f"{self._ring}-{slot:04d}", record)

    def _put(self, instance: str, key: str, record: DenialRecord) -> None:
        """If two processes write the same slot at the same time, one record is stored: what matters is that the ring is
        bounded."""
        backend = self._store.backend
        there = backend.read_mutable(instance, DENIAL_TYPE, key)
        expires_at = record.time + KEPT_SECONDS * MICROS
        row = next_row(DENIAL_TYPE, key, there, msgspec.msgpack.encode(record), record.time, expires_at=expires_at)
        # `created_at` is that of the denial, not of the slot.
        cas_row(backend, instance, there, msgspec.structs.replace(row, created_at=record.time), self._store.clock)

    def _first_slot(self, instance: str) -> int:
        """Behind the newest row of this ring."""
        rows = self._store.backend.list_mutable(instance, DENIAL_TYPE, after=f"{self._ring}-", limit=RING_ROWS)
        own = [row for row in rows if row.key.startswith(f"{self._ring}-")]
        if not own:
            return 0
        newest = max(own, key=lambda row: (row.created_at, row.key))
        return (int(newest.key.partition("-")[2]) + 1) % RING_ROWS

    def _put_back(self, due: dict[_Same, tuple[int, int]]) -> None:
        with self._lock:
            for same, (first, count) in due.items():
                _, since = self._waiting.get(same, (0, 0))
                self._waiting[same] = (first, count + since)
