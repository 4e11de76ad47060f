"""Everything that one version of a table or view needs: its files one by one, and its manifests as fingerprints."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headwater.schemas.errors import FileMissing, HeadwaterError, MalformedMetadata
from headwater.streaming.files.formats.iceberg_tables import DecodedContainers, SeenContainers, table_files, whole_manifest
from headwater.streaming.files.formats.iceberg_views import view_files
from headwater.streaming.files.formats.manifests import ManifestRef, manifests_of
from headwater.streaming.files.formats.reading import MetadataReader, json_of
from headwater.streaming.files.kinds import FileRef, FoundFile
from headwater.streaming.files.marks.cache_proof import Hit
from headwater.streaming.files.marks.cache_ranges import source_of
from headwater.streaming.files.marks.manifest_cache import SAME_BYTES, KeptReach, ManifestCache
from headwater.streaming.files.marks.manifest_marks import ManifestMarks, mark_manifest
from headwater.streaming.files.marks.reach import Reach

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MarkedManifest(msgspec.Struct, frozen=True):
    ref: ManifestRef
    marks: ManifestMarks


class ContentMarks(msgspec.Struct, kw_only=True):
    files: list[FileRef]
    """Metadata, manifest lists, manifests and statistics, without the containers that were seen before."""
    manifests: list[MarkedManifest]
    """The files of manifests, likewise."""
    missed: list[ManifestRef] = []
    """Manifests still to be read, which others do."""

    @property
    def count(self) -> int:
        return len(self.files) + sum(one.marks.count for one in self.manifests)


class ContentMarking:
    """The marking of one run. Thread-safe: containers that several versions share are read once, barring races."""

    def __init__(self, salt: bytes, cache: ManifestCache | None = None, *, decodes: bool = True) -> None:
        """Without `decodes`, manifests that the cache lacks are named but not read."""
        self._salt = salt
        self._cache = cache
        self._decodes = decodes
        self._seen = SeenContainers()
        self._reaches: dict[str, tuple[str, ...]] = {}
        """Container → at least the folders of its files."""
        self._half_read: list[ContentMarks] = []
        self._lock = threading.Lock()

    def mark_table(self, reader: MetadataReader, location: str) -> ContentMarks:
        """⚠ Complete: raises if anything cannot be read and the reader is strict."""
        with self._lock:
            seen = self._seen
        reach, containers = Reach(), _MarkedContainers(self._salt, self._cache, self._reaches, decodes=self._decodes)
        files: list[FileRef] = []
        try:
            files.extend(table_files(reader, location, seen, containers))
        except BaseException:
            half = ContentMarks(files=files, manifests=containers.manifests, missed=containers.missed)
            with self._lock:
                self._half_read.append(half)
            raise
        for file in files:
            reach.add_file(file.location)
        for one in containers.manifests:
            reach.add_places([one.marks.place] if one.marks.count else [])
        reach.add_places(containers.places)
        if containers.is_reach_known:
            self._keep_reach(location, reach, files, containers.metadata)
        return ContentMarks(files=files, manifests=containers.manifests, missed=containers.missed)

    def mark_view(self, reader: MetadataReader, location: str) -> ContentMarks:
        files = list(view_files(reader, location))
        reach = Reach()
        reach.add_file(location)
        self._keep_reach(location, reach, files, b"")
        return ContentMarks(files=files, manifests=[])

    def half_read(self) -> list[ContentMarks]:
        """⚠ Includes what failed attempts have read: other threads may have skipped those containers."""
        with self._lock:
            taken, self._half_read = self._half_read, []
        return taken

    def reach(self, reader: MetadataReader, location: str) -> tuple[str, ...] | None:
        """The folders of the files of a version that cannot be read now; None if it was never read completely. ⚠ A metadata
        file that was rewritten since then may name others."""
        kept = None if self._cache is None else self._cache.reach(location)
        if kept is None:
            return None
        try:
            content = reader.read(location)
            json_of(location, content)
        except (FileMissing, MalformedMetadata):  # nobody can read it
            return kept.places
        except HeadwaterError:
            return None
        return kept.places if kept.metadata in (b"", source_of(content)) else None

    def listed(self, files: Sequence[FoundFile], ids: NDArray[np.int64], before: int) -> None:
        if self._cache is not None:
            self._cache.listed(files, ids, before)

    def forget(self) -> None:
        """⚠ After a fault: containers that were read may have files that nobody has recorded."""
        with self._lock:
            self._seen, self._reaches = SeenContainers(), {}

    def prove_cache(self, reader: MetadataReader) -> int:
        if self._cache is None:
            return 0
        return self._cache.prove(lambda hit: read_again(reader, hit, self._salt))

    def flush(self) -> None:
        if self._cache is not None:
            self._cache.flush()

    def _keep_reach(self, location: str, reach: Reach, files: Iterable[FileRef], metadata: bytes) -> None:
        """⚠ Only for a version that was read completely."""
        files = list(files)
        if not all(file.complete for file in files):
            return
        for file in files:
            known = self._reaches.get(file.location, ())
            self._reaches[file.location] = tuple({*known, *reach.places})
        if self._cache is not None:
            self._cache.put_reach(location, KeptReach(reach.places, metadata))


class _MarkedContainers(DecodedContainers):
    """The marked containers of one version."""

    def __init__(self, salt: bytes, cache: ManifestCache | None, reaches: dict[str, tuple[str, ...]], *, decodes: bool) -> None:
        self._salt = salt
        self._cache = cache
        self._reaches = reaches
        self._decodes = decodes
        self.missed: list[ManifestRef] = []
        self.manifests: list[MarkedManifest] = []
        self.places: set[str] = set()
        self.is_reach_known = True
        self.metadata = b""

    def metadata_of(self, reader: MetadataReader, location: str) -> bytes:
        content = super().metadata_of(reader, location)
        self.metadata = source_of(content)
        return content

    def manifests_of(self, reader: MetadataReader, location: str) -> list[ManifestRef]:
        found = None if self._cache is None else self._cache.manifest_list(location)
        if found is None:
            content = reader.read(location)
            found = manifests_of(location, content)
            if self._cache is not None:
                self._cache.put_list(location, found, source_of(content))
        return found

    def files_of(self, reader: MetadataReader, manifest: ManifestRef) -> Iterable[FileRef]:
        """None individually."""
        marks = None if self._cache is None else self._cache.manifest(manifest)
        if marks is None and not self._decodes:
            self.missed.append(manifest)
            self.is_reach_known = False
            return ()
        if marks is None:
            content = whole_manifest(manifest, reader)
            marks = mark_manifest(manifest.location, content, self._salt)
            if self._cache is not None:
                self._cache.put_manifest(manifest, marks, source_of(content))
        self.manifests.append(MarkedManifest(manifest, marks))
        return ()

    def skipped(self, location: str) -> None:
        places = self._reaches.get(location)
        if places is None:  # another thread is reading it
            self.is_reach_known = False
        else:
            self.places.update(places)


def read_again(reader: MetadataReader, hit: Hit, salt: bytes) -> object:
    """What the cache should have said."""
    content = reader.read(hit.ref.location) if hit.is_list else whole_manifest(hit.ref, reader)
    if not hit.is_decoded and hit.source and hit.source == source_of(content):
        return SAME_BYTES
    if hit.is_list:
        return manifests_of(hit.ref.location, content)
    return mark_manifest(hit.ref.location, content, salt)
