"""Keeps decoded manifests of a worker: the parts of a plan, and plans of one table, read the same ones again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyiceberg.manifest import ManifestEntry, ManifestFile

from headwater.service.storage.weighed_cache import WeighedCache

MANIFEST_CACHE_BYTES = 128 * 1024 * 1024
SAMPLES = 4
"""Entries of a manifest that are weighed: they are alike."""


class ManifestKey(NamedTuple):
    """⚠ With the warehouse, which says who may read it, and with what entries inherit: that comes from a manifest list, and
    another list may say otherwise of the same path."""

    root: str
    location: str
    spec_id: int
    sequence_number: int | None
    snapshot_id: int | None


def key_of(root: str, manifest: ManifestFile) -> ManifestKey:
    return ManifestKey(
        root, manifest.manifest_path, manifest.partition_spec_id, manifest.sequence_number, manifest.added_snapshot_id
    )


ManifestCache = WeighedCache[ManifestKey, Sequence[ManifestEntry]]


def kept_manifest(
    cache: ManifestCache, key: ManifestKey, decode: Callable[[], Sequence[ManifestEntry]]
) -> Sequence[ManifestEntry]:
    """⚠ Not to be changed."""
    known = cache.get(key)
    if known is None:
        known = decode()
        if cache.bytes_max:
            cache.keep(key, known, _weight(known))
    return known


def _weight(entries: Sequence[ManifestEntry]) -> int:
    if not entries:
        return 500
    sampled = entries[:: max(1, len(entries) // SAMPLES)]
    return 500 + len(entries) * sum(_size(one, set()) for one in sampled) // len(sampled)


def _size(value: Any, seen: set[int]) -> int:
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(_size(key, seen) + _size(one, seen) for key, one in value.items())
    if isinstance(value, list | tuple):
        return size + sum(_size(one, seen) for one in value)
    data = getattr(value, "_data", None)
    return size if data is None else size + _size(data, seen)
