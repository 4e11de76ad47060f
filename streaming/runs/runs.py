"""Runs one maintenance operation at a time in the whole store, and records what it did.

Records are mutable rows of `::system::`, moved by CAS. The run calls `check` before every row it changes and every batch it
deletes; the store answers, so that a run that was superseded stops there. A run that died is followed by the next one when its
lease has ended; one that seems to be alive is superseded only by name. What a run has done is added to the totals when it ends.
"""

from __future__ import annotations

import enum
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import change_row, delete_row
from headwater.persistence.coordination.incarnation import ensure_incarnation
from headwater.persistence.coordination.work_leases import LEASE_SECONDS, HeldLease, SeenLease, WorkLeases
from headwater.persistence.rows import ROW_BYTES_MAX, SYSTEM_REALM
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput, MaintenanceRunning, MaintenanceStopped, MaintenanceSuperseded
from headwater.streaming.runs.run_counts import Counts as Counts
from headwater.streaming.runs.run_counts import CountsByRealm as CountsByRealm
from headwater.streaming.runs.run_counts import FileCounts as FileCounts
from headwater.streaming.runs.run_counts import folded, folded_files
from headwater.streaming.runs.run_totals import RunTotals

RUN_TYPE = "maintenance-run"
LEASE_KEY = "run"
RUNS_KEPT = 50
REALMS_TOLD_APART_MAX = 500
"""In one record, or fewer if it would not fit a row."""


class RunStatus(enum.StrEnum):
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    """Ended by an error; what it did is counted."""
    SUPERSEDED = "SUPERSEDED"
    ABANDONED = "ABANDONED"
    """Its process died; the next run has noticed."""
    STOPPED = "STOPPED"
    """Its process was asked to stop; the rest is for the next run."""


class RunRecord(msgspec.Struct, kw_only=True):
    """The row's payload. New fields need a default."""

    id: str
    operation: str
    status: RunStatus = RunStatus.RUNNING
    dry_run: bool = False
    started: str
    finished: str = ""
    host: str = ""
    pid: int = 0
    counts: CountsByRealm = {}
    files: dict[str, FileCounts] = {}
    """Realm instance → the tables' files that the run has listed, kept and deleted."""
    skipped: dict[str, str] = {}
    """Realm → why nothing was done in it."""
    failures: list[str] = []
    """The first hundred."""
    retained_ids: int = 0
    """Sizes the next run's filter."""
    filter: str = ""
    false_positives: float = 0.0
    kept_since: dict[str, int] = {}
    """In an expiry: realm instance → how far back its feed reaches now, in microseconds."""

    def totals(self) -> Counts:
        total = Counts()
        for by_type in self.counts.values():
            for counts in by_type.values():
                total.add(counts)
        return total


class Run:
    """What an operation holds while it works."""

    def __init__(self, record: RunRecord, lease: HeldLease, is_stopping: Callable[[], bool]) -> None:
        self.record = record
        self.lease = lease
        self._is_stopping = is_stopping

    def check(self) -> None:
        """⚠ Called before anything is changed or deleted: asks the store whether this run still holds its lease."""
        if self.lease.is_lost():
            raise MaintenanceSuperseded(
                f"run {self.record.id} was superseded, or the store was restored under it.",
                remedy="`headwater maintain runs` shows what runs now. After a restore, start it again.",
            )
        if self._is_stopping():
            raise MaintenanceStopped(f"run {self.record.id} was asked to end.", remedy="The next run does the rest.")

    def renew(self) -> None:
        self.lease.renew()


class Runs:
    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        *,
        lease_seconds: float = LEASE_SECONDS,
        kept: int = RUNS_KEPT,
        lease_key: str = LEASE_KEY,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._leases = WorkLeases(backend, clock, lease_seconds)
        self._totals = RunTotals(backend, clock)
        self._is_stopping = is_stopping
        self._backend = backend
        self._clock = clock
        self._kept = kept
        self._lease_key = lease_key
        """Runs with the same key exclude each other; other keys are independent: hours of deleting files must not keep history
        from expiring."""

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def run(self, operation: str, *, dry_run: bool = False, supersede: str | None = None) -> Iterator[Run]:
        """`MaintenanceRunning` while another run is in progress."""
        run = self._start(operation, dry_run, supersede)
        run.lease.keep()
        status = RunStatus.FAILED
        try:
            yield run
            run.check()
            status = RunStatus.DONE
        except MaintenanceSuperseded:
            status = RunStatus.SUPERSEDED
            raise
        except MaintenanceStopped:
            status = RunStatus.STOPPED
            raise
        except Exception as error:
            run.record.failures = [*run.record.failures, str(error)][:100]
            raise
        finally:
            run.lease.release()
            run.record.status = status
            run.record.finished = time_text(self._clock.now_micros())
            self.save(run.record)
            self._totals.add(run.record)
            self._drop_old()

    def end_own(self) -> str:
        """⚠ When the process ends while one of its threads is still in a run: gives up the lease, so that the next run need not
        wait until it expires. The thread changes nothing more, because it checks its lease first. Returns the run's id, or
        nothing."""
        seen = self._leases.look(LEASE_KEY)
        record = self.find(seen.holder) if seen.is_held else None
        if record is None or (record.host, record.pid) != (socket.gethostname(), os.getpid()):
            return ""
        lease = self._leases.take(LEASE_KEY, f"{record.id}-ended", seen)
        if lease is None:  # it has just ended
            return ""
        self._close(record.id, RunStatus.STOPPED)
        lease.release()
        return record.id

    def _start(self, operation: str, dry_run: bool, supersede: str | None) -> Run:
        run_id = f"{self._clock.now_micros():016x}-{secrets.token_hex(4)}"
        seen = self._leases.look(self._lease_key)
        holder, held = seen.holder, seen.is_held
        if supersede is not None and supersede != holder:
            raise InvalidInput(
                f"{supersede!r} is not running{f', {holder} is' if held else ''}.",
                field="supersede",
                remedy="`headwater maintain runs` shows the one that is.",
            )
        if held and supersede is None:
            raise self._running(holder, seen)
        incarnation = ensure_incarnation(self._backend, self._clock).id
        lease = self._leases.take(self._lease_key, run_id, seen, incarnation=incarnation)
        if lease is None:
            raise self._running("another one", None)
        if holder:
            self._close(holder, RunStatus.SUPERSEDED if held else RunStatus.ABANDONED)
        record = RunRecord(
            id=run_id,
            operation=operation,
            dry_run=dry_run,
            started=time_text(self._clock.now_micros()),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self.save(record)
        return Run(record, lease, self._is_stopping)

    def _running(self, holder: str, seen: SeenLease | None) -> MaintenanceRunning:
        until = f", its lease until {time_text(seen.until)}" if seen is not None else ""
        return MaintenanceRunning(
            f"maintenance run {holder} is at work{until}.",
            field="run",
            remedy=f"Wait for it, or replace it with --supersede {holder}.",
            run=holder,
        )

    def _close(self, run_id: str, status: RunStatus) -> None:
        record = self.find(run_id)
        if record is not None and record.status is RunStatus.RUNNING:
            record.status = status
            record.finished = time_text(self._clock.now_micros())
            self.save(record)
            self._totals.add(record)

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, run_id: str) -> RunRecord | None:
        row = self._backend.read_mutable(SYSTEM_REALM, RUN_TYPE, run_id)
        return None if row is None else msgspec.msgpack.decode(row.payload, type=RunRecord)

    def list(self) -> list[RunRecord]:
        """Newest first."""
        rows = self._backend.list_mutable(SYSTEM_REALM, RUN_TYPE, limit=1_000)
        return [msgspec.msgpack.decode(row.payload, type=RunRecord) for row in reversed(rows)]

    def save(self, record: RunRecord) -> None:
        """Progress too: the counts so far."""
        payload = _fitting(record)
        change_row(self._backend, SYSTEM_REALM, RUN_TYPE, record.id, lambda _: payload, self._clock)

    def _drop_old(self) -> None:
        rows = self._backend.list_mutable(SYSTEM_REALM, RUN_TYPE, limit=1_000)
        for row in rows[: max(0, len(rows) - self._kept)]:
            delete_row(self._backend, SYSTEM_REALM, row, self._clock)


def _fitting(record: RunRecord) -> bytes:
    """Fits the record into one row: with very many realms the rest is added up under one name."""
    fitting = msgspec.structs.replace(record, failures=[line[:500] for line in record.failures[:100]])
    realms_max = REALMS_TOLD_APART_MAX
    fitting.counts, fitting.files = folded(record.counts, realms_max), folded_files(record.files, realms_max)
    while len(payload := msgspec.msgpack.encode(fitting)) > ROW_BYTES_MAX and realms_max:
        realms_max //= 2
        fitting.counts, fitting.files = folded(record.counts, realms_max), folded_files(record.files, realms_max)
        fitting.skipped = dict(list(record.skipped.items())[:realms_max])
        fitting.kept_since = dict(list(record.kept_since.items())[:realms_max])
    return payload
