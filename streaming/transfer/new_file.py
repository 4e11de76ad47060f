"""A file that appears under its name only when it is complete and on disk.

A process that is killed leaves a file with another name, without its last frame: nothing takes it for an export.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from headwater.consumers.durable_files import sync_folder
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import ExportNotWritten, InvalidInput

SUFFIX = ".hwexport"
OWNER_ONLY = 0o600
"""A realm's contents are not for everyone on the machine."""


def destination(to: Path, realm: str, now_micros: int) -> Path:
    """In a folder, the file is named after the realm and the time; a file must not exist yet."""
    if to.is_dir():
        stamp = time_text(now_micros)[:19].replace("-", "").replace(":", "")
        to = to / f"{realm}-{stamp}Z{SUFFIX}"
    if to.exists():
        raise InvalidInput(f"{to} exists already.", field="--to", remedy="Name a new file, or a folder.")
    if not to.parent.is_dir():
        raise InvalidInput(f"there is no folder {to.parent}.", field="--to", remedy="Make it first.")
    return to


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """`ExportNotWritten` if the disk is full or refuses; then, as after any other error, nothing is left."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _opened(partial) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise ExportNotWritten(
            f"{path} could not be written: {error.strerror or error}.",
            field="--to",
            remedy="Check free space and write permission, then repeat.",
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _opened(partial: Path) -> BinaryIO:
    return os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb")
