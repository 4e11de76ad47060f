"""A key enters; the right to work under it leaves, for one process at a time in the whole store, until it ends or dies.

Leases are mutable rows of `::system::`, moved by CAS and renewed on a thread of their own. ⚠ Whoever slept past the end of its
lease asks the store before it goes on: meanwhile another one may have taken it.
"""

from __future__ import annotations

import threading
import time

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown

LEASE_TYPE = "maintenance-lease"
LEASE_SECONDS = 60.0
JOIN_SECONDS = 10.0
MICROS = 1_000_000


class LeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    holder: str
    """Empty where it was given back."""


OBJECT_TYPES.register(ObjectType(LEASE_TYPE, LeaseRecord, Life.MUTABLE))


class SeenLease(msgspec.Struct, frozen=True, kw_only=True):
    row: MutableRow | None
    holder: str
    is_held: bool

    @property
    def until(self) -> int:
        """Microseconds."""
        return 0 if self.row is None else self.row.expires_at


class WorkLeases:
    def __init__(self, backend: Backend, clock: Clock, seconds: float = LEASE_SECONDS) -> None:
        self.seconds = seconds
        self._backend = backend
        self._clock = clock

    def look(self, key: str) -> SeenLease:
        row = self._backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, key)
        holder = "" if row is None else msgspec.msgpack.decode(row.payload, type=LeaseRecord).holder
        held = row is not None and bool(holder) and row.expires_at > self._clock.now_micros()
        return SeenLease(row=row, holder=holder, is_held=held)

    def take(self, key: str, holder: str, seen: SeenLease) -> HeldLease | None:
        """Over what was seen; None if another one was faster. Whether a held one may be taken is the caller's decision."""
        row = self.row(key, holder, seen.row)
        return HeldLease(self, key, holder, row) if self.put(seen.row, row) else None

    def row(self, key: str, holder: str, before: MutableRow | None) -> MutableRow:
        now = self._clock.now_micros()
        return MutableRow(
            type=LEASE_TYPE,
            key=key,
            version=1 if before is None else before.version + 1,
            created_at=now if before is None else before.created_at,
            expires_at=now + int(self.seconds * MICROS) if holder else now,
            payload=msgspec.msgpack.encode(LeaseRecord(holder)),
        )

    def put(self, before: MutableRow | None, row: MutableRow) -> bool:
        return put_mutable(self._backend, before, row)


class HeldLease:
    """`keep` it on a thread while the work goes on, then `release` it."""

    def __init__(self, leases: WorkLeases, key: str, holder: str, row: MutableRow) -> None:
        self.key = key
        self.holder = holder
        self._leases = leases
        self._row = row
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self._valid_until = time.monotonic() + leases.seconds
        self._keeper: threading.Thread | None = None

    def is_lost(self) -> bool:
        """⚠ Asked before anything is deleted or written."""
        if time.monotonic() >= self._valid_until and not self._lost.is_set():
            self.renew()
        return self._lost.is_set()

    def renew(self) -> None:
        with self._renewing:
            valid_until = time.monotonic() + self._leases.seconds
            renewed = self._leases.row(self.key, self.holder, self._row)
            if self._leases.put(self._row, renewed):
                self._row, self._valid_until = renewed, valid_until
            else:
                self._lost.set()

    def keep(self) -> None:
        self._keeper = threading.Thread(target=self._keep, name=f"lease-{self.key}-{self.holder}", daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        while not self._ended.wait(self._leases.seconds / 3):
            try:
                self.renew()
            except HeadwaterError:  # the store is away: the lease runs out by itself
                continue
            if self._lost.is_set():
                return

    def release(self) -> None:
        self._ended.set()
        with self._renewing:
            if not self._lost.is_set():
                self._leases.put(self._row, self._leases.row(self.key, "", self._row))
        if self._keeper is not None:
            self._keeper.join(timeout=JOIN_SECONDS)


def put_mutable(backend: Backend, before: MutableRow | None, row: MutableRow) -> bool:
    """By CAS over what was read in `::system::`; a write without an answer is looked up."""
    try:
        if before is None:
            return backend.insert_mutable(SYSTEM_REALM, row)
        return backend.update_mutable(SYSTEM_REALM, before.version, row)
    except OutcomeUnknown:
        return backend.read_mutable(SYSTEM_REALM, row.type, row.key) == row
