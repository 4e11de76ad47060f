"""Finds the storage of a location by its scheme and authority, and keeps it open."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence

from headwater.schemas.errors import LocationForbidden
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.metered_store import Budget, MeteredStore
from headwater.streaming.files.stores.object_store import ObjectStore
from headwater.streaming.files.stores.remote_store import RemoteStore
from headwater.streaming.files.stores.store_options import vendor_of

_ROOT = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]+)")


class Storages:
    """One per process. Thread-safe."""

    def __init__(self, options: Mapping[str, str] | None = None, budget: Budget | None = None) -> None:
        self._options = dict(options or {})
        self._budget = budget
        self._local = self._within_budget(LocalFiles())
        self._remote: dict[str, ObjectStore] = {}
        self._lock = threading.Lock()

    def of(self, location: str) -> ObjectStore:
        if location.startswith(("/", "file:/")):
            return self._local
        match = _ROOT.match(location)
        vendor = vendor_of(match["scheme"]) if match is not None else None
        if match is None or vendor is None:
            raise LocationForbidden(
                f"{location[:200]!r} is on no storage that is known here.",
                field="location",
                remedy="Write an absolute path, or a location of S3 (s3://), Google Cloud Storage (gs://) or Azure (abfss://).",
            )
        with self._lock:
            if match[0] not in self._remote:
                self._remote[match[0]] = self._open(vendor, match)
            return self._remote[match[0]]

    def read(self, location: str, bytes_max: int) -> bytes:
        return self.of(location).read(location, bytes_max)

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        return self.of(prefix).list(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.of(prefix).folders(prefix)

    def head(self, location: str) -> FoundFile | None:
        return self.of(location).head(location)

    def _open(self, vendor: str, match: re.Match[str]) -> ObjectStore:
        bucket, _, host = match["authority"].partition("@")
        options = self._options
        if vendor == "azure" and host:
            options = {"adls.account-name": host.partition(".")[0], **options}
        return self._within_budget(RemoteStore(vendor, match[0], bucket, options))

    def _within_budget(self, store: ObjectStore) -> ObjectStore:
        return store if self._budget is None else MeteredStore(store, self._budget)
