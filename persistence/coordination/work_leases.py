"""Leases of work: one process at a time in the whole store holds a key, until it ends or dies.

Leases are mutable rows of `::system::`, moved by CAS and renewed on a thread of their own. ⚠ Whether a lease still holds is
asked of the store, never of the own clock: another process may take it at any moment, by name or because its holder slept.
⚠ An answer is old as soon as it is there. So whoever writes under a lease reads the row that it will write, asks, and writes
on the version that it read; its successor writes that row after it has taken the lease. What cannot be written that way is
decided by a memo in the lease's own row: a successor finds the memo and completes what it says.
"""

from __future__ import annotations

import threading

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError, MaintenanceSuperseded

LEASE_TYPE = "maintenance-lease"
LEASE_SECONDS = 60.0
JOIN_SECONDS = 10.0
MICROS = 1_000_000


class LeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    holder: str
    """Empty where it was given back."""
    memo: bytes = b""
    """What a holder has decided and may not have completed. It stays when the lease is given back or taken over."""


OBJECT_TYPES.register(ObjectType(LEASE_TYPE, LeaseRecord, Life.MUTABLE))


class SeenLease(msgspec.Struct, frozen=True, kw_only=True):
    row: MutableRow | None
    holder: str
    is_held: bool

    @property
    def until(self) -> int:
        """Microseconds."""
        return 0 if self.row is None else self.row.expires_at


class LeaseClaim(msgspec.Struct, frozen=True, array_like=True):
    """What a worker on another machine needs in order to ask whether the lease that it works under still holds."""

    key: str
    holder: str

    def is_held(self, backend: Backend) -> bool:
        """By the store. A lease that ran out and that nobody took is still ours."""
        return _record(backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, self.key)).holder == self.holder

    def require(self, backend: Backend) -> None:
        if not self.is_held(backend):
            raise superseded(self.key)


class WorkLeases:
    def __init__(self, backend: Backend, clock: Clock, seconds: float = LEASE_SECONDS) -> None:
        self.seconds = seconds
        self.backend = backend
        self._clock = clock

    def look(self, key: str) -> SeenLease:
        row = self.backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, key)
        holder = _record(row).holder
        held = row is not None and bool(holder) and row.expires_at > self._clock.now_micros()
        return SeenLease(row=row, holder=holder, is_held=held)

    def take(self, key: str, holder: str, seen: SeenLease) -> HeldLease | None:
        """Over what was seen; None if another one was faster. Whether a held one may be taken is the caller's decision."""
        row = self.row(key, LeaseRecord(holder, _record(seen.row).memo), seen.row)
        return HeldLease(self, key, holder, row) if self.put(seen.row, row) else None

    def row(self, key: str, record: LeaseRecord, before: MutableRow | None) -> MutableRow:
        now = self._clock.now_micros()
        expires_at = now + int(self.seconds * MICROS) if record.holder else now
        return next_row(LEASE_TYPE, key, before, msgspec.msgpack.encode(record), now, expires_at=expires_at)

    def put(self, before: MutableRow | None, row: MutableRow) -> bool:
        return cas_row(self.backend, SYSTEM_REALM, before, row)


class HeldLease:
    """`keep` it on a thread while the work goes on, then `release` it."""

    def __init__(self, leases: WorkLeases, key: str, holder: str, row: MutableRow) -> None:
        self.claim = LeaseClaim(key, holder)
        self._leases = leases
        self._row = row
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._keeper: threading.Thread | None = None

    @property
    def memo(self) -> bytes:
        return _record(self._row).memo

    def is_lost(self) -> bool:
        """⚠ Asked before anything is deleted or written, and answered by the store."""
        if not self._lost.is_set() and not self.claim.is_held(self._leases.backend):
            self._lost.set()
        return self._lost.is_set()

    def require(self) -> None:
        if self.is_lost():
            raise superseded(self.claim.key)

    def renew(self) -> None:
        self._write(LeaseRecord(self.claim.holder, self.memo))

    def decide(self, memo: bytes) -> None:
        """⚠ One CAS that proves the lease and leaves word of what is done under it: it is done now, by this process or by
        whoever takes the lease over. `MaintenanceSuperseded` if it was taken over already: then it must not be done."""
        self._write(LeaseRecord(self.claim.holder, memo))
        if self._lost.is_set():
            raise superseded(self.claim.key)

    def keep(self) -> None:
        name = f"lease-{self.claim.key}-{self.claim.holder}"
        self._keeper = threading.Thread(target=self._keep, name=name, daemon=True)
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
        self._write(LeaseRecord("", self.memo))
        if self._keeper is not None:
            self._keeper.join(timeout=JOIN_SECONDS)

    def _write(self, record: LeaseRecord) -> None:
        with self._writing:
            if self._lost.is_set():
                return
            row = self._leases.row(self.claim.key, record, self._row)
            if self._leases.put(self._row, row):
                self._row = row
            else:
                self._lost.set()


def superseded(key: str) -> MaintenanceSuperseded:
    return MaintenanceSuperseded(f"another process has taken over {key!r}.", remedy="Let it go on.")


def _record(row: MutableRow | None) -> LeaseRecord:
    return LeaseRecord("") if row is None else msgspec.msgpack.decode(row.payload, type=LeaseRecord)
