"""Leases: one process at a time in the whole store holds a key, until it releases it or dies.

Maintenance, tasks and the publisher's shards are all leased here. A lease is a mutable row that is moved by CAS; its expiry, by
the wall clock, only decides who may try to take it. ⚠ Whether a lease still holds is answered by the store, never by the
holder's own clock: another process may take it at any moment, by name or because its holder slept. ⚠ That answer is outdated
as soon as it arrives. So a writer under a lease reads the row that it will write, checks the lease, and writes on the version
that it read; its successor writes that row after it has taken the lease. What cannot be written that way is decided by a memo
in the lease's own row: a successor finds the memo and completes what it says.

Node numbers are leased in `persistence/ids/node_leases.py`, because there the time of a lease is a part of the ids.
"""

from __future__ import annotations

import threading

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import SEND_TRIES_MAX, cas_row, delete_row, next_row
from headwater.persistence.coordination.incarnation import is_in_force
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError, MaintenanceSuperseded, OutcomeUnknown

LEASE_TYPE = "maintenance-lease"
LEASE_SECONDS = 60.0
JOIN_SECONDS = 10.0


class LeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    holder: str
    """A token of one holder; empty after a release."""
    memo: bytes = b""
    """What a holder has decided and may not have completed. It survives a release and a takeover."""
    host: str = ""
    pid: int = 0


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
    """What a worker on another machine needs to check that the lease it works under still holds."""

    key: str
    holder: str
    type: str = LEASE_TYPE
    realm: str = SYSTEM_REALM
    incarnation: str = ""
    """⚠ Of the store that the work was planned on; empty if that does not matter. A backup that was taken during the work holds
    the lease, too, and what was unreachable may be reachable in it."""

    def is_held(self, backend: Backend) -> bool:
        """Asks the store. A lease that expired and that no other process took is still ours."""
        if record_of(backend.read_mutable(self.realm, self.type, self.key)).holder != self.holder:
            return False
        return not self.incarnation or is_in_force(backend, self.incarnation)

    def require(self, backend: Backend) -> None:
        if not self.is_held(backend):
            raise superseded(self.key)


class WorkLeases:
    """The leases of one kind: a row type in a realm."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        seconds: float = LEASE_SECONDS,
        *,
        type: str = LEASE_TYPE,
        realm: str = SYSTEM_REALM,
    ) -> None:
        self.seconds = seconds
        self.backend = backend
        self.type = type
        self.realm = realm
        self._clock = clock

    def look(self, key: str) -> SeenLease:
        row = self.backend.read_mutable(self.realm, self.type, key)
        holder = record_of(row).holder
        held = row is not None and bool(holder) and row.expires_at > self._clock.now_micros()
        return SeenLease(row=row, holder=holder, is_held=held)

    def lasts(self, key: str, seconds: float) -> bool:
        return self.look(key).until - self._clock.now_micros() >= seconds * MICROS

    def take(self, key: str, holder: str, seen: SeenLease, *, incarnation: str = "") -> HeldLease | None:
        """Write over the row that was read; None if another process was faster. The caller decides whether a held lease may be
        taken. With an incarnation the lease is lost when the store is restored."""
        row = self.row(key, LeaseRecord(holder, record_of(seen.row).memo), seen.row)
        return HeldLease(self, key, holder, row, incarnation) if self.put(seen.row, row) else None

    def row(self, key: str, record: LeaseRecord, before: MutableRow | None) -> MutableRow:
        now = self._clock.now_micros()
        expires_at = now + int(self.seconds * MICROS) if record.holder else now
        return next_row(self.type, key, before, msgspec.msgpack.encode(record), now, expires_at=expires_at)

    def put(self, before: MutableRow | None, row: MutableRow, *, tries_max: int = SEND_TRIES_MAX) -> bool:
        return cas_row(self.backend, self.realm, before, row, self._clock, has_token=True, tries_max=tries_max)

    def renew(self, before: MutableRow, row: MutableRow, *, tries_max: int = SEND_TRIES_MAX) -> MutableRow | None:
        """The row that the holder has written over its own; None if the lease is another's. An earlier write of the holder
        whose outcome stayed unknown may have landed: then the row follows that one."""
        if self.put(before, row, tries_max=tries_max):
            return row
        there = self.look(row.key).row
        if there is None or record_of(there).holder != record_of(before).holder:
            return None
        row = msgspec.structs.replace(row, version=there.version + 1)
        return row if self.put(there, row, tries_max=tries_max) else None

    def delete(self, row: MutableRow) -> bool:
        return delete_row(self.backend, self.realm, row, self._clock)


class HeldLease:
    """`keep` it on a thread while the work continues, then `release` it."""

    def __init__(self, leases: WorkLeases, key: str, holder: str, row: MutableRow, incarnation: str = "") -> None:
        self.claim = LeaseClaim(key, holder, leases.type, leases.realm, incarnation)
        self._leases = leases
        self._row = row
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._keeper: threading.Thread | None = None

    @property
    def memo(self) -> bytes:
        return record_of(self._row).memo

    def is_lost(self) -> bool:
        """Asks the store. ⚠ Call it before anything is deleted or written."""
        if not self._lost.is_set() and not self.claim.is_held(self._leases.backend):
            self._lost.set()
        return self._lost.is_set()

    def require(self) -> None:
        if self.is_lost():
            raise superseded(self.claim.key)

    def require_for(self, seconds: float) -> None:
        """⚠ The lease is ours by the store, and lasts so long by this machine's clock: a process that slept does not pass."""
        self.require()
        if not self._leases.lasts(self.claim.key, seconds):
            raise superseded(self.claim.key)

    def renew(self) -> None:
        self._write(LeaseRecord(self.claim.holder, self.memo))

    def decide(self, memo: bytes) -> None:
        """⚠ One CAS that proves the lease and records what is done under it: from now on it will be done, by this process or
        by the one that takes the lease over. `MaintenanceSuperseded` if it was taken over already: then it must not be done."""
        try:
            self._write(LeaseRecord(self.claim.holder, memo))
        except OutcomeUnknown:
            self._lost.set()  # ⚠ a later renewal would overwrite the memo, if it landed
            raise
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
            except HeadwaterError:  # the store is unreachable: the lease runs out by itself
                continue
            if self._lost.is_set():
                return

    def release(self) -> None:
        self._ended.set()
        self._write(LeaseRecord("", self.memo))
        if self._keeper is not None:
            self._keeper.join(timeout=JOIN_SECONDS)

    def delete(self) -> None:
        """Release a lease whose key will never be leased again."""
        self._ended.set()
        with self._writing:
            if not self._lost.is_set():
                self._lost.set()
                self._leases.delete(self._row)

    def _write(self, record: LeaseRecord) -> None:
        with self._writing:
            if self._lost.is_set():
                return
            row = self._leases.renew(self._row, self._leases.row(self.claim.key, record, self._row))
            if row is None:
                self._lost.set()
            else:
                self._row = row


def superseded(key: str) -> MaintenanceSuperseded:
    return MaintenanceSuperseded(
        f"another process has taken over {key!r}, or the store was restored.", remedy="Let it continue, or start again."
    )


def record_of(row: MutableRow | None) -> LeaseRecord:
    return LeaseRecord("") if row is None else msgspec.msgpack.decode(row.payload, type=LeaseRecord)
