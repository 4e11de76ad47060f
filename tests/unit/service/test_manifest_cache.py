"""Decoded manifests are kept, bounded, and never given out under what another manifest list says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.manifest import ManifestFile

from bench.planning import SCHEMA, _manifest_list
from headwater.schemas.errors import LocationForbidden
from headwater.service.planning.file_planner import FilePlanner
from headwater.service.planning.manifest_cache import ManifestCache
from headwater.service.planning.manifest_reader import ManifestReader
from headwater.service.planning.scan_filter import ScanRequest
from headwater.service.storage.files import files_of
from headwater.service.storage.locations import Warehouse
from headwater.service.storage.weighed_cache import WeighedCache


class Counting:
    """Files, and how often one was read."""

    def __init__(self, root: str) -> None:
        self._files, self.read_of = files_of(root, {}), list[str]()

    def read(self, location: str) -> bytes:
        self.read_of.append(location)
        return self._files.read(location)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, Any]:
    monkeypatch.setattr("bench.planning.FILES", 40)
    monkeypatch.setattr("bench.planning.FILES_OF_MANIFEST", 10)
    root = tmp_path.as_uri()
    return root, _manifest_list(root), Counting(root)


def planner_of(root: str, list: str, files: Any, cache: ManifestCache) -> FilePlanner:
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    made = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"{root}/t")
    metadata: dict[str, Any] = json.loads(made.model_dump_json())
    reader = ManifestReader(Warehouse(root), files, cache)
    filter = json.dumps({"type": "lt", "term": "id", "value": 15}).encode()
    return FilePlanner(reader, metadata, {"snapshot-id": 1, "manifest-list": list}, ScanRequest(filter))


def paths(planner: FilePlanner) -> list[str]:
    return [one.data.file_path for one in planner.files(*planner.manifests())]


def test_a_manifest_is_decoded_once_and_plans_the_same(lake: tuple[str, str, Any]) -> None:
    root, listing, files = lake
    cache = ManifestCache(10_000_000)
    first = paths(planner_of(root, listing, files, cache))
    read = len(files.read_of)
    assert len(first) == 15 and read > 1
    assert paths(planner_of(root, listing, files, cache)) == first
    assert files.read_of[read:] == [listing]
    assert paths(planner_of(root, listing, files, ManifestCache(0))) == first


def test_manifest_entries_inherit_only_from_their_own_list(lake: tuple[str, str, Any]) -> None:
    root, listing, files = lake
    cache = ManifestCache(10_000_000)
    reader = ManifestReader(Warehouse(root), files, cache)
    manifest = reader.manifests(listing)[0]
    fields = {name: getattr(manifest, name) for name in ("manifest_path", "manifest_length", "content", "sequence_number")}
    other = ManifestFile.from_args(**fields, partition_spec_id=7, added_snapshot_id=manifest.added_snapshot_id)
    assert {one.data_file.spec_id for one in reader.entries(manifest)} == {0}
    assert {one.data_file.spec_id for one in reader.entries(other)} == {7}
    elsewhere = ManifestReader(Warehouse(f"{root}/elsewhere"), files, cache)
    with pytest.raises(LocationForbidden):
        elsewhere.entries(manifest)


def test_a_cache_holds_no_more_than_it_may() -> None:
    cache: WeighedCache[int, str] = WeighedCache(100)
    for number in range(10):
        cache.keep(number, str(number), 30)
        cache.get(0)
    assert cache.bytes == 90 and [number for number in range(10) if cache.get(number)] == [0, 8, 9]
    cache.keep(99, "large", 101)
    assert cache.get(99) is None and cache.bytes == 90


def test_requests_that_plans_keep_are_read_by_later_versions() -> None:
    """A plan's row outlives an update of the server."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"filter": b"x"}), type=ScanRequest) == ScanRequest(b"x")
