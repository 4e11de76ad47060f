"""A maintenance operation enters; the right to run leaves, one at a time in the whole store, and a record of what it did.

Lease and records are rooted rows of `::system::`, moved by CAS. The lease is renewed on a thread of its own; the run asks
`check` before every batch it deletes. A run that died is followed by the next one when its lease has ended; one that seems to
live is superseded only by name.
"""

from __future__ import annotations

import enum
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, RootedRow
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import HeadwaterError, InvalidInput, MaintenanceRunning, MaintenanceSuperseded, OutcomeUnknown

RUN_TYPE = "maintenance-run"
LEASE_TYPE = "maintenance-lease"
LEASE_KEY = "run"
LEASE_SECONDS = 60.0
RUNS_KEPT = 50
WRITE_TRIES_MAX = 20
TYPES_MAX = 200
"""Types of one realm that a record tells apart; a row holds no more of many realms."""
REALMS_MAX = 500


class RunStatus(enum.StrEnum):
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    """Ended by an error; what it did is counted."""
    SUPERSEDED = "SUPERSEDED"
    ABANDONED = "ABANDONED"
    """Its process died; the next run has noticed."""


class Counts(msgspec.Struct, kw_only=True):
    """Rows. Nothing that was not deleted is counted as purged."""

    scanned: int = 0
    retained: int = 0
    newer: int = 0
    purged: int = 0
    failed: int = 0
    would_purge: int = 0
    """In a dry run, in the place of purged."""

    def add(self, other: Counts) -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


CountsByRealm = dict[str, dict[str, Counts]]


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
    skipped: dict[str, str] = {}
    """Realm → why nothing was done in it."""
    failures: list[str] = []
    """The first hundred."""
    retained_ids: int = 0
    """Sizes the next run's filter."""
    filter: str = ""
    false_positives: float = 0.0

    def totals(self) -> Counts:
        total = Counts()
        for by_type in self.counts.values():
            for counts in by_type.values():
                total.add(counts)
        return total


class _LeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    run: str


OBJECT_TYPES.register(ObjectType(LEASE_TYPE, _LeaseRecord, Life.ROOTED))


class Run:
    """What an operation holds while it works."""

    def __init__(self, runs: Runs, record: RunRecord, lease: RootedRow) -> None:
        self.record = record
        self._runs = runs
        self._lease = lease
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self._valid_until = time.monotonic() + runs.lease_seconds

    def check(self) -> None:
        """⚠ Before anything is deleted."""
        if self._lost.is_set():
            raise MaintenanceSuperseded(
                f"run {self.record.id} was superseded.", remedy="`headwater maintain runs` shows by whom."
            )

    def renew(self) -> None:
        with self._renewing:
            valid_until = time.monotonic() + self._runs.lease_seconds
            renewed = self._runs.lease_row(self.record.id, self._lease)
            if self._runs.put(self._lease, renewed):
                self._lease, self._valid_until = renewed, valid_until
            else:
                self._lost.set()

    def keep(self) -> None:
        """On a thread: renew until the end."""
        while not self._ended.wait(self._runs.lease_seconds / 3):
            try:
                self.renew()
            except HeadwaterError:  # the store is away: the lease runs out by itself
                continue
            if self._lost.is_set():
                return

    def end(self) -> None:
        self._ended.set()
        with self._renewing:
            if not self._lost.is_set():
                self._runs.release(self._lease)


class Runs:
    def __init__(self, backend: Backend, clock: Clock, *, lease_seconds: float = LEASE_SECONDS, kept: int = RUNS_KEPT) -> None:
        self.lease_seconds = lease_seconds
        self._backend = backend
        self._clock = clock
        self._kept = kept

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def run(self, operation: str, *, dry_run: bool = False, supersede: str | None = None) -> Iterator[Run]:
        """`MaintenanceRunning` while another one is at it."""
        run = self._start(operation, dry_run, supersede)
        keeper = threading.Thread(target=run.keep, name=f"maintenance-lease-{run.record.id}", daemon=True)
        keeper.start()
        status = RunStatus.FAILED
        try:
            yield run
            run.check()
            status = RunStatus.DONE
        except MaintenanceSuperseded:
            status = RunStatus.SUPERSEDED
            raise
        except Exception as error:
            run.record.failures = [*run.record.failures, str(error)][:100]
            raise
        finally:
            run.end()
            keeper.join(timeout=10)
            run.record.status = status
            run.record.finished = time_text(self._clock.now_micros())
            self.save(run.record)
            self._drop_old()

    def _start(self, operation: str, dry_run: bool, supersede: str | None) -> Run:
        run_id = f"{self._clock.now_micros():016x}-{secrets.token_hex(4)}"
        before = self._backend.read_rooted(SYSTEM_REALM, LEASE_TYPE, LEASE_KEY)
        holder = "" if before is None else msgspec.msgpack.decode(before.payload, type=_LeaseRecord).run
        held = before is not None and bool(holder) and before.expires_at > self._clock.now_micros()
        if supersede is not None and supersede != holder:
            raise InvalidInput(
                f"{supersede!r} is not running{f', {holder} is' if held else ''}.",
                field="supersede",
                remedy="`headwater maintain runs` shows the one that is.",
            )
        if held and supersede is None:
            raise self._running(holder, before)
        lease = self.lease_row(run_id, before)
        if not self.put(before, lease):
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
        return Run(self, record, lease)

    def _running(self, holder: str, row: RootedRow | None) -> MaintenanceRunning:
        until = f", its lease until {time_text(row.expires_at)}" if row is not None else ""
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

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, run_id: str) -> RunRecord | None:
        row = self._backend.read_rooted(SYSTEM_REALM, RUN_TYPE, run_id)
        return None if row is None else msgspec.msgpack.decode(row.payload, type=RunRecord)

    def list(self) -> list[RunRecord]:
        """Newest first."""
        rows = self._backend.list_rooted(SYSTEM_REALM, RUN_TYPE, limit=1_000)
        return [msgspec.msgpack.decode(row.payload, type=RunRecord) for row in reversed(rows)]

    def save(self, record: RunRecord) -> None:
        """Progress too: the counts so far."""
        payload = msgspec.msgpack.encode(_fitting(record))
        for _ in range(WRITE_TRIES_MAX):
            before = self._backend.read_rooted(SYSTEM_REALM, RUN_TYPE, record.id)
            row = RootedRow(
                type=RUN_TYPE,
                key=record.id,
                version=1 if before is None else before.version + 1,
                created_at=self._clock.now_micros() if before is None else before.created_at,
                payload=payload,
            )
            if self.put(before, row):
                return

    def _drop_old(self) -> None:
        rows = self._backend.list_rooted(SYSTEM_REALM, RUN_TYPE, limit=1_000)
        for row in rows[: max(0, len(rows) - self._kept)]:
            self._backend.delete_rooted(SYSTEM_REALM, RUN_TYPE, row.key, row.version)

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def lease_row(self, run_id: str, before: RootedRow | None) -> RootedRow:
        now = self._clock.now_micros()
        return RootedRow(
            type=LEASE_TYPE,
            key=LEASE_KEY,
            version=1 if before is None else before.version + 1,
            created_at=now if before is None else before.created_at,
            expires_at=now + int(self.lease_seconds * 1_000_000) if run_id else now,
            payload=msgspec.msgpack.encode(_LeaseRecord(run_id)),
        )

    def release(self, lease: RootedRow) -> None:
        self.put(lease, self.lease_row("", lease))

    def put(self, before: RootedRow | None, row: RootedRow) -> bool:
        try:
            if before is None:
                return self._backend.insert_rooted(SYSTEM_REALM, row)
            return self._backend.update_rooted(SYSTEM_REALM, before.version, row)
        except OutcomeUnknown:
            return self._backend.read_rooted(SYSTEM_REALM, row.type, row.key) == row


def _fitting(record: RunRecord) -> RunRecord:
    """What fits one row: of very many realms the rest is added up under one name."""
    counts: CountsByRealm = {}
    for number, (realm, by_type) in enumerate(record.counts.items()):
        into = counts.setdefault(realm if number < REALMS_MAX else "(others)", {})
        for place, (name, found) in enumerate(by_type.items()):
            into.setdefault(name if place < TYPES_MAX and number < REALMS_MAX else "(others)", Counts()).add(found)
    return msgspec.structs.replace(record, counts=counts, failures=[line[:500] for line in record.failures[:100]])
