"""The files that one version of an Iceberg table references, formats 1 to 3.

Files come before the files that name them, the metadata file last: a deletion in this order that stops half-way can be resumed,
because what names the rest is still there. A manifest that several snapshots share is read once; a data file that several
manifests name appears several times.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Protocol

from headwater.schemas.errors import MalformedMetadata, Unsupported
from headwater.streaming.files.formats.manifests import ManifestRef, files_of, manifests_of
from headwater.streaming.files.formats.reading import MANIFEST_BYTES_MAX, MetadataReader, json_of, records_of, text_of
from headwater.streaming.files.kinds import FileKind, FileRef

FORMAT_VERSIONS = (1, 2, 3)


class SeenContainers:
    """Manifest lists and manifests that were read before: versions of a table share most of them."""

    def __init__(self) -> None:
        self.lists: dict[str, bool] = {}
        """Manifest list → whether all its files are known."""
        self.manifests: dict[ManifestRef, bool] = {}
        """⚠ Keyed with its length: with another length it is another manifest."""


class Containers(Protocol):
    """How metadata files, manifest lists and manifests are read."""

    def metadata_of(self, reader: MetadataReader, location: str) -> bytes: ...

    def manifests_of(self, reader: MetadataReader, location: str) -> list[ManifestRef]: ...

    def files_of(self, reader: MetadataReader, manifest: ManifestRef) -> Iterable[FileRef]: ...

    def skipped(self, location: str) -> None:
        """One that was seen before."""


class DecodedContainers:
    """From storage."""

    def metadata_of(self, reader: MetadataReader, location: str) -> bytes:
        return reader.read(location)

    def manifests_of(self, reader: MetadataReader, location: str) -> list[ManifestRef]:
        return manifests_of(location, reader.read(location))

    def files_of(self, reader: MetadataReader, manifest: ManifestRef) -> Iterable[FileRef]:
        return files_of(manifest.location, whole_manifest(manifest, reader))

    def skipped(self, location: str) -> None:
        pass


def table_files(
    reader: MetadataReader, location: str, seen: SeenContainers | None = None, containers: Containers | None = None
) -> Iterator[FileRef]:
    """Containers that were seen before are not read again, and neither they nor their files are repeated."""
    return _TableFiles(reader, location, seen or SeenContainers(), containers or DecodedContainers()).all()


def table_metadata(reader: MetadataReader, location: str) -> dict[str, Any]:
    return table_in(location, reader.read(location))


def table_in(location: str, content: bytes) -> dict[str, Any]:
    table = json_of(location, content)
    version = table.get("format-version")
    if version not in FORMAT_VERSIONS:
        raise Unsupported(
            f"{location[:200]} has format version {version!r}; known are 1 to 3.",
            field="format-version",
            remedy="Upgrade Headwater, or leave this table out.",
        )
    return table


def named_files(location: str, table: dict[str, Any]) -> Iterator[FileRef]:
    """Files that the metadata file names directly: statistics and older metadata files."""
    for name, kind in (("statistics", FileKind.STATISTICS), ("partition-statistics", FileKind.PARTITION_STATISTICS)):
        for one in records_of(location, table, name):
            yield FileRef(text_of(location, one, "statistics-path"), kind, one.get("file-size-in-bytes"), location)
    for one in records_of(location, table, "metadata-log"):
        yield FileRef(text_of(location, one, "metadata-file"), FileKind.METADATA_LOG, None, location)


class _TableFiles:
    def __init__(self, reader: MetadataReader, location: str, seen: SeenContainers, containers: Containers) -> None:
        self._reader = reader
        self._location = location
        self._seen = seen
        self._containers = containers

    def all(self) -> Iterator[FileRef]:
        location = self._location
        complete = True
        with self._reader.attempt(location) as attempt:
            table = table_in(location, self._containers.metadata_of(self._reader, location))
            for snapshot in reversed(records_of(location, table, "snapshots")):  # the newest first
                complete = (yield from self._snapshot(snapshot)) and complete
            yield from named_files(location, table)
        yield FileRef(location, FileKind.METADATA, complete=complete and attempt.complete)

    def _snapshot(self, snapshot: dict[str, Any]) -> Generator[FileRef, None, bool]:
        if "manifest-list" not in snapshot:
            return (yield from self._manifests(self._location, _inline_manifests(self._location, snapshot)))
        named = text_of(self._location, snapshot, "manifest-list")
        if named in self._seen.lists:
            self._containers.skipped(named)
            return self._seen.lists[named]
        manifests: list[ManifestRef] = []
        with self._reader.attempt(named) as attempt:
            if snapshot.get("key-id"):
                raise Unsupported(f"{named[:200]} is encrypted.", field="snapshots")
            manifests = self._containers.manifests_of(self._reader, named)
            _check_not_cut_off(named, manifests, snapshot)
        complete = (yield from self._manifests(named, manifests)) and attempt.complete
        yield FileRef(named, FileKind.MANIFEST_LIST, None, self._location, complete)
        self._seen.lists[named] = complete
        return complete

    def _manifests(self, referrer: str, manifests: list[ManifestRef]) -> Generator[FileRef, None, bool]:
        complete, read = True, self._seen.manifests
        for manifest in manifests:
            if manifest in read:
                self._containers.skipped(manifest.location)
            else:
                with self._reader.attempt(manifest.location) as attempt:
                    yield from self._containers.files_of(self._reader, manifest)
                read[manifest] = attempt.complete
                yield FileRef(manifest.location, FileKind.MANIFEST, manifest.length, referrer, attempt.complete)
            complete = complete and read[manifest]
        return complete


def _check_not_cut_off(location: str, manifests: list[ManifestRef], snapshot: dict[str, Any]) -> None:
    """⚠ A manifest list that was cut off after its header reads as one of an empty table."""
    summary = snapshot.get("summary")
    files = (summary.get(name) for name in ("total-data-files", "total-delete-files")) if isinstance(summary, dict) else ()
    if not manifests and any(str(count or 0) != "0" for count in files):
        raise MalformedMetadata(f"{location[:200]} lists nothing, and its snapshot has files.", field="manifest-list")


def whole_manifest(manifest: ManifestRef, reader: MetadataReader) -> bytes:
    """⚠ An Avro file that was cut off between two blocks reads without an error, and the files of the rest look unused."""
    content = reader.read(manifest.location, MANIFEST_BYTES_MAX)
    if manifest.length is not None and len(content) != manifest.length:
        raise MalformedMetadata(
            f"{manifest.location[:200]} has {len(content)} bytes, and its manifest list says {manifest.length}.",
            field="manifest",
        )
    return content


def _inline_manifests(location: str, snapshot: dict[str, Any]) -> list[ManifestRef]:
    """Format 1 may name manifests in the snapshot itself."""
    named = snapshot.get("manifests")
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise MalformedMetadata(f"a snapshot of {location[:200]} names no manifest list.", field="snapshots")
    return [ManifestRef(one, None) for one in named]
