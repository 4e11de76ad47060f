"""Metadata in memory: bounded over all warehouses, the newest of a table longest, and never across warehouses."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import LocationForbidden
from headwater.service.iceberg.operations.metadata_cache import BYTES_A_BYTE, MetadataCache
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataFiles
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse


def file(name: str, size: int = 100) -> MetadataFile:
    return MetadataFile(name, b"x" * size)


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    kept: MetadataCache[MetadataFile] = MetadataCache(3 * 100 * BYTES_A_BYTE)
    for name in "abc":
        kept.keep(("w", name), file(name))
    assert kept.get(("w", "a")) is not None
    kept.keep(("w", "d"), file("d"))
    assert [name for name in "abcd" if kept.get(("w", name)) is None] == ["b"]
    assert kept.bytes == 3 * 100 * BYTES_A_BYTE


def test_tables_with_a_newer_version_are_loaded_first() -> None:
    kept: MetadataCache[MetadataFile] = MetadataCache(3 * 100 * BYTES_A_BYTE)
    for name in "abc":
        kept.keep(("w", name), file(name))
    kept.supersede(("w", "c"))
    kept.keep(("w", "d"), file("d"))
    assert [name for name in "abcd" if kept.get(("w", name)) is None] == ["c"]


def test_one_oversized_file_is_cached_and_evicted_ones_use_no_memory() -> None:
    kept: MetadataCache[MetadataFile] = MetadataCache(10)
    kept.keep(("w", "a"), file("a"))
    kept.keep(("w", "b"), file("b"))
    assert (kept.get(("w", "a")), kept.get(("w", "b")) is not None) == (None, True)
    kept.forget(("w", "b"))
    kept.forget(("w", "b"))
    assert kept.bytes == 0


def test_metadata_cached_for_one_warehouse_is_not_given_to_another(tmp_path: Path) -> None:
    """⚠ A commit through another API may name any location."""
    kept: MetadataCache[MetadataFile] = MetadataCache()
    mine, theirs = (MetadataFiles(Warehouse((tmp_path / name).as_uri()), LocalFiles(), kept) for name in ("mine", "theirs"))
    written = theirs.write(b"{}", (tmp_path / "theirs" / "t").as_uri(), {})
    assert theirs.load(written.location) is written
    assert mine.kept(written.location) is None
    with pytest.raises(LocationForbidden):
        mine.load(written.location)
