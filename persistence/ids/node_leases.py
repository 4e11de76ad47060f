"""Leases one of 1024 node numbers to a process for a time.

A lease is a mutable row of `::system::`, moved by CAS only. Its sections never overlap: a new lessee begins where the old one
had to end, by the old one's own row, so no two of them can make the same id whatever their clocks say of each other. For the
same reason rows are never deleted: `expires_at` of an ended or released lease is the bound that the next lessee begins after.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import socket
import uuid
from collections.abc import Callable, Iterator

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock, SystemClock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.ids.snowflake import EPOCH_MS, NODES, TIME_MS_MAX
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import AllNodesTaken, ClockMovedBackwards, IdGenerationStopped, NodeLeaseLost, StoreUnavailable

LEASE_TYPE = "node-lease"
LEASE_SECONDS = 3_600

_CAS_ATTEMPTS_MAX = 6
_ROUNDS_MAX = 8
"""How often all nodes are listed again when others keep winning the free ones."""

_EARLY_MICROS_MAX = 5 * MICROS
"""What a process waits for after a restore: two seconds, and clocks that differ a little."""
_NEARLY_MICROS = 2_000
"""A lease that ends this soon is waited for, so that closing and reopening at once does not fail for lack of a node."""


class NodeLease(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of `node` with `starts_ms` <= time < `ends_ms` (milliseconds since 2025-03-01) belong to `holder` alone."""

    node: int
    holder: str
    starts_ms: int
    ends_ms: int


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload; holder is empty when the lease was released."""

    holder: str
    starts_ms: int
    host: str
    pid: int


class NodeLeases:
    """Acquires, renews and releases leases in one store."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock | None = None,
        *,
        lease_seconds: int = LEASE_SECONDS,
        nodes: int = NODES,
        host: str | None = None,
        rng: random.Random | None = None,
        ids_from: Callable[[], int] = lambda: 0,
    ) -> None:
        self._backend = backend
        self.clock = clock or SystemClock()
        self.lease_ms = lease_seconds * 1_000
        self._nodes = nodes
        self._ids_from = ids_from
        self._host = host or socket.gethostname()
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, keeps no secret

    def acquire(self) -> NodeLease:
        """A free node, or `AllNodesTaken` with the time when the first one becomes free."""
        holder = uuid.uuid4().hex
        self._wait_for_incarnation()
        for node in self._candidates():
            lease = self._try(node, self._backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, _key(node)), holder)
            if lease is not None:
                return lease
        for _ in range(_ROUNDS_MAX):
            rows = {row.key: row for row in self._rows()}
            free = [node for node in range(self._nodes) if self._is_free(rows.get(_key(node)))]
            if not free:
                raise _all_taken(self._nodes, min(row.expires_at for row in rows.values()))
            for node in self._rng.sample(free, len(free)):
                lease = self._try(node, rows.get(_key(node)), holder)
                if lease is not None:
                    return lease
        raise IdGenerationStopped(f"other processes won every free node, {_ROUNDS_MAX} times over.", remedy="Try again.")

    def renew(self, lease: NodeLease) -> NodeLease:
        """The same node for longer. `NodeLeaseLost` if another holds it now; also a lease that ran out can be renewed
        as long as nobody took the node."""
        row = self._own_row(lease)
        now_ms = self._now_ms()
        ends_ms = min(max(lease.ends_ms, now_ms + self.lease_ms), TIME_MS_MAX + 1)
        renewed = msgspec.structs.replace(row, version=row.version + 1, expires_at=_micros(ends_ms))
        if not self._put(row, renewed):
            raise _lost(lease)
        return msgspec.structs.replace(lease, ends_ms=ends_ms)

    def release(self, lease: NodeLease, used_until_ms: int) -> None:
        """Free the node at once for ids after `used_until_ms`, the first millisecond that was not used."""
        bound_ms = min(max(used_until_ms, lease.starts_ms), lease.ends_ms)
        try:
            for _ in range(_CAS_ATTEMPTS_MAX):
                row = self._own_row(lease)
                record = _Record("", lease.starts_ms, self._host, os.getpid())
                released = msgspec.structs.replace(
                    row, version=row.version + 1, expires_at=_micros(bound_ms), payload=msgspec.msgpack.encode(record)
                )
                if self._put(row, released):
                    return
        except NodeLeaseLost:
            return

    def _wait_for_incarnation(self) -> None:
        """⚠ The rows of a restored store know nothing of leases that were taken after the backup: who held one may continue for
        a moment, and ids that it made may be known elsewhere. ⚠ Who noticed the restore may have a clock that is ahead, or this
        one may be behind: that is said, and not waited for by the hour."""
        early_micros = self._ids_from() - self.clock.now_micros()
        if early_micros > _EARLY_MICROS_MAX:
            raise ClockMovedBackwards(
                f"the clock is {early_micros // 1_000} ms behind the store's incarnation, before which no ids are made.",
                remedy="Set the clock right; if this one is, run `store restored` again, here.",
                behind_ms=early_micros // 1_000,
            )
        if early_micros > 0:
            self.clock.sleep(early_micros / MICROS)

    # ── one node ────────────────────────────────────────────────────────────────────────────────────────────

    def _try(self, node: int, row: MutableRow | None, holder: str) -> NodeLease | None:
        if not self._is_free(row):
            return None
        # After the bound of the last lessee, whichever clock set it.
        starts_ms = max(self._now_ms(), _ms_after(row.expires_at) if row else 0)
        ends_ms = min(starts_ms + self.lease_ms, TIME_MS_MAX + 1)
        payload = msgspec.msgpack.encode(_Record(holder, starts_ms, self._host, os.getpid()))
        taken = next_row(LEASE_TYPE, _key(node), row, payload, self.clock.now_micros(), expires_at=_micros(ends_ms))
        if not self._put(row, taken):
            return None
        return NodeLease(node=node, holder=holder, starts_ms=starts_ms, ends_ms=ends_ms)

    def _is_free(self, row: MutableRow | None) -> bool:
        return row is None or row.expires_at <= self.clock.now_micros() + _NEARLY_MICROS

    def _own_row(self, lease: NodeLease) -> MutableRow:
        row = self._backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, _key(lease.node))
        if row is None or msgspec.msgpack.decode(row.payload, type=_Record).holder != lease.holder:
            raise _lost(lease)
        return row

    def _put(self, before: MutableRow | None, row: MutableRow) -> bool:
        """The row carries the holder's token, so ours is recognized. A store that is away for a moment is waited for."""
        for attempt in range(1, _CAS_ATTEMPTS_MAX):
            try:
                return self._cas(before, row)
            except StoreUnavailable:
                self.clock.sleep(0.01 * 2**attempt * self._rng.uniform(0.5, 1.0))
        return self._cas(before, row)

    def _cas(self, before: MutableRow | None, row: MutableRow) -> bool:
        return cas_row(self._backend, SYSTEM_REALM, before, row, self.clock, has_token=True, tries_max=_CAS_ATTEMPTS_MAX)

    # ── all nodes ───────────────────────────────────────────────────────────────────────────────────────────

    def _candidates(self) -> Iterator[int]:
        """First the one that this process hashes to, then a few at random: most often one read finds a free node."""
        digest = hashlib.sha256(f"{self._host}/{os.getpid()}".encode()).digest()
        yield int.from_bytes(digest[:8]) % self._nodes
        for _ in range(3):
            yield self._rng.randrange(self._nodes)

    def _rows(self) -> list[MutableRow]:
        rows: list[MutableRow] = []
        while len(rows) < self._nodes:
            page = self._backend.list_mutable(SYSTEM_REALM, LEASE_TYPE, after=rows[-1].key if rows else "", limit=self._nodes)
            if not page:
                break
            rows += page
        return rows

    def _now_ms(self) -> int:
        now_ms = self.clock.now_micros() // 1_000 - EPOCH_MS
        if not 0 <= now_ms <= TIME_MS_MAX:
            raise IdGenerationStopped(
                f"the clock says {now_ms} ms since 2025-03-01, which ids cannot hold.", remedy="Set the clock right."
            )
        return now_ms


def _key(node: int) -> str:
    return f"{node:04d}"


def _micros(time_ms: int) -> int:
    return (time_ms + EPOCH_MS) * 1_000


def _ms_after(micros: int) -> int:
    """The first whole millisecond at or after that time."""
    return -(-micros // 1_000) - EPOCH_MS


def _lost(lease: NodeLease) -> NodeLeaseLost:
    return NodeLeaseLost(
        f"node {lease.node} is leased to another process by now.", remedy="Try again: a new node is leased.", node=lease.node
    )


def _all_taken(nodes: int, expires_at: int) -> AllNodesTaken:
    when = dt.datetime.fromtimestamp(expires_at / MICROS, dt.UTC).isoformat(timespec="seconds")
    return AllNodesTaken(
        f"all {nodes} node ids are leased; the first comes free at {when}.",
        remedy="Stop a process that makes ids, or wait until then.",
        earliest_expires_at=expires_at,
    )
