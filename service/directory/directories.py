"""The directories of one worker: ids are looked up at once where they are known, and covered on threads of their own."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.content.snapshots import ContentEntry
from headwater.schemas.errors import NotServing
from headwater.service.directory.catalog_directory import CatalogDirectory, DirectoryOptions
from headwater.service.directory.key_table import ID_BYTES

READY_SECONDS = 2.0
"""How long a call waits for a directory that is being read; its caller is asked to come again."""
THREADS_MAX = 2


class Directories:
    def __init__(self, options: DirectoryOptions | None = None, *, ready_seconds: float = READY_SECONDS) -> None:
        self._options = options or DirectoryOptions()
        self._ready_seconds = ready_seconds
        self._directories: OrderedDict[tuple[str, int], CatalogDirectory] = OrderedDict()
        self._watched: set[int] = set()
        self._covering: dict[tuple[CatalogDirectory, bytes], Future[None]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="directory")

    def known(self, kernel: RealmKernel, catalog_id: int, at: LogRecord, content_id: str) -> ContentEntry | None:
        """What stands in that state under the id, as far as it is known: `find` says for certain that nothing does."""
        id = id_bytes(content_id)
        return None if id is None else self.of(kernel, catalog_id).find(at, id)

    async def find(self, kernel: RealmKernel, catalog_id: int, at: LogRecord, content_id: str) -> ContentEntry | None:
        """Whatever is in that state is known before None is returned. `NotServing` while that takes long."""
        directory, id = self.of(kernel, catalog_id), id_bytes(content_id)
        if id is None:
            return None
        if not directory.covers(at):
            covering = asyncio.wrap_future(self._cover(directory, at))
            done, _ = await asyncio.wait([covering], timeout=self._ready_seconds)
            if not done:
                raise NotServing(
                    "the directory of the catalog is being read.",
                    field="id",
                    remedy="Send it again in a moment, or name it by its name.",
                    retry_after_seconds=self._ready_seconds,
                )
            covering.result()
        # ⚠ The one that was covered: `of` gives another one if this one was dropped for room, or after a restore, meanwhile.
        return await asyncio.to_thread(directory.find, at, id)

    def of(self, kernel: RealmKernel, catalog_id: int) -> CatalogDirectory:
        name = (kernel.realm, catalog_id)
        with self._lock:
            if id(kernel.store) not in self._watched:
                self._watched.add(id(kernel.store))
                kernel.store.restores.on_restored(self._forget)
            directory = self._directories.pop(name, None)
            if directory is None:
                directory = CatalogDirectory(kernel, catalog_id, self._options, self._closing.is_set)
            self._directories[name] = directory
            return directory

    def close(self) -> None:
        """What is being read gives up soon."""
        self._closing.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _cover(self, directory: CatalogDirectory, at: LogRecord) -> Future[None]:
        """One for all who wait for the same state."""
        name = (directory, at.entry_id)
        with self._lock:
            known = self._covering.get(name)
            if known is None:
                known = self._covering[name] = self._threads.submit(self._covered, directory, at, name)
            return known

    def _covered(self, directory: CatalogDirectory, at: LogRecord, name: tuple[CatalogDirectory, bytes]) -> None:
        try:
            with directory.lock:
                directory.cover(at)
        finally:
            with self._lock:
                self._covering.pop(name, None)
        self._make_room()
        if directory.needs_checkpoint():
            with suppress(RuntimeError):  # the worker stops
                self._threads.submit(self._saved, directory)

    def _saved(self, directory: CatalogDirectory) -> None:
        with directory.lock:
            if directory.needs_checkpoint():
                directory.save()

    def _make_room(self) -> None:
        with self._lock:
            directories = self._directories
            while len(directories) > 1 and sum(one.size_bytes for one in directories.values()) > self._options.bytes_max:
                directories.popitem(last=False)

    def _forget(self) -> None:
        with self._lock:
            self._directories.clear()


def id_bytes(content_id: str) -> bytes | None:
    """None for what is no id at all."""
    try:
        id = bytes.fromhex(content_id.replace("-", ""))
    except ValueError:
        return None
    return id if len(id) == ID_BYTES else None
