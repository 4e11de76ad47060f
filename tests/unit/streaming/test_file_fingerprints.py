"""Millions of fingerprints and candidates are kept in little memory, and none is lost or made up."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from headwater.schemas.errors import Corruption
from headwater.streaming.files import fingerprints as fingerprints_module
from headwater.streaming.files.fingerprints import FingerprintCollector, among, as_array, id_set
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.spilled_files import SpilledFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.condemned_files import (
    StoredList,
    drop_list,
    list_parts,
    read_list,
    write_index,
    write_list,
    write_part,
)


def test_collected_fingerprints_are_those_that_were_added_sorted_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints_module, "LOOSE_MAX", 7)
    chance, wanted, collector = random.Random(5), set[int](), FingerprintCollector()
    for _ in range(200):
        ids = np.array([chance.randrange(500) for _ in range(chance.randrange(20))], np.int64)
        collector.add_many(ids)
        collector.add(chance.randrange(2**62))
        wanted.update(ids.tolist())
        wanted.update(collector._newest[-1:])
    found = collector.finish()
    assert wanted <= set(found) and list(found) == sorted(set(found))
    assert all(one in found for one in wanted) and 2**62 not in found
    assert among(as_array(found), np.array([-1, 2**62, list(found)[3]])).tolist() == [False, False, True]
    assert not among(as_array(FingerprintCollector().finish()), np.array([1])).any()


def test_two_million_files_in_use_are_collected_in_24_bytes_each() -> None:
    files, at_once = 2_000_000, 10_000
    numbers = np.random.default_rng(1)
    tracemalloc.start()
    try:
        collector = FingerprintCollector()
        for _ in range(files // at_once):
            collector.add_many(np.sort(numbers.integers(0, 2**62, at_once)))
        found = collector.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == files and peak < 24 * files


def test_candidates_wait_on_disk_with_sixteen_bytes_of_memory_each() -> None:
    files = 40_000
    spilled = SpilledFiles()
    tracemalloc.start()
    try:
        for number in range(files):
            spilled.add(FoundFile(f"s3://lake/shop/orders/data/part-{number:08}.parquet", 10, 5), number)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 16 * files + 1_000_000
        assert spilled.spare({"/shop/orders/data/part-0000001"}) == 10
        chosen = np.zeros(files, np.bool_)
        chosen[[5, 10, 15, 30_000]] = True
        spilled.keep_only(chosen)
        assert [file.location[-12:] for file in spilled] == ["0005.parquet", "0000.parquet"]
        assert spilled.ids().tolist() == [5, 30_000] and len(spilled) == 2 and spilled.bytes == 20
    finally:
        tracemalloc.stop()
        spilled.close()


def test_a_list_in_parts_reads_like_one_and_damage_of_any_part_is_noticed(tmp_path: Path) -> None:
    storages, stem = Storages(), f"file://{tmp_path}/root/_headwater/condemned-1"
    numbers = np.arange(0, 100, 7)
    whole = write_list(storages, stem, id_set(numbers))
    parts = [write_part(storages, f"{stem}-p{at}.bin", id_set(numbers[at : at + 5])) for at in range(0, len(numbers), 5)]
    index = write_index(storages, stem, parts)
    assert list(read_list(storages, whole)) == list(read_list(storages, index)) == numbers.tolist()
    assert list(read_list(storages, write_index(storages, f"{stem}-empty", []))) == []
    assert len(list_parts(storages, index)) == 3 and len(list_parts(storages, whole)) == 1
    broken = Path(parts[1].location.removeprefix("file://"))
    broken.write_bytes(broken.read_bytes()[:-8])
    with pytest.raises(Corruption):
        read_list(storages, index)
    with pytest.raises(Corruption):
        read_list(storages, StoredList(index.location, "0" * 64))
    drop_list(storages, index)
    assert not broken.exists() and Path(whole.location.removeprefix("file://")).exists()
