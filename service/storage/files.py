"""Writes files completely and durably, reads them, and deletes them.

Local files are written here; other schemes go through PyIceberg's FileIO, with the options that the server was given and for
the rest what its environment says.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headwater.schemas.errors import FileMissing, HeadwaterError, MalformedMetadata, StoreUnavailable
from headwater.service.storage.locations import LOCATION_BYTES_MAX, local_path

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

FILE_BYTES_MAX = 256 * 1024 * 1024
_STORAGE_CODE = re.compile(
    r"AWS Error ([A-Z_]{1,80}) during|google::cloud::Status\(([A-Z_]{1,40}):|Azure Error: \[(\w{1,80})\]"
)
"""How PyArrow reports the kind of a fault of each storage."""
PYARROW = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
GZIP_SUFFIXES = (".gz.metadata.json", ".metadata.json.gz")


class Files(Protocol):
    is_local: bool

    def read(self, location: str) -> bytes: ...

    def exists(self, location: str) -> bool: ...

    def write_new(self, location: str, content: bytes) -> None:
        """⚠ Durable when it returns: a commit may name the file next."""

    def remove(self, location: str) -> None:
        """Best effort: a file that stays is garbage, not a fault."""


class LocalFiles:
    is_local = True

    def exists(self, location: str) -> bool:
        return os.path.exists(local_path(location))  # noqa: PTH110 (on the event loop, where a Path costs as much again)

    def read(self, location: str) -> bytes:
        path = Path(local_path(location))
        try:
            check_size(location, path.stat().st_size)
            return path.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
            raise no_file(location) from None
        except OSError as error:
            raise StoreUnavailable(f"{location[:200]} cannot be read: {error.strerror}.") from error

    def write_new(self, location: str, content: bytes) -> None:
        path = Path(local_path(location))
        try:
            made = _make_folders(path.parent)
            with path.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(path.parent)
            for folder in made:  # ⚠ a new folder is an entry of the one above it
                _sync_folder(folder.parent)
        except OSError as error:
            raise StoreUnavailable(f"{location[:200]} cannot be written: {error.strerror}.") from error

    def remove(self, location: str) -> None:
        with contextlib.suppress(OSError):
            Path(local_path(location)).unlink()


class RemoteFiles:
    """By PyIceberg. What lies behind it raises errors of every kind; nothing was committed yet, so all mean "not now"."""

    is_local = False

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        from pyiceberg.io import load_file_io

        try:
            self._io: FileIO = load_file_io({**_way(), **options}, root)
        except (ValueError, ImportError) as error:
            reason = str(error) if isinstance(error, ImportError) else fault_kind(error)
            raise StoreUnavailable(f"{root[:200]} cannot be reached: {reason}.", remedy="Install what it needs.") from None

    def read(self, location: str) -> bytes:
        try:
            source = self._io.new_input(location)
            size_bytes = len(source)  # ⚠ bounded before it is read: any object of the warehouse can be named
            check_size(location, size_bytes)
            with source.open() as file:
                return bytes(file.read(size_bytes))
        except FileNotFoundError:
            raise no_file(location) from None
        except HeadwaterError:
            raise
        except Exception as error:
            raise StoreUnavailable(f"{location[:200]} cannot be read: {fault_kind(error)}.") from None

    def exists(self, location: str) -> bool:
        try:
            return self._io.new_input(location).exists()
        except Exception as error:
            raise StoreUnavailable(f"{location[:200]} cannot be read: {fault_kind(error)}.") from None

    def write_new(self, location: str, content: bytes) -> None:
        try:
            with self._io.new_output(location).create() as file:
                file.write(content)
        except Exception as error:
            raise StoreUnavailable(f"{location[:200]} cannot be written: {fault_kind(error)}.") from None

    def remove(self, location: str) -> None:
        with contextlib.suppress(Exception):
            self._io.delete(location)


def _way() -> dict[str, str]:
    """PyIceberg takes adlfs for Azure whether or not it is installed."""
    return {} if importlib.util.find_spec("adlfs") else PYARROW


def fault_kind(error: Exception) -> str:
    """⚠ Never the storage's own words, nor as a cause that is logged: they may quote keys and signatures."""
    named = _STORAGE_CODE.search(str(error))
    return named.group(named.lastindex or 0) if named else type(error).__name__


def files_of(root: str, options: Mapping[str, str]) -> Files:
    return LocalFiles() if root.startswith("file://") else RemoteFiles(root, options)


def unpacked(location: str, content: bytes) -> bytes:
    if not location.endswith(GZIP_SUFFIXES):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            plain = packed.read(FILE_BYTES_MAX + 1)
    except (OSError, EOFError) as error:
        raise MalformedMetadata(f"{location[:200]} is not a gzip file: {error}.", field="metadata-location") from None
    check_size(location, len(plain))
    return plain


def check_size(location: str, size_bytes: int) -> None:
    """⚠ The same bound for reading and writing: what is committed can be read again."""
    if size_bytes > FILE_BYTES_MAX:
        raise MalformedMetadata(
            f"{location[:200]} has more than {FILE_BYTES_MAX} bytes.",
            field="metadata-location",
            remedy="Expire snapshots or remove properties: metadata must stay below this size.",
        )


def no_file(location: str) -> FileMissing:
    """In the words of Iceberg's own clients."""
    message = f"Failed to open input stream for file: {location[:LOCATION_BYTES_MAX]}"
    return FileMissing(message, field="metadata-location", remedy="Restore the file.", location=location[:LOCATION_BYTES_MAX])


def _make_folders(folder: Path) -> list[Path]:
    """Those that were missing, innermost first. Another writer may make them at the same time."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
    return missing


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
