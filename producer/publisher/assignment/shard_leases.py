"""Leases of shards: one mutable row of `::system::` each, moved by CAS only.

The row's expiry is by the wall clock and only decides who tries; the holder itself counts by its monotonic clock, from before
the write was sent, and Kafka's fence has the last word. Every live publisher has a row too, so that all know how many share.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError

LEASE_TYPE = "publisher-lease"
MEMBER_TYPE = "publisher"
MEMBERS_MAX = 1_000
MARGIN_SHARE = 0.2
"""Of a lease's time is left alone at its end: a transaction is not committed there."""

_log = logging.getLogger(__name__)
Monotonic = Callable[[], float]


class ShardLeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    holder: str
    """Empty when it was released."""
    host: str = ""
    pid: int = 0


class Lease:
    """What one publisher holds of one shard. The keeper renews it on its own thread; the shard asks before it commits."""

    def __init__(self, key: str, row: MutableRow, valid_until: float) -> None:
        self.key = key
        self.row = row
        self.valid_until = valid_until
        self.lost = False
        self.lock = threading.Lock()

    def is_safe(self, now: float, seconds: float) -> bool:
        return not self.lost and now < self.valid_until - seconds * MARGIN_SHARE


class Leases:
    def __init__(self, backend: Backend, clock: Clock, seconds: float, *, monotonic: Monotonic = time.monotonic) -> None:
        self.holder = uuid.uuid4().hex
        self.seconds = seconds
        self._backend = backend
        self._clock = clock
        self._monotonic = monotonic

    # ── one shard ───────────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, key: str) -> Lease | None:
        """None while another one holds it, or wins it now."""
        row = self._backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, key)
        if row is not None and not self._is_free(row):
            return None
        started = self._monotonic()
        taken = self._row(LEASE_TYPE, key, row, self.holder)
        if not self._write(row, taken):
            return None
        return Lease(key, taken, started + self.seconds)

    def renew(self, lease: Lease) -> bool:
        """False, and lost for ever, if another one has it. An unanswered write leaves the lease as long as it was."""
        with lease.lock:
            if lease.lost:
                return False
            started = self._monotonic()
            renewed = self._row(LEASE_TYPE, lease.key, lease.row, self.holder)
            if self._write(lease.row, renewed) or self._is_there(renewed):
                lease.row, lease.valid_until = renewed, started + self.seconds
                return True
            lease.lost = True
            return False

    def release(self, lease: Lease) -> None:
        with lease.lock:
            if lease.lost:
                return
            lease.lost = True
            now = self._clock.now_micros()
            payload = msgspec.msgpack.encode(ShardLeaseRecord(""))
            freed = msgspec.structs.replace(lease.row, version=lease.row.version + 1, expires_at=now, payload=payload)
            self._write(lease.row, freed)

    def is_safe(self, lease: Lease) -> bool:
        return lease.is_safe(self._monotonic(), self.seconds)

    def expired_for(self, key: str) -> float:
        """Seconds since the shard had a holder; negative while it has one, infinite if it never had."""
        row = self._backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, key)
        return float("inf") if row is None else (self._clock.now_micros() - row.expires_at) / 1_000_000

    def forget(self, prefix: str) -> None:
        """Remove the free rows of a realm that is gone."""
        for row in self._backend.list_mutable(SYSTEM_REALM, LEASE_TYPE, after=prefix):
            if not row.key.startswith(prefix):
                return
            if self._is_free(row):
                self._backend.delete_mutable(SYSTEM_REALM, row)

    # ── publishers ──────────────────────────────────────────────────────────────────────────────────────────

    def announce(self) -> None:
        """Say that this publisher lives, for as long as a lease lasts."""
        row = self._backend.read_mutable(SYSTEM_REALM, MEMBER_TYPE, self.holder)
        self._write(row, self._row(MEMBER_TYPE, self.holder, row, self.holder))

    def leave(self) -> None:
        row = self._backend.read_mutable(SYSTEM_REALM, MEMBER_TYPE, self.holder)
        if row is not None:
            self._backend.delete_mutable(SYSTEM_REALM, row)

    def members(self) -> list[str]:
        """Of all live publishers, in one order for all; the rows of dead ones are removed some time later."""
        live, now = [], self._clock.now_micros()
        for row in self._backend.list_mutable(SYSTEM_REALM, MEMBER_TYPE, limit=MEMBERS_MAX):
            if row.expires_at > now:
                live.append(row.key)
            elif row.expires_at < now - 60_000_000:
                self._backend.delete_mutable(SYSTEM_REALM, row)
        return sorted(live)

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def _row(self, type: str, key: str, before: MutableRow | None, holder: str) -> MutableRow:
        now = self._clock.now_micros()
        return MutableRow(
            type=type,
            key=key,
            version=before.version + 1 if before else 1,
            created_at=before.created_at if before else now,
            expires_at=now + int(self.seconds * 1_000_000),
            payload=msgspec.msgpack.encode(ShardLeaseRecord(holder, socket.gethostname(), os.getpid())),
        )

    def _is_free(self, row: MutableRow) -> bool:
        """Also what is our own by the row but not in our hands: its answer never came."""
        return row.expires_at <= self._clock.now_micros() or _holder(row) in ("", self.holder)

    def _write(self, before: MutableRow | None, row: MutableRow) -> bool:
        if before is None:
            return self._backend.insert_mutable(SYSTEM_REALM, row)
        return self._backend.update_mutable(SYSTEM_REALM, before, row)

    def _is_there(self, row: MutableRow) -> bool:
        """An earlier attempt without an answer may have landed: then the row is ours, with a version that we did not know."""
        there = self._backend.read_mutable(SYSTEM_REALM, row.type, row.key)
        return there is not None and _holder(there) == self.holder and self._write(there, _after(there, row))


class LeaseRenewer:
    """Renews what is held, on a thread that no slow call to Kafka can hold up."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="publisher-leases", daemon=True)
        self._thread.start()

    def hold(self, lease: Lease) -> None:
        with self._lock:
            self._held[lease.key] = lease

    def drop(self, lease: Lease) -> None:
        with self._lock:
            if self._held.get(lease.key) is lease:
                del self._held[lease.key]

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._closing.wait(self._leases.seconds / 4):
            self._try(self._leases.announce)
            with self._lock:
                held = list(self._held.values())
            for lease in held:
                self._try(lambda lease=lease: self._leases.renew(lease))  # type: ignore[misc]

    @staticmethod
    def _try(step: Callable[[], object]) -> None:
        try:
            step()
        except HeadwaterError as error:
            _log.warning("a lease could not be renewed: %s", error)


def _holder(row: MutableRow) -> str:
    return msgspec.msgpack.decode(row.payload, type=ShardLeaseRecord).holder


def _after(there: MutableRow, row: MutableRow) -> MutableRow:
    return msgspec.structs.replace(row, version=there.version + 1)
