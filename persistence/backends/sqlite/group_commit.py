"""Runs the waiting writes of many threads in one transaction, so that one fsync serves many callers.

Each write is a function of the connection. The thread that gets the lock runs what is waiting, its own write included, in one
BEGIN IMMEDIATE … COMMIT; the others find theirs done. A write that fails takes back its own changes and no one else's.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from headwater.persistence.backends.sqlite.sqlite_errors import is_read_only
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable

GROUP_MAX = 64
"""Writes in one transaction: more would make the first of them wait for little gain."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class WriterConnection(Protocol):
    """The one connection of this process that writes."""

    def begin(self) -> sqlite3.Connection:
        """With the write lock of the file in hand."""

    def abandon(self, *, in_doubt: bool) -> None:
        """Roll back what is open; where the connection is in doubt, the next `open` gives a new one."""

    def error(self, error: Exception, *, committing: bool) -> Exception:
        """What to raise in place of a driver's error."""


class _Job(Generic[T]):
    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = False


class GroupCommit:
    def __init__(self, writer: WriterConnection) -> None:
        self._writer = writer
        self._waiting: deque[_Job[Any]] = deque()
        self._lock = threading.Lock()

    def run(self, work: Work[T]) -> T:
        """The result of `work`, once it is durable."""
        job = _Job(work)
        self._waiting.append(job)
        with self._lock:
            while not job.done:
                self._run_group([self._waiting.popleft() for _ in range(min(GROUP_MAX, len(self._waiting)))])
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]

    def exclusively(self, action: Callable[[], None]) -> None:
        """Run something while no write is under way."""
        with self._lock:
            action()

    def _run_group(self, jobs: list[_Job[Any]]) -> None:
        committing = False
        try:
            connection = self._writer.begin()
            for job in jobs:
                self._run_job(connection, job, alone=len(jobs) == 1)
            committing = True
            connection.execute("COMMIT")
        except BaseException as error:
            self._writer.abandon(in_doubt=committing or is_read_only(error))
            for job in jobs:
                job.error = job.error or self._error(error, committing)
            if not isinstance(error, Exception):
                raise
        finally:
            for job in jobs:
                job.done = True

    def _error(self, error: BaseException, committing: bool) -> BaseException:
        """A separate error for each caller: a traceback must not be shared between threads."""
        if isinstance(error, Exception):
            return self._writer.error(error, committing=committing)
        if committing:
            return OutcomeUnknown("the thread that was committing this write was interrupted.")
        return StoreUnavailable("the thread that was to commit this write was interrupted; nothing was changed.")

    def _run_job(self, connection: sqlite3.Connection, job: _Job[Any], *, alone: bool) -> None:
        if alone:
            job.result = job.work(connection)
            return
        connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                # SQLite gave up the whole transaction (disk full, I/O error), not just this statement.
                raise
            job.error = self._writer.error(error, committing=False)
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
