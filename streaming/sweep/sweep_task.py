"""Deletes from one split of the objects table the rows that nothing reaches and that are old enough, and counts them.

This is what runs for each split, on a thread or on a Spark worker: it knows no store but the one it is given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.coordination.work_leases import LeaseClaim
from headwater.persistence.objects.object_types import owner_id
from headwater.persistence.rows import ScannedRow, Split
from headwater.schemas.errors import HeadwaterError, MaintenanceRefused
from headwater.streaming.retained.retained_filter import RetainedFilter, kept_of
from headwater.streaming.runs.runs import Counts, CountsByRealm

DELETE_BATCH_ROWS = 500
DELETE_TRIES_MAX = 3
SAMPLE_ROWS = 20
FAILURES_TOLD = 20
CHUNK_ROWS = 2_000


class RealmToSweep(msgspec.Struct, frozen=True, kw_only=True):
    created_before: int
    """Microseconds: T minus the grace."""
    types: frozenset[str]
    """⚠ The only types that may be purged: known types about which identifiers and the retained set decide, and those that go
    by age alone; never a mutable one."""


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker needs besides the store and the filter."""

    realms: dict[str, RealmToSweep]
    purging: frozenset[str] = frozenset()
    """⚠ Instances that are PURGING, which is final: all their objects go."""
    dry_run: bool = False
    rows_per_second: float = 0.0
    """Rows scanned per second by one task; 0 is not a limit."""
    deletes_per_second: float = 0.0
    claim: LeaseClaim | None = None
    """⚠ The run's lease: each batch is deleted only while it holds, wherever the worker is."""


class Garbage(msgspec.Struct, frozen=True, array_like=True):
    """A row that goes, or would go."""

    realm: str
    type: str
    id: int
    part: int
    created_at: int


class SplitResult(msgspec.Struct, kw_only=True):
    counts: CountsByRealm = {}
    sample: list[Garbage] = []
    failures: list[str] = []

    def of(self, realm: str, type: str) -> Counts:
        return self.counts.setdefault(realm, {}).setdefault(type, Counts())

    def merge(self, other: SplitResult) -> None:
        for realm, by_type in other.counts.items():
            for name, counts in by_type.items():
                self.of(realm, name).add(counts)
        self.sample = [*self.sample, *other.sample][:SAMPLE_ROWS]
        self.failures = [*self.failures, *other.failures][:100]


class RateLimit:
    """At most this many per second, over all threads that share it. No limit at 0."""

    def __init__(
        self,
        per_second: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = monotonic()

    def wait(self, count: int) -> float:
        """Seconds spent sleeping."""
        if not self._per_second or not count:
            return 0.0
        with self._lock:
            start = max(self._free_at, self._monotonic())
            self._free_at = start + count / self._per_second
        pause = start - self._monotonic()
        if pause > 0:
            self._sleep(pause)
        return max(pause, 0.0)


class Removal:
    """Takes rows that nothing reaches, deletes each batch and counts it. Continues after single failures.

    ⚠ The run's lease is checked in the store before each attempt to delete. What is in progress when the run is superseded
    still goes: it was found unreachable, and only a restored backup can make an unreachable object reachable again. So each
    attempt applies only to the copy of the data in which the lease was checked, and a failed one is never repeated without a
    new check.
    """

    def __init__(
        self,
        backend: Backend,
        plan: SweepPlan,
        *,
        deleting: RateLimit | None = None,
        before_delete: Callable[[], None] | None = None,
    ) -> None:
        """`before_delete` raises if the sweep must not continue; a worker elsewhere checks the run's lease by itself."""
        self._backend = backend
        self._plan = plan
        self._deleting = deleting or RateLimit(plan.deletes_per_second)
        self._before_delete = before_delete or self._require_claim

    def remove(self, rows: Sequence[ScannedRow], result: SplitResult) -> None:
        """Rows that could not be deleted are counted as failed and are left for the next run."""
        sampled = rows[: SAMPLE_ROWS - len(result.sample)]
        result.sample = [*result.sample, *(Garbage(it.realm, it.type, it.id, it.part, it.created_at) for it in sampled)]
        for first in range(0, len(rows), DELETE_BATCH_ROWS):
            self._remove_batch(rows[first : first + DELETE_BATCH_ROWS], result)

    def _remove_batch(self, batch: Sequence[ScannedRow], result: SplitResult) -> None:
        if self._plan.dry_run:
            for row in batch:
                result.of(row.realm, row.type).would_purge += 1
            return
        self._deleting.wait(len(batch))
        copy = self._may_delete(batch, result)
        if copy is not None and self._delete_together(batch, copy, result) is not None:
            for row in batch:  # one of them cannot be deleted: find out which
                self._remove_one(row, result)

    def _remove_one(self, row: ScannedRow, result: SplitResult) -> None:
        error: HeadwaterError | None = None
        for _ in range(DELETE_TRIES_MAX):
            copy = self._may_delete([row], result)
            if copy is None:
                return
            error = self._delete_together([row], copy, result)
            if error is None:
                return
        result.of(row.realm, row.type).failed += 1
        if len(result.failures) < FAILURES_TOLD:
            result.failures.append(f"{row.realm} {row.type} {row.id}: {error}")

    def _require_claim(self) -> None:
        if self._plan.claim is not None:
            self._plan.claim.require(self._backend)

    def _may_delete(self, batch: Sequence[ScannedRow], result: SplitResult) -> str | None:
        """The copy of the data in which the lease holds. `MaintenanceSuperseded` ends the sweep; if the store does not answer,
        the batch is spared: None. ⚠ The copy is read first: if a restore comes in between, the lease is no longer held."""
        try:
            copy = self._backend.data_copy()
            self._before_delete()
        except MaintenanceRefused:
            raise
        except HeadwaterError as error:
            for row in batch:
                result.of(row.realm, row.type).failed += 1
            if len(result.failures) < FAILURES_TOLD:
                result.failures.append(f"the lease of the run could not be read: {error}")
            return None
        return copy

    def _delete_together(self, rows: Sequence[ScannedRow], copy: str, result: SplitResult) -> HeadwaterError | None:
        try:
            done = self._backend.delete_scanned(rows, of=copy)
        except HeadwaterError as error:
            return error
        self._count(rows, done.spared, result)
        return None

    def _count(self, rows: Sequence[ScannedRow], spared: int, result: SplitResult) -> None:
        """⚠ Spared rows were not deleted: rewritten since the scan, or already gone. The database does not say which, so as
        many are counted as newer."""
        for number, row in enumerate(rows):
            counts = result.of(row.realm, row.type)
            if number < spared:
                counts.newer += 1
            else:
                counts.purged += 1


class SplitSweep:
    """Scans, judges by a filter and deletes, all in one place."""

    def __init__(
        self,
        backend: Backend,
        plan: SweepPlan,
        retained: RetainedFilter,
        *,
        scanning: RateLimit | None = None,
        deleting: RateLimit | None = None,
        before_delete: Callable[[], None] | None = None,
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._backend = backend
        self._plan = plan
        self._retained = retained
        self._scanning = scanning or RateLimit(plan.rows_per_second)
        self._removal = Removal(backend, plan, deleting=deleting, before_delete=before_delete)
        self._on_rows = on_rows

    def run(self, split: Split) -> SplitResult:
        result = SplitResult()
        batch: list[ScannedRow] = []
        try:
            for chunk in scanned_chunks(self._backend, self._plan, split):
                self._scanning.wait(len(chunk))
                self._on_rows(len(chunk))
                batch += self._doomed(chunk, result)
                whole = len(batch) - len(batch) % DELETE_BATCH_ROWS
                self._removal.remove(batch[:whole], result)
                batch = batch[whole:]
        except MaintenanceRefused:
            raise
        except HeadwaterError as error:
            result.failures.append(scan_failure(split, error))
        self._removal.remove(batch, result)
        return result

    def _doomed(self, chunk: Sequence[ScannedRow], result: SplitResult) -> list[ScannedRow]:
        """Which rows go; the others are counted."""
        doomed = []
        for realm, group in groupby(chunk, key=lambda row: row.realm):
            rows = list(group)
            if realm in self._plan.purging:
                for row in rows:
                    result.of(realm, row.type).scanned += 1
                doomed += rows
                continue
            wanted = self._plan.realms[realm]
            for row, kept in zip(rows, kept_of(self._retained, realm, [owner_id(row.id) for row in rows]), strict=True):
                counts = result.of(realm, row.type)
                counts.scanned += 1
                if kept or row.type not in wanted.types:
                    counts.retained += 1
                elif row.created_at >= wanted.created_before:
                    counts.newer += 1
                else:
                    doomed.append(row)
        return doomed


def scanned_chunks(backend: Backend, plan: SweepPlan, split: Split) -> Iterator[list[ScannedRow]]:
    """Rows of the realms that are swept, about a thousand at a time; rows read before a failure are yielded before it
    here too."""
    wanted = plan.realms.keys() | plan.purging
    only_realm = next(iter(wanted)) if len(wanted) == 1 else None
    chunk: list[ScannedRow] = []
    try:
        for row in backend.scan(split, realm=only_realm):
            if row.realm in wanted:
                chunk.append(row)
            if len(chunk) == CHUNK_ROWS:
                yield chunk
                chunk = []
    except HeadwaterError:
        yield chunk
        raise
    yield chunk


def scan_failure(split: Split, error: HeadwaterError) -> str:
    return f"scan of {split.lower or 'the start'} to {split.upper or 'the end'}: {error}"
