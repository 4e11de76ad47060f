"""Warehouse names enter: `lake` or `lake@branch`; the branch that they mean leaves, with its metadata files and locks kept."""

from __future__ import annotations

import threading

from headwater.producer.catalog_records import Catalog
from headwater.schemas.errors import InvalidInput
from headwater.service.iceberg.operations.files import files_of
from headwater.service.iceberg.operations.lake_branch import KeyLocks, LakeBranch
from headwater.service.iceberg.operations.locations import Warehouse
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.operations.realm_feeds import RealmFeed

SLASH = ":"
"""Stands for `/` in the name of a branch: a prefix is one segment of a path, and clients do not encode it."""


class Lakes:
    """Of one worker. Thread-safe."""

    def __init__(self) -> None:
        self._metadata: dict[str, MetadataFiles] = {}
        self._locks = KeyLocks()
        self._lock = threading.Lock()

    def branch(self, feed: RealmFeed, prefix: str) -> LakeBranch:
        name, _, reference = prefix.partition("@")
        if not name or len(prefix) > 1_000:
            raise InvalidInput(f"{prefix[:80]!r} is no warehouse.", field="warehouse", remedy="Use e.g. lake or lake@branch.")
        catalog = feed.known_catalog(name) or feed.read_catalog(name)
        return LakeBranch(feed.kernel, catalog, reference.replace(SLASH, "/"), self._metadata_of(catalog), self._locks)

    def _metadata_of(self, catalog: Catalog) -> MetadataFiles:
        root = catalog.storage_root
        with self._lock:
            if root not in self._metadata:
                self._metadata[root] = MetadataFiles(Warehouse(root), files_of(root))
            return self._metadata[root]


def prefix_of(warehouse: str) -> str:
    """What a client puts into its paths."""
    return warehouse.replace("/", SLASH)
