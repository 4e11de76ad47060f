"""Everything in use below the roots of a run, on disk: single locations, and manifests with the fingerprints of their files.

It is needed again when a listing must prove itself. The files of a manifest are known by fingerprint; if a listing lacks one of
them, the manifest is read again for its location.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import msgspec

from headwater.producer.content.folding import fold, is_indirect, storage_of
from headwater.schemas.errors import FileMissing, MaintenanceRefused
from headwater.streaming.files.formats.iceberg_tables import whole_manifest
from headwater.streaming.files.formats.manifests import ManifestRef, files_of
from headwater.streaming.files.formats.reading import MetadataReader, Mode, ReadsFiles
from headwater.streaming.files.marks.content_marks import MarkedManifest
from headwater.streaming.files.marks.manifest_marks import unpacked
from headwater.streaming.reachability.id_set import IdSet

if TYPE_CHECKING:
    import numpy as np

_LENGTH = struct.Struct("<I")


class _Record(msgspec.Struct, array_like=True):
    location: str
    length: int | None = None
    place: str = ""
    ids: bytes = b""
    """Empty for a single file."""


class BelowRoots:
    def __init__(self, storages: ReadsFiles) -> None:
        self._reader = MetadataReader(storages, Mode.STRICT)
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`

    def add_file(self, location: str) -> None:
        self._add(_Record(location))

    def add_manifest(self, manifest: MarkedManifest) -> None:
        ref, marks = manifest.ref, manifest.marks
        self._add(_Record(ref.location, ref.length, marks.place, marks.ids))

    def unlisted(self, root_place: str, listed: IdSet) -> Iterator[str]:
        """Locations that may lie below a root and that its listing lacks, possibly among some that it has."""
        import numpy as np

        shown = np.frombuffer(listed.packed(), np.int64)
        for record in self._records():
            if not record.ids:
                yield record.location
            elif may_overlap(record.place, root_place) and not _all_among(unpacked(record.ids), shown):
                yield from self._files_of(record)

    def close(self) -> None:
        self._file.close()

    def _files_of(self, record: _Record) -> Iterator[str]:
        yield from named_again(self._reader, ManifestRef(record.location, record.length))

    def _add(self, record: _Record) -> None:
        packed = msgspec.msgpack.encode(record)
        self._file.write(_LENGTH.pack(len(packed)) + packed)

    def _records(self) -> Iterator[_Record]:
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            yield msgspec.msgpack.decode(self._file.read(_LENGTH.unpack(head)[0]), type=_Record)
        self._file.seek(0, 2)


def named_again(reader: MetadataReader, manifest: ManifestRef) -> Iterator[str]:
    """The locations of the files of a manifest of which a listing lacks some."""
    try:
        content = whole_manifest(manifest, reader)
    except FileMissing as error:
        raise MaintenanceRefused(
            f"{manifest.location[:500]} is missing, and the listing lacks files that it names.",
            field="root",
            remedy="Nothing below this root was deleted. Bring the manifest back, or expire the snapshots that need it.",
        ) from error
    for file in files_of(manifest.location, content):
        yield file.location


def is_below_any(location: str, roots: tuple[str, ...]) -> bool:
    folded = fold(location)
    return f"{storage_of(location)}{folded}".startswith(roots) and not is_indirect(folded)


def may_overlap(place: str, root_place: str) -> bool:
    """⚠ Files without a common folder may be anywhere."""
    return not place or place.startswith(root_place) or root_place.startswith(place)


def _all_among(ids: np.ndarray, shown: np.ndarray) -> bool:
    at = shown.searchsorted(ids)
    inside = at < len(shown)
    return bool(inside.all() and (shown[at] == ids).all())
