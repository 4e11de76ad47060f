"""What a worker needs to open the store and the storages.

⚠ It travels inside functions, where credentials are not shown, and never in a plan.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.clock import SystemClock
from headwater.streaming.files.marks.cache_proof import CacheSafeguards
from headwater.streaming.files.marks.manifest_cache import ManifestCache
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.metered_store import budget_of
from headwater.streaming.files.stores.storages import Storages


class WorkerFiles(msgspec.Struct, frozen=True, kw_only=True):
    store_url: str
    options: dict[str, str] = {}
    requests_per_second: float = 0
    """For all workers together; 0 means no limit."""
    bytes_per_second: float = 0
    cache_folder: str = ""
    """Folder of the manifest cache. ⚠ If workers cannot reach it, the run takes longer, but no file is lost."""
    tasks: int = 1
    """How many tasks run at a time: each gets its share of the limits."""

    def __repr__(self) -> str:
        return "WorkerFiles(…)"

    def storages(self) -> Storages:
        requests, bytes_ = self.requests_per_second / self.tasks, self.bytes_per_second / self.tasks
        return Storages(self.options, budget_of(requests, bytes_, SystemClock()))

    def operations(self) -> FileOperations:
        return FileOperations(self.storages(), cache_folder=self.cache_folder)

    def cache(self, storages: Storages, salt: bytes, safeguards: CacheSafeguards) -> ManifestCache | None:
        if not self.cache_folder:
            return None
        return ManifestCache(storages, self.cache_folder, salt, SystemClock(), safeguards=safeguards)
