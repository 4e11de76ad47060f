"""Files that stay readable after a crash or on a full disk: replaced as a whole, or extended by whole lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which gets the name `path` when the block has succeeded and its content is on disk."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def append_line(path: Path, line: bytes) -> None:
    """On disk when this returns. ⚠ A line that an earlier writer left truncated is ended first, so that it spoils no other
    line."""
    is_new = not path.exists()
    with path.open("ab") as file:
        file.write((b"\n" if ends_torn(path) else b"") + line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def ends_torn(path: Path) -> bool:
    """Whether the last line of the file has no end."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def sync_folder(folder: Path) -> None:
    """So that a new name survives a power failure too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
