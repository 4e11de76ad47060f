"""One writing connection and a stack of reading ones, never shared by two threads at once."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from headwater.persistence.backends.sqlite.sqlite_errors import CREATE_REMEDY, is_busy, sqlite_error
from headwater.schemas.errors import InvalidStoreUrl, StoreNotCreated, StoreRestored, StoreUnavailable

PAGE_BYTES = 8_192
CACHE_KIB = 8_192
JOURNAL_BYTES_MAX = 64 * 1024 * 1024
"""The write-ahead log is cut back to this after a checkpoint, whatever it grew to in between."""
READERS_IDLE_MAX = 16
LOCK_POLL_SECONDS = (0.000_1, 0.001_5)


class SqliteOptions(msgspec.Struct, frozen=True, kw_only=True):
    busy_timeout_seconds: float = 10.0
    """How long a write waits for a writer of another process."""
    synchronous: str = "FULL"
    """FULL syncs the log at every commit; NORMAL may lose the newest commits in a power cut, and `durability` says so."""


_abandoned_after_fork: list[object] = []
"""A child process must neither use nor close connections of its parent: they are kept here, untouched, forever."""


SqliteCopy = tuple[int, int]
"""Which copy of the data it is: the inode, and SQLite's `schema_version`, which the online backup changes in its target."""


class SqliteConnections:
    def __init__(self, path: Path, options: SqliteOptions) -> None:
        self.path = path
        self._file = str(path)
        self._options = options
        self._writer: sqlite3.Connection | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        self._process = os.getpid()
        self._closed = False
        self._read_copy: SqliteCopy | None = None
        self._written_copy: SqliteCopy | None = None
        self._written_copy_text = ""

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for reads, each of them a transaction of its own; errors leave as ours."""
        self._leave_parent()
        connection: sqlite3.Connection | None = None
        try:
            connection = self._idle_reader() or self.connect()
            yield connection
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            # Not put back: after an error its state is not worth guessing.
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
            raise sqlite_error(error, str(self.path)) from error
        if len(self._readers) < READERS_IDLE_MAX and not self._closed:
            self._readers.append(connection)
        else:
            connection.close()

    def _idle_reader(self) -> sqlite3.Connection | None:
        try:
            return self._readers.pop()
        except IndexError:
            return None

    # The writer: used by one thread at a time, under the lock of GroupCommit.

    def begin(self) -> sqlite3.Connection:
        """SQLite's own wait sleeps longer and longer, up to 100 ms, while a busy process takes the lock again and again:
        this one asks at short random intervals, so that processes take turns."""
        self._leave_parent()
        if self._writer is None:
            self._writer = self.connect()
            self._writer.execute("PRAGMA busy_timeout = 0")
        deadline = time.monotonic() + self._options.busy_timeout_seconds
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(*LOCK_POLL_SECONDS))  # noqa: S311 — spreads waiters, guards nothing
        self._check_written_copy(self._writer)
        return self._writer

    # ── which copy of the data it is ────────────────────────────────────────────────────────────────────────

    def check_read_copy(self) -> SqliteCopy:
        """`StoreRestored` if the file has been replaced since this was asked last."""
        with self.reader() as connection:
            copy = self._copy_of(connection)
        if self._read_copy is not None and self._read_copy != copy:
            self._read_copy = None
            self._close_readers()  # they may have the old file open
            raise self._restored()
        self._read_copy = copy
        return copy

    def _check_written_copy(self, writer: sqlite3.Connection) -> None:
        """⚠ In every writing transaction: what was prepared for the data as they were is not written into others."""
        copy = self._copy_of(writer)
        if self._written_copy is not None and self._written_copy != copy:
            self._written_copy = None
            self.abandon(in_doubt=True)
            self._close_readers()
            raise self._restored()
        if self._written_copy is None:
            self._written_copy, self._written_copy_text = copy, copy_text(copy)

    def require_copy(self, copy: str) -> None:
        """In a writing transaction: `StoreRestored` if that is another copy of the data, whoever has noticed."""
        if copy and copy != self._written_copy_text:
            raise self._restored()

    def _copy_of(self, connection: sqlite3.Connection) -> SqliteCopy:
        try:
            inode = os.stat(self._file).st_ino  # noqa: PTH116 — once a commit: `Path.stat` costs three calls more
            return inode, connection.execute("PRAGMA schema_version").fetchone()[0]
        except FileNotFoundError:
            raise StoreUnavailable(f"{self.path} is gone.", field="store", remedy="Put the file back.") from None

    def _restored(self) -> StoreRestored:
        return StoreRestored(f"{self.path} holds another copy of the data than before; nothing was changed.", field="store")

    def abandon(self, *, in_doubt: bool) -> None:
        if self._writer is None:
            return
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            in_doubt = True
        if in_doubt:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None

    def error(self, error: Exception, *, committing: bool) -> Exception:
        return sqlite_error(error, str(self.path), committing=committing)

    def connect(self, *, create: bool = False) -> sqlite3.Connection:
        """A connection to the file as it is; only `create` makes a file that is not there."""
        if self._closed:
            raise StoreUnavailable(f"{self.path} has been closed.")
        self._check_path(create)
        uri = f"file:{quote(str(self.path.absolute()))}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=self._options.busy_timeout_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._options.synchronous}")
            connection.execute("PRAGMA fullfsync = ON")  # macOS keeps a plain fsync in the drive's cache
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_MAX}")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._closed = True
        if self._process != os.getpid():
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._close_readers()

    def _close_readers(self) -> None:
        while (reader := self._idle_reader()) is not None:
            reader.close()

    def read_pragmas(self, *names: str) -> dict[str, str]:
        """As the writing connection has them in force."""
        with closing(self.connect()) as connection:
            return {name: str(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names}

    def _check_path(self, create: bool) -> None:
        if self.path.is_dir():
            raise InvalidStoreUrl(f"{self.path} is a folder.", field="store", remedy="Name a file in it.")
        if create and not self.path.parent.is_dir():
            raise InvalidStoreUrl(
                f"the folder {self.path.parent} of the store does not exist.", field="store", remedy="Create it first."
            )
        if not create and not self.path.exists():
            raise StoreNotCreated(f"{self.path} does not exist.", field="store", remedy=CREATE_REMEDY)

    def _leave_parent(self) -> None:
        if self._process != os.getpid():
            _abandoned_after_fork.extend([self._writer, self._readers])
            self._writer, self._readers, self._process = None, deque(), os.getpid()


def copy_text(copy: SqliteCopy) -> str:
    return "/".join(map(str, copy))
