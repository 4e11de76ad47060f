"""Loads the metadata of what stands at a key: from memory, from the copy in the store, or from its file; and keeps the copies.

Files on this machine are not copied: reading them costs what reading the store does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.records.metadata_copies import MetadataCopies, SourceFile
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import HeadwaterError
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataFiles

WAITING_MAX = 1_000
"""Writes of copies; what comes beyond is left out, and made when the content is read first."""
LOCATION = "metadata_location"

_log = logging.getLogger(__name__)


class CopyWriter:
    """Writes copies after the requests that caused them. One per worker. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """0 keeps no copies."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="metadata-copies")
        self._free = threading.BoundedSemaphore(WAITING_MAX)

    def later(self, work: Callable[[], None]) -> None:
        if not self._free.acquire(blocking=False):
            return
        try:
            self._pool.submit(self._run, work)
        except RuntimeError:  # the server is about to end
            self._free.release()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except HeadwaterError as error:
            _log.debug("a copy of metadata was not kept: %s", error)
        finally:
            self._free.release()

    def close(self) -> None:
        """What waits is written; what comes later is left out."""
        self._pool.shutdown()

    def wait(self) -> None:
        """Until everything that was asked for so far is done."""
        self._pool.submit(lambda: None).result()


NO_COPIES = CopyWriter(0)


class ContentMetadata:
    """One per branch or other reference."""

    def __init__(self, kernel: RealmKernel, files: MetadataFiles, writer: CopyWriter) -> None:
        self._files = files
        self._writer = writer
        store = kernel.store
        root = files.warehouse.root
        self._copies = MetadataCopies(store.backend, kernel.realm, root, store.clock, writer.bytes_max)
        self._keeps_copies = writer.bytes_max > 0 and not files.is_local

    def load(self, location: str, content_object: Callable[[], int | None]) -> MetadataFile:
        """What memory does not have. A copy counts as a file that was just seen."""
        if not self._keeps_copies:
            return self._files.load(location)
        object_id = content_object()
        copy = None if object_id is None else self._copy_of(object_id, location)
        if copy is not None:
            return copy
        file = self._files.load(location)
        if object_id is not None:
            self._write({object_id: file}, [])
        return file

    def committed(self, logged: LogRecord | None) -> None:
        """Copies of what an entry has put go into the store, those of what it has replaced go."""
        if logged is None or not self._keeps_copies:
            return
        made: dict[int, MetadataFile] = {}
        replaced: list[int] = []
        for op in logged.entry.operations:
            if op.before_id and LOCATION in (op.before or {}):
                replaced.append(op.before_id)
            file = self._files.kept(str((op.after or {}).get(LOCATION)))
            if op.after_id and file is not None:
                made[op.after_id] = file
        if made or replaced:
            self._write(made, replaced)

    def _copy_of(self, object_id: int, location: str) -> MetadataFile | None:
        try:
            json = self._copies.read(object_id, location)
            return None if json is None else self._files.take_copy(location, json)
        except HeadwaterError as error:  # the file itself has the last word
            _log.warning("the copy of %s cannot be used: %s", location, error)
            return None

    def _write(self, made: dict[int, MetadataFile], replaced: Sequence[int]) -> None:
        files = {object_id: SourceFile(file.location, file.json) for object_id, file in made.items()}

        def write() -> None:
            self._copies.write(files)
            self._copies.remove(replaced)

        self._writer.later(write)
