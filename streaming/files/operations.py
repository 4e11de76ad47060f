"""Identifies, finds and purges files. Finding and deleting are separate: nothing does both in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headwater.persistence.clock import Clock, SystemClock
from headwater.schemas.errors import InvalidInput
from headwater.streaming.files.batches import distinct
from headwater.streaming.files.filters import EVERY_FILE, FileFilter
from headwater.streaming.files.formats.delta_logs import delta_files
from headwater.streaming.files.formats.iceberg_tables import table_files
from headwater.streaming.files.formats.iceberg_views import view_files
from headwater.streaming.files.formats.reading import Fault, MetadataReader, Mode
from headwater.streaming.files.kinds import FileRef, FoundFile
from headwater.streaming.files.marks.cache_proof import CacheSafeguards
from headwater.streaming.files.marks.manifest_cache import ManifestCache
from headwater.streaming.files.purging import Purge, PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.stores.listing import list_in_parallel
from headwater.streaming.files.stores.storages import Storages

TABLE, VIEW, DELTA_TABLE = "table", "view", "delta-table"
_READERS = {TABLE: table_files, VIEW: view_files, DELTA_TABLE: delta_files}


class FileOperations:
    """One per process. Thread-safe."""

    def __init__(self, storages: Storages, clock: Clock | None = None, *, cache_folder: str = "") -> None:
        """`cache_folder` is where runs remember which files manifests name; without it each run reads all manifests."""
        self.storages = storages
        self._clock = clock or SystemClock()
        self.cache_folder = cache_folder

    def identify(
        self,
        location: str,
        kind: str = TABLE,
        mode: Mode = Mode.STRICT,
        *,
        deduplicate: bool = False,
        on_fault: Callable[[Fault], None] | None = None,
    ) -> Iterator[FileRef]:
        """The files that one version of a table or view references, each before the file that names it."""
        if kind not in _READERS:
            raise InvalidInput(
                f"{kind!r} is not a kind of content with files.", field="kind", remedy="Use table, view or delta-table."
            )
        files = _READERS[kind](MetadataReader(self.storages, mode, on_fault), location)
        return distinct(files) if deduplicate else files

    def find(self, prefix: str, chosen: FileFilter = EVERY_FILE) -> Iterator[FoundFile]:
        """The files below a folder. An error means that the listing is not complete."""
        for page in self.pages(prefix):
            yield from (file for file in page if chosen(file))

    def pages(self, prefix: str, *, threads: int = 1, shares: int = 1) -> Iterator[list[FoundFile]]:
        """The same, page by page: split into so many shares for so many threads, and then in no particular order."""
        folder = prefix.rstrip("/") + "/"
        return list_in_parallel(self.storages.of(folder), folder, shares=shares, threads=threads)

    def manifest_cache(self, salt: bytes, safeguards: CacheSafeguards | None = None) -> ManifestCache | None:
        """For one run."""
        if not self.cache_folder:
            return None
        return ManifestCache(self.storages, self.cache_folder, salt, self._clock, safeguards=safeguards)

    def purge(self, files: Iterable[FileRef], spec: PurgeSpec | None = None) -> PurgeStats:
        return Purge(self.storages, spec or PurgeSpec(), self._clock).run(files)
