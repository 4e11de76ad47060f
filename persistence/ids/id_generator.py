"""Generates object ids under a node lease: each once, each later than the one before, none outside the lease.

Renewal happens in passing, in a call for an id when a quarter of the lease is left (15 minutes of an hour); the others go
on meanwhile. A lease that was lost stops the call that notices; the next call leases a new node.
"""

from __future__ import annotations

import os
import threading
import weakref

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.ids.node_leases import NodeLease, NodeLeases
from headwater.persistence.ids.snowflake import EPOCH_MS, IDS_PER_MS, id_base
from headwater.schemas.errors import (
    ClockMovedBackwards,
    IdGenerationStopped,
    NodeLeaseLost,
    OutcomeUnknown,
    StoreUnavailable,
)

CLOCK_BACK_MS_MAX = 1_000
"""A clock that was set back by no more than this is waited for; by more it is an error."""
RENEW_LEFT = 4
"""Renewed when one part in this many of the lease is left."""
_RENEW_AGAIN_MS = 5_000
"""After a renewal that the store did not answer."""

_SOURCES: weakref.WeakSet[IdGenerator] = weakref.WeakSet()


class IdGenerator:
    """Call it for an id, `take` for a block. Thread-safe. Close it to free its node at once."""

    def __init__(self, leases: NodeLeases) -> None:
        self._leases = leases
        self._clock: Clock = leases.clock
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._pid = os.getpid()
        self._stopped: str | None = None
        self._lease: NodeLease | None = None
        self._renew_at_ms = 0
        self._ms = -1
        """Millisecond of the newest id; never goes back."""
        self._base = 0
        self._next = IDS_PER_MS
        """Next sequence number of that millisecond; at IDS_PER_MS the fast path ends."""
        self._use(leases.acquire())
        _SOURCES.add(self)

    @property
    def lease(self) -> NodeLease | None:
        return self._lease

    def __enter__(self) -> IdGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self) -> int:
        with self._lock:
            sequence = self._next
            if sequence < IDS_PER_MS and self._clock.now_micros() // 1_000 - EPOCH_MS == self._ms:
                self._next = sequence + 1
                return self._base + sequence
        return self.take(1)[0]

    def take(self, count: int) -> list[int]:
        """That many ids in ascending order, waiting for further milliseconds if it takes more than one."""
        with self._lock:
            first = self._next
            if first + count <= IDS_PER_MS and self._clock.now_micros() // 1_000 - EPOCH_MS == self._ms:
                self._next = first + count  # the lease was checked for the newest id, in the same millisecond
                return list(range(self._base + first, self._base + first + count))
        ids: list[int] = []
        waited_seconds, waited_at_ms = 0.0, self._ms
        while len(ids) < count:
            self._keep_lease()
            with self._lock:
                block = self._block(count - len(ids))
            ids.extend(block)
            if len(ids) < count:
                if self._ms != waited_at_ms:  # time continues, even if other threads took all of it
                    waited_seconds, waited_at_ms = 0.0, self._ms
                waited_seconds += self._wait(waited_seconds)
        return ids

    def close(self) -> None:
        """Free the node. In a forked child nothing is freed: the lease is the parent's."""
        with self._lock:
            lease, mine = self._lease, self._stopped is None and self._pid == os.getpid()
            self._stop("this source of ids was closed.")
            used_until_ms = self._ms + 1
        if lease is not None and mine:
            try:
                self._leases.release(lease, used_until_ms)
            except (StoreUnavailable, OutcomeUnknown):
                return  # a courtesy only: the lease ends by itself

    def renounce(self) -> None:
        """The store was restored and may have leased this node to another process: the next id is made under a new lease."""
        with self._lock:
            self._lease, self._next = None, IDS_PER_MS

    # ── under the lock ──────────────────────────────────────────────────────────────────────────────────────

    def _block(self, count: int) -> range:
        """As many ids as the present millisecond still has, or none while the clock is at or before the last one used up."""
        lease = self._lease
        if self._stopped is not None or lease is None:
            raise NodeLeaseLost(self._stopped or "the node lease was lost.", remedy="Try again, or open the store again.")
        now_ms = self._now_ms()
        if now_ms < self._ms:
            self._check_step_back(now_ms)
            return range(0)
        if now_ms >= lease.ends_ms:
            return range(0)  # it ran out since it was checked: the caller checks it again
        if now_ms > self._ms:
            self._ms, self._base, self._next = now_ms, id_base(now_ms, lease.node), 0
        first = self._base + self._next
        self._next = min(self._next + count, IDS_PER_MS)
        return range(first, self._base + self._next)

    def _check_step_back(self, now_ms: int) -> None:
        if self._ms - now_ms > CLOCK_BACK_MS_MAX:
            raise ClockMovedBackwards(
                f"the clock is {self._ms - now_ms} ms behind the last id.",
                remedy="Set the clock right, or wait until it has caught up.",
                behind_ms=self._ms - now_ms,
            )

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or why
        self._next = IDS_PER_MS

    def _use(self, lease: NodeLease) -> None:
        if self._lease is None or self._lease.holder != lease.holder:
            # Nothing before the lease, and nothing before the last id of an earlier lease.
            self._ms = max(self._ms, lease.starts_ms - 1)
            self._next = IDS_PER_MS
        self._lease = lease
        self._renew_at_ms = lease.ends_ms - min(self._leases.lease_ms, lease.ends_ms - lease.starts_ms) // RENEW_LEFT

    # ── the lease ───────────────────────────────────────────────────────────────────────────────────────────

    def _keep_lease(self) -> None:
        """Renew it when that is due; lease a new node when the old one was lost."""
        if self._pid != os.getpid():
            self._after_fork()
        lease = self._lease
        if self._stopped is not None or (lease is not None and self._now_ms() < self._renew_at_ms):
            return
        still_good = lease is not None and self._now_ms() < lease.ends_ms
        if not self._renewing.acquire(blocking=not still_good):
            return
        try:
            if self._lease is lease:
                self._renew_or_acquire(lease, still_good)
        finally:
            self._renewing.release()

    def _renew_or_acquire(self, lease: NodeLease | None, still_good: bool) -> None:
        try:
            renewed = self._leases.acquire() if lease is None else self._leases.renew(lease)
        except NodeLeaseLost:
            with self._lock:
                self._lease, self._next = None, IDS_PER_MS
            raise
        except (StoreUnavailable, OutcomeUnknown) as error:
            if not still_good:
                raise NodeLeaseLost(
                    f"the node lease ended and could not be renewed: {error}", remedy="Try again when the store answers."
                ) from error
            if lease is not None:
                self._renew_at_ms = min(self._now_ms() + _RENEW_AGAIN_MS, lease.ends_ms)
            return
        with self._lock:
            if self._stopped is None:
                self._use(renewed)
                return
        self._leases.release(renewed, self._ms + 1)  # closed in the meantime

    def _wait(self, waited_seconds: float) -> float:
        """Wait until the clock has passed the last id; the wait for a clock that stands still is bounded."""
        if waited_seconds > 2 * CLOCK_BACK_MS_MAX / 1_000:
            raise IdGenerationStopped("the clock stands still.", remedy="Set the clock right.", waited_seconds=waited_seconds)
        behind_micros = (self._ms + 1 + EPOCH_MS) * 1_000 - self._clock.now_micros()
        seconds = min(max(behind_micros, 50), 50_000) / MICROS
        self._clock.sleep(seconds)
        return seconds

    def _now_ms(self) -> int:
        return self._clock.now_micros() // 1_000 - EPOCH_MS

    def _after_fork(self) -> None:
        """In the child: locks may have been held by threads that are not here, and the lease is the parent's."""
        self._lock, self._renewing = threading.Lock(), threading.Lock()
        self._stop("this process was forked: the node lease belongs to its parent.")


def _stop_in_child() -> None:
    for source in list(_SOURCES):
        source._after_fork()


os.register_at_fork(after_in_child=_stop_in_child)
