"""Reconciles one connector once, under its lease: opens the source, runs the bridge, records the job."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.work_leases import HeldLease, LeaseRecord, WorkLeases
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.store import RealmKernel
from headwater.producer.connectors.connector_records import Connector, Connectors, ConnectorStatus
from headwater.producer.connectors.log_bridge import LogBridge
from headwater.producer.connectors.poll_bridge import PollBridge
from headwater.producer.connectors.polled_names import Scope, scope_refused
from headwater.producer.connectors.polled_state import SeenTags
from headwater.producer.connectors.reconcile_jobs import ENDED, Job, JobState, ReconcileJobs, Tally
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import AnySource, LogSource, SourceFactories
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import (
    Conflict,
    HeadwaterError,
    InvalidInput,
    MaintenanceStopped,
    MaintenanceSuperseded,
    RecordNotFound,
    SourceRefused,
)
from headwater.service.reconciling.source_factories import ReconcileOptions, content_check
from headwater.service.reconciling.source_secrets import read_secret

LEASE_TYPE = "reconcile-lease"
PROGRESS_SECONDS = 2.0
"""How often a running job's row is written, and read for a wish to cancel it."""
BACKOFF_SECONDS_MAX = 3_600
OBSERVE_WAIT_SECONDS = 10.0
ERROR_CHARACTERS_MAX = 1_000

_log = logging.getLogger(__name__)

OBJECT_TYPES.register(ObjectType(LEASE_TYPE, LeaseRecord, Life.MUTABLE))


class ReconcileRun:
    """For one connector; `tags` is what the process remembers of a polled source between two runs. After `turn_seconds` it
    leaves its slot to others, and continues in its next turn."""

    def __init__(
        self,
        kernel: RealmKernel,
        connector: Connector,
        factories: SourceFactories,
        options: ReconcileOptions,
        *,
        stopping: threading.Event,
        tags: SeenTags,
        requested_by: str = "",
        turn_seconds: float = math.inf,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kernel = kernel
        self._connector = connector
        self._factories = factories
        self._options = options
        self._stopping = stopping
        self._tags = tags
        self._requested_by = requested_by
        self._turn_seconds = turn_seconds
        self._turn_ends: float | None = None
        self._monotonic = monotonic
        self._jobs = ReconcileJobs(kernel, kept_seconds=options.job_days * 86_400)
        self._tally = Tally()
        self._written_at = monotonic()
        self._is_cancelled = False
        self._is_removed = False
        self._is_cut_short = False
        self._reached: KeyPath = ()

    def run(self, *, now: bool = False) -> Job | None:
        """The job that ended; None if there was nothing to do, or another process is at it. `now` does not wait until the
        connector's next turn."""
        lease = self._take()
        if lease is None:
            return None
        lease.keep()
        try:
            return self._under(lease, now)
        finally:
            lease.release()

    def observe(self, key: KeyPath) -> int:
        """One table of the source now, or all that is new of a source with a log, which keeps its order. How many commits that
        took. `Conflict` while another process is at the connector."""
        deadline = self._monotonic() + OBSERVE_WAIT_SECONDS
        while (lease := self._take()) is None:
            if self._monotonic() > deadline:
                raise Conflict(
                    f"{self._connector.name!r} is being reconciled.", field="upstream", remedy="Try again in a moment."
                )
            time.sleep(0.1)
        lease.keep()
        try:
            return self._observe(lease, key)
        finally:
            lease.release()

    def _observe(self, lease: HeldLease, key: KeyPath) -> int:
        kernel, connector, tally, check = self._kernel, self._connector, self._tally, content_check(self._connector.spec)
        position = SourcePosition(kernel, connector.id)
        with closing(self._open()) as source:
            if isinstance(source, LogSource):
                log = LogBridge(kernel, connector, source, position, tally, check_content=check, keep_going=lease.require)
                log.run()
            else:
                poll = PollBridge(kernel, connector, source, position, tally, check_content=check, keep_going=lease.require)
                poll.observe_one(key)
        return tally.counters.committed

    def _take(self) -> HeldLease | None:
        store = self._kernel.store
        leases = WorkLeases(store.backend, store.clock, self._options.lease_seconds, type=LEASE_TYPE, realm=self._kernel.realm)
        seen = leases.look(self._connector.id)
        return None if seen.is_held else leases.take(self._connector.id, uuid.uuid4().hex, seen)

    def _under(self, lease: HeldLease, now: bool) -> Job | None:
        position = SourcePosition(self._kernel, self._connector.id)
        asked = self._asked()
        if asked is None and not now and position.record.next_at > self._kernel.store.clock.now_micros():
            return None
        job = asked or self._new_job()
        if asked is not None:
            self._tally.counters, self._tally.failures = job.counters, list(job.failures)
            job = self._jobs.change(job.id, lambda one: self._replace(one, state=JobState.RUNNING, started_at=self._now()))
        error = self._bridge(lease, position, job, is_stored=asked is not None)
        if isinstance(error, MaintenanceSuperseded) or self._stopping.is_set():
            return None  # the successor, or the next start, continues with it
        if isinstance(error, MaintenanceStopped):
            self._is_removed = self._is_removed or self._find() is None
        if self._is_cut_short and not self._is_removed:
            self._leave(job, is_stored=asked is not None)
            return None
        if self._is_removed:
            return self._finish(job, error, is_stored=asked is not None)
        if not job.scope:  # the next turn of everything comes when it would have come
            self._schedule(position, error)
        return self._finish(job, error, is_stored=asked is not None)

    def _leave(self, job: Job, *, is_stored: bool) -> None:
        """What has been counted is kept in the job, which the next turn finds RUNNING without a lease."""
        if is_stored:
            self._jobs.change(job.id, lambda one: self._replace(one, reached=self._reached, **self._counted()))
        else:
            self._jobs.add(self._replace(job, **self._counted()))

    def _counted(self) -> dict[str, object]:
        return {"counters": self._tally.counters, "failures": tuple(self._tally.failures)}

    def _asked(self) -> Job | None:
        """The oldest job that has not ended. One that runs without a lease has lost its process."""
        waiting = [one for one in self._jobs.list(self._connector.id) if one.state not in ENDED]
        return waiting[-1] if waiting else None

    def _new_job(self) -> Job:
        """A job for a turn that nobody requested; it is written at the end, and only if there is something to report."""
        now = self._now()
        return Job(
            id=f"{now:016x}-{uuid.uuid4().hex[:12]}",
            connector=self._connector.name,
            connector_id=self._connector.id,
            state=JobState.RUNNING,
            requested_by=self._requested_by,
            created_at=now,
            started_at=now,
        )

    def _bridge(self, lease: HeldLease, position: SourcePosition, job: Job, *, is_stored: bool) -> HeadwaterError | None:
        source: AnySource | None = None
        try:
            source = self._open()
            keep_going, end_turn = self._keep_going(lease, job, is_stored), self._end_turn
            kernel, connector, tally, check = self._kernel, self._connector, self._tally, content_check(self._connector.spec)
            if isinstance(source, LogSource):
                if job.scope:
                    raise scope_refused(connector.spec.source)
                log = LogBridge(
                    kernel, connector, source, position, tally, check_content=check, keep_going=keep_going, end_turn=end_turn
                )
                log.run(full_rescan=job.full_rescan)
            else:
                poll = PollBridge(
                    kernel,
                    connector,
                    source,
                    position,
                    tally,
                    check_content=check,
                    keep_going=keep_going,
                    end_turn=end_turn,
                    tags=self._tags,
                )
                self._poll(poll, job)
            return None
        except HeadwaterError as error:
            return error
        except Exception as error:  # ⚠ of a plug-in, or on an unforeseen answer: it affects only this connector
            _log.exception("connector %s", self._connector.name)
            return SourceRefused(f"{type(error).__name__}: {error}", field="source")
        finally:
            if source is not None:
                source.close()

    def _poll(self, poll: PollBridge, job: Job) -> None:
        levels = len(self._connector.destination.path)
        scope = Scope(tuple(path[levels:] for path in job.scope))
        try:
            poll.run(full_rescan=job.full_rescan, scope=scope, after=job.reached)
        finally:
            self._reached = poll.reached if job.scope else ()

    def _open(self) -> AnySource:
        spec = self._connector.spec
        factory = self._factories.get(spec.source)
        if factory is None:
            raise InvalidInput(f"no plug-in for {spec.source!r} is installed here.", field="source")
        return factory.open(spec, read_secret(self._options.secrets_dir, self._kernel.realm_name, spec.secret_ref))

    def _keep_going(self, lease: HeldLease, job: Job, is_stored: bool) -> Callable[[], None]:
        def check() -> None:
            lease.require()
            if self._stopping.is_set():
                raise MaintenanceStopped("this process stops.", remedy="Another one continues.")
            if self._monotonic() - self._written_at < PROGRESS_SECONDS:
                return
            self._written_at = self._monotonic()
            self._require_wanted()
            if is_stored:
                seen = self._jobs.change(job.id, lambda one: self._replace(one, counters=self._tally.counters))
                if seen.cancel_requested:
                    self._is_cancelled = True
                    raise MaintenanceStopped("the job was cancelled.", remedy="Start another one.")

        return check

    def _end_turn(self) -> None:
        """⚠ From the first step on: what comes before it, such as a long listing, every turn does again."""
        now = self._monotonic()
        if self._turn_ends is None:
            self._turn_ends = now + self._turn_seconds
        if now >= self._turn_ends:
            self._is_cut_short = True
            raise MaintenanceStopped("its turn has ended.", remedy="It continues in the next one.")

    def _require_wanted(self) -> None:
        """⚠ Pausing or removing a connector promises that nothing more is read, so a run in progress ends too."""
        there = self._find()
        self._is_removed = there is None
        if there is None or there.status is ConnectorStatus.PAUSED:
            self._is_cancelled = True
            raise MaintenanceStopped("the connector was paused or removed.", field="connector")

    def _find(self) -> Connector | None:
        try:
            there = Connectors(self._kernel, self._factories).get(self._connector.name)
        except RecordNotFound:
            return None
        return there if there.id == self._connector.id else None

    def _schedule(self, position: SourcePosition, error: HeadwaterError | None) -> None:
        """⚠ An unavailable source is tried less and less often, and affects no other connector."""
        failed = 0 if error is None or self._is_cancelled else position.read().failed_runs + 1
        interval = self._connector.interval_seconds
        seconds = max(interval, min(interval * 2 ** min(failed, 12), BACKOFF_SECONDS_MAX))
        record = position.read()
        position.move(msgspec.structs.replace(record, next_at=self._now() + seconds * MICROS, failed_runs=failed))

    def _finish(self, job: Job, error: HeadwaterError | None, *, is_stored: bool) -> Job:
        state = JobState.SUCCEEDED if error is None else JobState.FAILED
        if self._is_cancelled or self._is_removed:
            state = JobState.CANCELLED
        text = "" if error is None else f"{error.code}: {error}"[:ERROR_CHARACTERS_MAX]
        facts: dict[str, object] = {
            "state": state,
            "ended_at": self._now(),
            "error": text,
            **self._counted(),
        }
        if is_stored:
            return self._jobs.change(job.id, lambda one: self._replace(one, **facts))
        ended = self._replace(job, **facts)
        counters = self._tally.counters
        if error is not None or counters.committed or counters.failed:
            self._jobs.add(ended)
        return ended

    def _replace(self, job: Job, **facts: object) -> Job:
        return msgspec.structs.replace(job, **facts)

    def _now(self) -> int:
        return self._kernel.store.clock.now_micros()
