"""Resolves warehouse names, `lake` or `lake@branch`, to branches, with their metadata files and locks."""

from __future__ import annotations

import math
import re
import threading
import time

from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.storage_claims import claimed_roots, is_claimed
from headwater.producer.commits.owned_paths import roots_at
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.iceberg.operations.coalesced_reads import CoalescedReads
from headwater.service.iceberg.operations.content_metadata import CopyWriter
from headwater.service.iceberg.operations.delegation import Delegation
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.lake_branch import LakeBranch
from headwater.service.iceberg.operations.metadata_cache import MetadataCache
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataFiles
from headwater.service.iceberg.retry_priority import WriterQueue
from headwater.service.operations.realm_feeds import RealmFeed
from headwater.service.planning.manifest_cache import MANIFEST_CACHE_BYTES, ManifestCache
from headwater.service.storage.files import files_of
from headwater.service.storage.locations import Warehouse, is_below, resolved
from headwater.service.storage.storage_options import StorageOptions

SLASH = ":"
"""Stands for `/` in the name of a branch: a prefix is one segment of a path, and clients do not encode it."""

_NAME = re.compile(r"[^@~^*]*")
BRANCHES_KEPT_MAX = 10_000
CLAIMS_SECONDS = 1.0
"""For how long the storage roots of other catalogs are believed."""


class Lakes:
    """One per worker. Thread-safe."""

    def __init__(
        self,
        storage: StorageOptions | None = None,
        *,
        keys_kept_seconds: float = 0.0,
        copy_bytes_max: int = 0,
        manifest_cache_bytes: int = MANIFEST_CACHE_BYTES,
    ) -> None:
        """How long an Idempotency-Key is valid, as announced to clients: without it, some send none."""
        self.keys_kept_seconds = keys_kept_seconds
        self.storage = storage or StorageOptions()
        self.delegation = Delegation(self.storage)
        self._metadata: dict[str, MetadataFiles] = {}
        self._kept: MetadataCache[MetadataFile] = MetadataCache()
        self._branches: dict[tuple[str, str, str], LakeBranch] = {}
        self._locks = KeyLocks()
        self.copies = CopyWriter(copy_bytes_max)
        self.manifests = ManifestCache(manifest_cache_bytes)
        self.reads = CoalescedReads()
        self.turns = WriterQueue()
        self._lock = threading.Lock()
        self._claims: tuple[float, frozenset[str]] = (-math.inf, frozenset())

    def branch(self, feed: RealmFeed, prefix: str) -> LakeBranch:
        name, _, reference = prefix.partition("@")
        if not name or len(prefix) > 1_000:
            raise InvalidInput(
                f"{prefix[:80]!r} is not a warehouse.", field="warehouse", remedy="Use e.g. lake or lake@branch."
            )
        return self.branch_of(feed.kernel, feed.known_catalog(name) or feed.read_catalog(name), reference)

    def known_branch(self, feed: RealmFeed, prefix: str) -> LakeBranch | None:
        """From memory alone, so an event loop may call it."""
        name, _, reference = prefix.partition("@")
        catalog = feed.known_catalog(name) if name and len(prefix) <= 1_000 else None
        return None if catalog is None else self.branch_of(feed.kernel, catalog, reference)

    def branch_of(self, kernel: RealmKernel, catalog: Catalog, reference: str) -> LakeBranch:
        """The branch of one catalog as it is now: a catalog that was changed or re-created has branches of its own."""
        kept = self._branches.get((kernel.realm, catalog.name, reference))
        if kept is not None and kept.catalog is catalog and kept.kernel is kernel:
            return kept
        made = LakeBranch(
            kernel, catalog, spelled_out(reference), self.metadata_of(catalog), self._locks, self.copies, self.metadata_at
        )
        with self._lock:
            if len(self._branches) >= BRANCHES_KEPT_MAX:
                self._branches.clear()
            self._branches[kernel.realm, catalog.name, reference] = made
        return made

    def metadata_of(self, catalog: Catalog) -> MetadataFiles:
        return self._metadata_below(catalog.storage_root)

    def metadata_at(self, kernel: RealmKernel, catalog: Catalog, key: KeyPath, location: str) -> MetadataFiles:
        """Through which a file of what stands at the key is read: the catalog's own, or, where a connector's table lies
        elsewhere, that of the connector's root. ⚠ What lies in the storage of any catalog is read through that catalog alone:
        the source says where its tables lie."""
        own = self.metadata_of(catalog)
        if is_below(location, own.warehouse.root):
            return own
        for root in roots_at(kernel, catalog.id, key):
            if is_below(location, root) and not self._is_claimed(kernel, location):
                return self._metadata_below(Warehouse(root).root)
        return own

    def _is_claimed(self, kernel: RealmKernel, location: str) -> bool:
        read_at, roots = self._claims
        if time.monotonic() - read_at > CLAIMS_SECONDS:
            roots = claimed_roots(kernel)
            self._claims = (time.monotonic(), roots)
        return any(is_claimed(roots, one) for one in (location, resolved(location)))

    def _metadata_below(self, root: str) -> MetadataFiles:
        with self._lock:
            if root not in self._metadata:
                self._metadata[root] = MetadataFiles(Warehouse(root), files_of(root, self.storage.server), self._kept)
            return self._metadata[root]


def spelled_out(reference: str) -> str:
    """With the slashes of the name; a time behind it, as in `main*2026-01-31T12:00:00Z`, keeps its colons."""
    name = _NAME.match(reference)
    end = 0 if name is None else name.end()
    return reference[:end].replace(SLASH, "/") + reference[end:]


def prefix_of(warehouse: str) -> str:
    """What a client puts into its paths."""
    return warehouse.replace("/", SLASH)
