"""Sweeps that remember manifests: a warm run reads what is new, and an unreadable version refuses its own root alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.files.marks import manifest_cache
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.roots import place_of
from headwater.streaming.files.sweep.store_marks import fence_patiently, file_salt, markable_realms
from tests.support.fixtures.swept_lake import AGELESS, SweptLake, swept_lake


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def count_reads(lake: SweptLake, patch: pytest.MonkeyPatch) -> Counter[str]:
    reads: Counter[str] = Counter()
    reading = lake.operations.storages.read

    def counted(location: str, bytes_max: int) -> bytes:
        if not location.endswith(".parquet"):
            reads["list" if "/snap-" in location else location.rpartition(".")[2]] += 1
        return reading(location, bytes_max)

    patch.setattr(lake.operations.storages, "read", counted)
    return reads


def live_ids(lake: SweptLake) -> list[int]:
    live = LiveFiles(
        lake.operations.storages,
        [place_of(f"{lake.root}/")],
        file_salt(lake.store),
        lake.store.clock,
        safeguards=AGELESS,
        cache=lake.operations.manifest_cache(file_salt(lake.store)),
    )
    for realm in markable_realms(lake.store):
        live.add(lake.store.backend, realm, fence_patiently(lake.store.backend, realm, lake.store.clock).spans)
    ids = list(live.finish())
    live.close()
    return ids


def test_a_warm_run_reads_new_lists_and_their_new_manifests_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "PROVED_AT_LEAST", 0)
    monkeypatch.setattr(manifest_cache, "PROVED_ONE_IN", 2**62)
    with swept_lake(tmp_path, cached=True) as lake:
        table = lake.table("t", 3)
        lake.put("t", table.metadata_location)
        cold = live_ids(lake)
        reads = count_reads(lake, monkeypatch)
        assert live_ids(lake) == cold
        assert reads == {"json": 1}
        reads.clear()
        for _ in range(2):
            table.append(table.scan().to_arrow().slice(0, 1))
            lake.put("t", table.metadata_location)
        live_ids(lake)
        assert reads == {"json": 3, "list": 2, "avro": 2}


@pytest.mark.parametrize("damage", ["lost", "random"])
def test_a_lost_or_damaged_cache_marks_the_same_files(tmp_path: Path, damage: str) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        lake.put("t", lake.table("t", 2).metadata_location)
        cold = live_ids(lake)
        files = list((tmp_path / "kept").rglob("*.parquet"))
        assert files
        for file in files:
            file.unlink() if damage == "lost" else file.write_bytes(b"\x07" * 500)
        assert live_ids(lake) == cold == live_ids(lake)


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def of_format_nine(path: Path) -> None:
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":9'))


@pytest.mark.parametrize("damage", [delete, cut, of_format_nine])
def test_a_version_that_was_read_before_and_cannot_be_read_now_refuses_its_own_root_alone(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        broken = lake.table("broken").metadata_location
        lake.put("broken", broken)
        needed, orphan = lake.needed(broken), lake.needed(lake.table("orphan").metadata_location)
        elsewhere = f"file://{tmp_path}/second"
        other = lake.new_realm("second", elsewhere)
        lake.claim_of(other)
        unused = path_of(elsewhere) / "t" / "data" / "unused.parquet"
        unused.parent.mkdir(parents=True)
        unused.write_text("unused")
        lake.sweep()
        damage(path_of(broken))
        reports = {report.root: report for report in lake.sweep().roots}
        assert broken in reports[f"{lake.root}/"].refusal and "Nothing was deleted" in reports[f"{lake.root}/"].refusal
        assert not reports[f"{elsewhere}/"].refusal and not unused.exists()
        assert (needed | orphan) - lake.files() <= {broken}


def test_a_lost_version_is_given_up_by_name_and_the_root_is_swept_again(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        broken = lake.table("broken").metadata_location
        lake.put("broken", broken)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        path_of(broken).unlink()
        assert f"--accept-missing {broken}" in lake.sweep().roots[0].refusal and orphan <= lake.files()
        lake.sweep(accept_missing=[broken])
        assert not orphan & lake.files()


def test_a_version_that_was_never_read_refuses_every_root(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        location = lake.table("broken").metadata_location
        lake.put("broken", location)
        path_of(location).write_bytes(b"{}")
        with pytest.raises(MaintenanceRefused):
            lake.sweep()


def test_a_damaged_version_whose_files_reach_outside_of_all_roots_refuses_every_root(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        location = lake.table("broken").metadata_location
        copied = tmp_path / "mount" / "v1.metadata.json"
        copied.parent.mkdir()
        copied.write_bytes(path_of(location).read_bytes())
        lake.put("broken", f"file://{copied}")
        lake.sweep()
        copied.unlink()
        with pytest.raises(MaintenanceRefused):
            lake.sweep()
