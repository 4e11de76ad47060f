"""What a sweep asks of storage and memory does not grow with what earlier runs have read."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from headwater.streaming.files.kinds import FileKind, kind_by_name
from headwater.streaming.files.marks import cache_proof
from tests.support.fixtures.swept_lake import ROWS, SweptLake, swept_lake

COMMITS = 100 if os.environ.get("HEADWATER_SOAK") == "1" else 12


def reads_of_a_sweep(lake: SweptLake, monkeypatch: pytest.MonkeyPatch) -> dict[FileKind, Counter[str]]:
    """Of metadata, by kind and location."""
    reads: dict[FileKind, Counter[str]] = {kind: Counter() for kind in FileKind}
    reading = lake.operations.storages.read

    def read(location: str, bytes_max: int) -> bytes:
        reads[kind_by_name(location)][location] += 1
        return reading(location, bytes_max)

    with monkeypatch.context() as counted:
        counted.setattr(lake.operations.storages, "read", read)
        [report] = lake.sweep(threads=1).roots  # several may read a new list at the same time
    assert not report.refusal
    return reads


def test_a_warm_run_reads_only_the_new_lists_and_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the metadata files of all retained versions, and a sample of at most twenty."""
    with swept_lake(tmp_path, cached=True) as lake:
        table = lake.table("t", COMMITS)
        lake.put("t", table.metadata_location)
        cold = reads_of_a_sweep(lake, monkeypatch)
        assert sum(cold[FileKind.MANIFEST_LIST].values()) == sum(cold[FileKind.MANIFEST].values()) == COMMITS
        for _ in range(COMMITS):
            table.append(ROWS)
            lake.put("t", table.metadata_location)
        monkeypatch.setattr(cache_proof, "PROVED_AT_LEAST", 0)
        monkeypatch.setattr(cache_proof, "PROVED_ONE_IN", 2**62)
        warm = reads_of_a_sweep(lake, monkeypatch)
        for kind in (FileKind.MANIFEST_LIST, FileKind.MANIFEST):
            assert sum(warm[kind].values()) == COMMITS and not set(warm[kind]) & set(cold[kind]), kind
        assert max(warm[FileKind.METADATA].values()) <= 2
        again = reads_of_a_sweep(lake, monkeypatch)
        assert not again[FileKind.MANIFEST_LIST] and not again[FileKind.MANIFEST]


def test_the_size_of_a_bloom_filter_is_kept_for_each_root(tmp_path: Path) -> None:
    from headwater.streaming.files.sweep.roots import Roots, roots_of

    with swept_lake(tmp_path) as lake:
        lake.put("t", lake.table("t", 3).metadata_location)
        roots = Roots(lake.store.backend, lake.store.clock)
        [root] = roots_of(lake.store, [lake.realm])
        assert roots.get(root).live_files == 0
        report = lake.sweep(filter="bloom", dry_run=True)
        assert roots.get(root).live_files == 0, "a dry run changes nothing"
        report = lake.sweep(filter="bloom")
        assert roots.get(root).live_files == report.live_files > 0
        lake.put("u", lake.table("u", 2).metadata_location)
        assert lake.sweep(filter="bloom").live_files == roots.get(root).live_files > report.live_files
