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

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.work_leases import LeaseRecord, WorkLeases, record_of
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError

LEASE_TYPE = "publisher-lease"
MEMBER_TYPE = "publisher"
MEMBERS_MAX = 1_000
FORGET_SECONDS = 60
"""After its expiry the row of a dead publisher is deleted."""
MARGIN_SHARE = 0.2
"""Of a lease's time is left alone at its end: a transaction is not committed there."""

_log = logging.getLogger(__name__)
Monotonic = Callable[[], float]


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
        self._shards = WorkLeases(backend, clock, seconds, type=LEASE_TYPE)
        self._members = WorkLeases(backend, clock, seconds, type=MEMBER_TYPE)

    # ── one shard ───────────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, key: str) -> Lease | None:
        """None while another one holds it, or wins it now."""
        row = self._shards.look(key).row
        if row is not None and not self._is_free(row):
            return None
        started = self._monotonic()
        taken = self._shards.row(key, self._record(), row)
        return Lease(key, taken, started + self.seconds) if self._shards.put(row, taken) else None

    def renew(self, lease: Lease) -> bool:
        """False, and lost forever, if another process has it. A write whose outcome stays unknown leaves the lease as it was,
        and is not sent again here: other leases wait for this thread."""
        with lease.lock:
            if lease.lost:
                return False
            started = self._monotonic()
            renewed = self._shards.renew(lease.row, self._shards.row(lease.key, self._record(), lease.row), tries_max=1)
            if renewed is None:
                lease.lost = True
                return False
            lease.row, lease.valid_until = renewed, started + self.seconds
            return True

    def release(self, lease: Lease) -> None:
        """A row that cannot be written now runs out by itself."""
        with lease.lock:
            if lease.lost:
                return
            lease.lost = True
            released = self._shards.row(lease.key, LeaseRecord(""), lease.row)
            try:
                self._shards.put(lease.row, released, tries_max=1)
            except HeadwaterError as error:
                _log.warning("a lease was not released and will run out: %s", error)

    def is_safe(self, lease: Lease) -> bool:
        return lease.is_safe(self._monotonic(), self.seconds)

    def expired_for(self, key: str) -> float:
        """Seconds since the shard had a holder; negative while it has one, infinite if it never had."""
        row = self._shards.look(key).row
        return float("inf") if row is None else (self._clock.now_micros() - row.expires_at) / MICROS

    def forget(self, prefix: str) -> None:
        """Remove the free rows of a realm that is gone."""
        for row in self._backend.all_mutable(SYSTEM_REALM, LEASE_TYPE, after=prefix):
            if not row.key.startswith(prefix):
                return
            if self._is_free(row):
                self._shards.delete(row)

    # ── publishers ──────────────────────────────────────────────────────────────────────────────────────────

    def announce(self) -> None:
        """Say that this publisher lives, for as long as a lease lasts."""
        row = self._members.look(self.holder).row
        self._members.put(row, self._members.row(self.holder, self._record(), row), tries_max=1)

    def leave(self) -> None:
        row = self._members.look(self.holder).row
        if row is not None:
            self._members.delete(row)

    def members(self) -> list[str]:
        """Of all live publishers, in one order for all; the rows of dead ones are removed some time later."""
        live, now = [], self._clock.now_micros()
        for row in self._backend.list_mutable(SYSTEM_REALM, MEMBER_TYPE, limit=MEMBERS_MAX):
            if row.expires_at > now:
                live.append(row.key)
            elif row.expires_at < now - FORGET_SECONDS * MICROS:
                self._members.delete(row)
        return sorted(live)

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def _record(self) -> LeaseRecord:
        return LeaseRecord(self.holder, host=socket.gethostname(), pid=os.getpid())

    def _is_free(self, row: MutableRow) -> bool:
        """Also what is our own by the row but not in our hands: its answer never came."""
        return row.expires_at <= self._clock.now_micros() or record_of(row).holder in ("", self.holder)


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
