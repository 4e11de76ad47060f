"""Reconcile jobs: who asked for one, how it goes, what failed. Mutable rows that expire; jobs never enter the feed."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, Corruption, RecordNotFound

JOB_TYPE = "reconcile-job"
FAILURES_KEPT_MAX = 100
FAILURE_CHARACTERS_MAX = 500
KEPT_SECONDS = 7 * 86_400
QUEUED_MAX = 10
"""Of one connector."""

_log = logging.getLogger(__name__)


class JobState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    key: KeyPath = ()
    code: str
    message: str


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    observed: int = 0
    """Tables and views that the source was asked about, or commits of its log."""
    committed: int = 0
    unchanged: int = 0
    renamed: int = 0
    dropped: int = 0
    gaps: int = 0
    """Commits of the source that could not be known: one commit here stands for several."""
    failed: int = 0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The row's payload."""

    id: str
    connector: str
    connector_id: str
    state: JobState = JobState.QUEUED
    full_rescan: bool = False
    scope: tuple[KeyPath, ...] = ()
    """Paths below the destination, as this catalog names them; none of them means everything."""
    reached: KeyPath = ()
    """With a scope: the source's table after which the next turn continues."""
    requested_by: str = ""
    created_at: int = 0
    """Microseconds, as all times here."""
    started_at: int = 0
    ended_at: int = 0
    counters: Counters = Counters()
    failures: tuple[Failure, ...] = ()
    """The first of them."""
    error: str = ""
    """Why it failed as a whole."""
    cancel_requested: bool = False


OBJECT_TYPES.register(ObjectType(JOB_TYPE, Job, Life.MUTABLE))


class ReconcileJobs:
    """The jobs of one realm instance, newest first by id."""

    def __init__(self, kernel: RealmKernel, *, kept_seconds: int = KEPT_SECONDS) -> None:
        self._kernel = kernel
        self._backend = kernel.store.backend
        self._clock = kernel.store.clock
        self._kept_micros = kept_seconds * MICROS

    def create(
        self,
        connector: str,
        connector_id: str,
        *,
        requested_by: str,
        full_rescan: bool = False,
        scope: tuple[KeyPath, ...] = (),
    ) -> Job:
        queued = [one for one in self.list(connector_id) if one.state is JobState.QUEUED]
        if len(queued) >= QUEUED_MAX:
            raise Conflict(f"{len(queued)} jobs of {connector!r} wait.", field="connector", remedy="Wait for them.")
        now = self._clock.now_micros()
        job = Job(
            id=f"{now:016x}-{uuid.uuid4().hex[:12]}",
            connector=connector,
            connector_id=connector_id,
            full_rescan=full_rescan,
            scope=scope,
            requested_by=requested_by,
            created_at=now,
        )
        self._put(None, job)
        return job

    def add(self, job: Job) -> None:
        """One that has ended already."""
        self._put(None, job)

    def get(self, id: str) -> Job:
        found = self._read(id)
        if found is None:
            raise RecordNotFound(f"there is no job {id[:80]!r}.", field="job", remedy="List the jobs: old ones are deleted.")
        return job_of(found)

    def list(self, connector_id: str | None = None) -> Sequence[Job]:
        """Newest first; what has expired is deleted on the way."""
        now, found = self._clock.now_micros(), []
        for row in self._backend.all_mutable(self._kernel.realm, JOB_TYPE):
            if row.expires_at and row.expires_at < now:
                delete_row(self._backend, self._kernel.realm, row, self._clock)
                continue
            job = _readable(row)
            if job is None:
                continue
            if connector_id is None or job.connector_id == connector_id:
                found.append(job)
        return found[::-1]

    def waiting(self) -> Collection[str]:
        """Ids of connectors with a job that has not ended: one listing for all of them."""
        return {one.connector_id for one in self.list() if one.state not in ENDED}

    def change(self, id: str, change: Callable[[Job], Job]) -> Job:
        while True:
            row = self._read(id)
            if row is None:
                raise RecordNotFound(f"there is no job {id[:80]!r}.", field="job")
            job = change(job_of(row))
            if self._put(row, job):
                return job

    def cancel(self, id: str) -> Job:
        """One that has not begun ends at once; one that runs ends after the commit that it is at."""

        def cancelled(job: Job) -> Job:
            if job.state in ENDED:
                raise Conflict(f"the job has ended: {job.state}.", field="job", remedy="Start another one.")
            if job.state is JobState.QUEUED:
                return msgspec.structs.replace(job, state=JobState.CANCELLED, ended_at=self._clock.now_micros())
            return msgspec.structs.replace(job, cancel_requested=True)

        return self.change(id, cancelled)

    def cancel_all(self, connector_id: str) -> None:
        """Delete the jobs of a connector that was removed."""
        for job in self.list(connector_id):
            if job.state not in ENDED:
                with contextlib.suppress(Conflict, RecordNotFound):
                    self.cancel(job.id)

    def _read(self, id: str) -> MutableRow | None:
        return self._backend.read_mutable(self._kernel.realm, JOB_TYPE, id)

    def _put(self, before: MutableRow | None, job: Job) -> bool:
        now = self._clock.now_micros()
        row = next_row(JOB_TYPE, job.id, before, msgspec.msgpack.encode(job), now, expires_at=now + self._kept_micros)
        return cas_row(self._backend, self._kernel.realm, before, row, self._clock)


def job_of(row: MutableRow) -> Job:
    try:
        return msgspec.msgpack.decode(row.payload, type=Job)
    except msgspec.DecodeError as error:
        raise Corruption(f"job {row.key[:80]!r} cannot be read: {error}", field="job") from error


def _readable(row: MutableRow) -> Job | None:
    """⚠ A job that cannot be read, damaged or of a newer version, is set aside until it expires: the others go on."""
    try:
        return job_of(row)
    except Corruption as error:
        _log.warning("set aside: %s", error)
        return None


class Tally:
    """Counts what a running job does."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.failures: list[Failure] = []

    def add(self, **counts: int) -> None:
        added = {name: getattr(self.counters, name) + count for name, count in counts.items()}
        self.counters = msgspec.structs.replace(self.counters, **added)

    def fail(self, key: KeyPath, code: str, message: str) -> None:
        self.add(failed=1)
        if len(self.failures) < FAILURES_KEPT_MAX:
            self.failures.append(Failure(key=key, code=code, message=message[:FAILURE_CHARACTERS_MAX]))
