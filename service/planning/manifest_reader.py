"""Reads manifest lists and manifests of one warehouse with PyIceberg.

⚠ Every location is checked: metadata and manifests are written by clients. ⚠ PyIceberg's cache of manifests is not used: it is
shared by all tenants and believes what any manifest list says of a path.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
)

from headwater.schemas.errors import HeadwaterError, MalformedMetadata
from headwater.service.planning.avro_blocks import unpacked, with_fixed_as_bytes
from headwater.service.planning.bounded_avro import BoundedAvroFile
from headwater.service.planning.manifest_cache import ManifestCache, kept_manifest, key_of
from headwater.service.storage.files import Files
from headwater.service.storage.locations import Warehouse

_FORMAT = 3
"""Read with the newest schema: it knows deletion vectors, and what older manifests lack is optional."""
_REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE = 17, 18, 19


class ManifestReader:
    def __init__(self, warehouse: Warehouse, files: Files, cache: ManifestCache | None = None) -> None:
        self._warehouse, self._cache = warehouse, cache or ManifestCache(0)
        self._io = _WarehouseIO(warehouse, files)

    def manifests(self, location: str) -> list[ManifestFile]:
        try:
            with BoundedAvroFile[ManifestFile](
                self._io.new_input(location),
                MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
                read_types={-1: ManifestFile, 508: PartitionFieldSummary},
                read_enums={517: ManifestContent},
            ) as listed:
                return listed.entries()
        except HeadwaterError:
            raise
        except Exception as error:  # whatever a client has written there
            raise _unreadable(location) from error

    def entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Without those of deleted files. ⚠ Not to be changed: they may come from the cache."""
        self._warehouse.check(manifest.manifest_path, "manifest")
        return kept_manifest(self._cache, key_of(self._warehouse.root, manifest), lambda: self._decoded(manifest))

    def _decoded(self, manifest: ManifestFile) -> list[ManifestEntry]:
        try:
            content = self._io.unpacked(manifest.manifest_path)
            entries = _as_java_writes(manifest.manifest_path, content)
            if entries is None:
                entries = _entries(manifest.manifest_path, content)
            return [_inherit_from_manifest(entry, manifest) for entry in entries]
        except HeadwaterError:
            raise
        except Exception as error:
            raise _unreadable(manifest.manifest_path) from error


def _as_java_writes(location: str, content: bytes) -> list[ManifestEntry] | None:
    """None unless all fixed partition values begin with their length. ⚠ That comes first: without a length the values behind
    them may still look like some."""
    found = with_fixed_as_bytes(content)
    if found is None:
        return None
    content, sizes = found
    with suppress(Exception):  # then it is written as its schema says
        entries = _entries(location, content)
        values = ((size, entry.data_file.partition._data[at]) for entry in entries for at, size in sizes.items())
        if all(value is None or len(value) == size for size, value in values):
            return entries
    return None


def _entries(location: str, content: bytes) -> list[ManifestEntry]:
    with BoundedAvroFile[ManifestEntry](
        _Read(location, content),
        MANIFEST_ENTRY_SCHEMAS[_FORMAT],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [entry for entry in reader.entries() if entry.status != ManifestEntryStatus.DELETED]


def referenced_data_file(file: DataFile) -> str | None:
    found: str | None = file._data[_REFERENCED_DATA_FILE]
    return found


def content_range(file: DataFile) -> tuple[int | None, int | None]:
    """Where a deletion vector lies in its file: offset and size."""
    return file._data[_CONTENT_OFFSET], file._data[_CONTENT_SIZE]


def _unreadable(location: str) -> MalformedMetadata:
    return MalformedMetadata(f"{location[:200]} is not a manifest that can be read.", field="manifest")


class _WarehouseIO(FileIO):
    def __init__(self, warehouse: Warehouse, files: Files) -> None:
        super().__init__({})
        self._warehouse, self._files = warehouse, files

    def new_input(self, location: str) -> InputFile:
        return _Read(location, self.unpacked(location))

    def unpacked(self, location: str) -> bytes:
        return unpacked(location, self._files.read(self._warehouse.check(location, "manifest")))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError("plans only read")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError("plans only read")


class _Read(InputFile):
    """A file that was read whole: manifests are small."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        stream: Any = io.BytesIO(self._content)
        found: InputStream = stream
        return found
