"""Writes log lines to one file that several processes share, and rotates it: no line is lost or torn.

⚠ A writer locks the file and then checks that the path still names it: after a rotation by another process it does not, and the
new file is opened. A rotation is done by the process that holds the lock, so no two rotate at once.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from pathlib import Path

import msgspec

from headwater.schemas.errors import InvalidInput

TURN_SECONDS = 0.25
"""How long a line waits for the lock. ⚠ A process that was stopped while it held the lock must not stop the others: their lines
are then appended without a look at the size, each by one write."""
RETRY_SECONDS = 0.000_5
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o640


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server's log goes beside stderr."""

    path: str = ""
    """Empty: to stderr alone."""
    bytes_max: int = 64 * 1024 * 1024
    """Rotated before it would grow beyond that."""
    kept: int = 5
    """Full files that are kept as `<path>.1`, the newest, to `<path>.<kept>`."""


STDERR_ALONE = LogFile()


class RotatingLog(logging.Handler):
    def __init__(self, file: LogFile) -> None:
        super().__init__()
        self._path = Path(file.path).resolve()
        self._bytes_max = file.bytes_max
        self._kept = file.kept
        self._fd = -1
        self._is_looked_at = False
        self._pid = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._close()
        super().close()

    def _write(self, line: bytes) -> None:
        is_locked = self._take_turn(len(line))
        try:
            before = os.fstat(self._fd).st_size
            if os.write(self._fd, line) < len(line):  # the disk is full: rather no line than a part of one
                if is_locked:
                    os.ftruncate(self._fd, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            if is_locked:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _take_turn(self, bytes_more: int) -> bool:
        """Whether the file is locked; it is then the one of now, with room for so many bytes."""
        while True:
            self._open()
            if not self._lock():
                return False
            if self._is_current() and (self._has_room(bytes_more) or not self._rotate()):
                self._end_last_line()
                return True
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._close()

    def _open(self) -> None:
        if self._pid != os.getpid():  # ⚠ forked: a lock by the parent's descriptor would be the parent's
            self._close()
            self._pid = os.getpid()
        if self._fd < 0:
            self._fd = os.open(self._path, _FLAGS, _MODE)
            self._is_looked_at = False

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> bool:
        until = time.monotonic() + TURN_SECONDS
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(RETRY_SECONDS)
            else:
                return True

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _has_room(self, bytes_more: int) -> bool:
        size = os.fstat(self._fd).st_size
        return not size or size + bytes_more <= self._bytes_max

    def _rotate(self) -> bool:
        """False where files cannot be renamed: then this one grows."""
        numbered = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._kept + 1))]
        free = next((number for number in range(1, self._kept) if not numbered[number].exists()), self._kept)
        try:
            for number in range(free, 0, -1):
                numbered[number - 1].replace(numbered[number])
        except OSError:
            return False
        return True

    def _end_last_line(self) -> None:
        """Ends a line that was cut off when the machine went down."""
        if self._is_looked_at:
            return
        self._is_looked_at = True
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")


def check_log_file(file: LogFile) -> None:
    """Opens it for a moment, so that a wrong path is one line on the terminal."""
    if not file.path:
        return
    path = Path(file.path)
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{file.path!r} is not a file.", field="log_file", remedy="Name a file, or one to be made.")
    try:
        os.close(os.open(path.resolve(), _FLAGS, _MODE))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise InvalidInput(
            f"{file.path!r} cannot be written: {reason}.", field="log_file", remedy="Name a file in a folder that is there."
        ) from None
