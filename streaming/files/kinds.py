"""What a file is to its table, and the two ways to encounter one: named by metadata, or found on storage."""

from __future__ import annotations

import enum

import msgspec

OWN_FOLDER = "_headwater/"
"""Below a storage root: the claim, and what sweeps remember."""


class FileKind(enum.StrEnum):
    METADATA = "metadata"
    METADATA_LOG = "metadata-log"
    """An older metadata file that the newest one names."""
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    DATA = "data"
    POSITION_DELETES = "position-deletes"
    EQUALITY_DELETES = "equality-deletes"
    DELETION_VECTOR = "deletion-vector"
    STATISTICS = "statistics"
    PARTITION_STATISTICS = "partition-statistics"
    DELTA_LOG = "delta-log"
    DELTA_CHECKPOINT = "delta-checkpoint"
    UNKNOWN = "unknown"


class FileRef(msgspec.Struct, frozen=True):
    """A file that metadata names."""

    location: str
    kind: FileKind
    size: int | None = None
    """In bytes, where the file that names it says so."""
    referrer: str = ""
    """The file that names it; empty for the metadata file where reading began."""
    complete: bool = True
    """⚠ False if a file that it names, directly or indirectly, could not be read: deleting it would hide those files forever.
    """


class FoundFile(msgspec.Struct, frozen=True):
    """A file as storage lists it."""

    location: str
    """Exactly as listed, so that it can be used to delete the file."""
    size: int
    modified: int | None
    """Microseconds since 1970 by the clock of the storage; None if the storage does not say."""
    etag: str | None = None


_SUFFIXES = (
    ((".metadata.json", ".gz.metadata.json", ".metadata.json.gz"), FileKind.METADATA),
    ((".parquet", ".orc"), FileKind.DATA),
    ((".puffin",), FileKind.STATISTICS),
    ((".stats",), FileKind.PARTITION_STATISTICS),
)


def kind_by_name(location: str) -> FileKind:
    """The kind that a file's name suggests; the kinds stated by metadata are more precise."""
    name = location.rpartition("/")[2].lower()
    if "/_delta_log/" in location:
        return FileKind.DELTA_CHECKPOINT if ".checkpoint" in name else FileKind.DELTA_LOG
    if name.endswith(".avro"):
        return _avro_kind(name)
    return next((kind for suffixes, kind in _SUFFIXES if name.endswith(suffixes)), FileKind.UNKNOWN)


def _avro_kind(name: str) -> FileKind:
    """Writers name manifest lists `snap-…`, and manifests by a UUID and `-m` with a number; Avro can hold data as well."""
    if name.startswith("snap-"):
        return FileKind.MANIFEST_LIST
    stem = name.removesuffix(".avro")
    marker = stem.rpartition("-")[2]
    return FileKind.MANIFEST if marker[:1] == "m" and marker[1:].isdigit() else FileKind.DATA
