"""Allows one `headwater up` per folder; the system releases the lock of one that was killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.schemas.errors import InvalidInput


@contextmanager
def held_folder(folder: Path) -> Iterator[int]:
    """The open lock, which is passed to every process until that is on record."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}.", field="--dir", remedy="Name a folder of your own.") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "Stop the other `headwater up`, or name another folder."
            raise InvalidInput(f"{folder} is in use.", field="--dir", remedy=remedy) from error
        yield handle
    finally:
        os.close(handle)
