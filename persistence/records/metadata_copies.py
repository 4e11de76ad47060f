"""Copies of the metadata files of tables and views, attached to the contents that name them: a cold server reads them here.

A copy is written when its content is committed or first read, removed when the content is replaced, and swept with it. It is
never needed: without it the file itself is read. ⚠ It counts only for the storage root and the location that it was made of.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.log.log_entry import CONTENT
from headwater.persistence.objects import codec
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType, attached_id
from headwater.schemas.errors import ChecksumMismatch

COPY_BYTES_MAX = 300_000
"""The largest compressed copy, whatever is configured: it is one row."""
FILE_BYTES_MAX = 32 * 1024 * 1024
"""The largest file that is copied, which bounds what is read back."""
_LEVEL = 6


class MetadataCopy(msgspec.Struct, frozen=True, array_like=True):
    """Append new fields, never move one."""

    root: str
    location: str
    packed: bytes


METADATA_COPY = OBJECT_TYPES.register(ObjectType("metadata-copy", MetadataCopy, Life.ATTACHED, owner=CONTENT.name))


class SourceFile(msgspec.Struct, frozen=True):
    location: str
    json: bytes


class MetadataCopies:
    """One per realm instance and storage root. Thread-safe."""

    def __init__(self, backend: Backend, realm: str, root: str, clock: Clock, bytes_max: int) -> None:
        self._backend = backend
        self._realm = realm
        self._root = root
        self._clock = clock
        self._bytes_max = min(bytes_max, COPY_BYTES_MAX)

    def read(self, content_object: int, location: str) -> bytes | None:
        """The file's JSON, if there is a copy of just this file."""
        rows = self._backend.fetch_objects(self._realm, [attached_id(content_object)]).get(attached_id(content_object))
        if rows is None:
            return None
        copy = codec.decode(METADATA_COPY, rows)
        if (copy.root, copy.location) != (self._root, location):
            return None
        return _unpacked(copy.packed, content_object)

    def write(self, files: Mapping[int, SourceFile]) -> None:
        """By the object ids of their contents. Copies that are too large even when compressed are left out."""
        now = self._clock.now_micros()
        rows = []
        for content_object, file in files.items():
            if len(file.json) > FILE_BYTES_MAX:
                continue
            packed = zlib.compress(file.json, _LEVEL)
            if len(packed) <= self._bytes_max:
                copy = MetadataCopy(self._root, file.location, packed)
                rows.append(codec.encode(METADATA_COPY, attached_id(content_object), copy, now))
        if rows:
            self._backend.write_objects(self._realm, rows)

    def remove(self, content_objects: Iterable[int]) -> None:
        """Remove the copies of contents that were replaced. A branch that still has one of them reads the file again."""
        self._backend.remove_objects(self._realm, [(attached_id(content_object), 0) for content_object in content_objects])


def _unpacked(packed: bytes, content_object: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        json = reader.decompress(packed, FILE_BYTES_MAX)
    except zlib.error as error:
        raise ChecksumMismatch(f"the copy of content {content_object} cannot be unpacked: {error}") from error
    if not reader.eof:
        raise ChecksumMismatch(f"the copy of content {content_object} is cut off.")
    return json
