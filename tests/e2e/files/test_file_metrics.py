"""Metrics of file sweeps and purges: what became of files and bytes, added up over runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import StoreUnavailable
from headwater.service.observability.maintenance_metrics import MaintenanceCollector
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.object_store import Deleted
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, purge_tasks
from tests.support.fixtures.swept_lake import AGELESS, NOW, SweptLake, swept_lake

FILES, BYTES, REFUSALS = (f"headwater_maintenance_{name}_total" for name in ("files", "file_bytes", "file_refusals"))


def shown(lake: SweptLake, name: str, operation: str) -> dict[str, float]:
    """By result, or by realm."""
    samples = [sample for family in MaintenanceCollector(lake.store).collect() for sample in family.samples]
    mine = [sample for sample in samples if sample.name == name and sample.labels["operation"] == operation]
    return {sample.labels.get("result", sample.labels.get("realm", "")): sample.value for sample in mine}


def bytes_below(lake: SweptLake) -> int:
    """Without our own."""
    return sum(file.size for file in lake.operations.find(lake.root) if "/_headwater/" not in file.location)


def test_a_sweep_counts_files_and_bytes_and_a_dry_run_counts_none(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.put("kept", lake.table("kept", 2).metadata_location)
        orphan = lake.needed(lake.table("orphan", 2).metadata_location)
        lake.sweep(dry_run=True)
        assert shown(lake, FILES, "files-sweep") == {}
        lake.sweep()
        first = shown(lake, FILES, "files-sweep")
        of_tables = [file for file in lake.operations.find(lake.root) if "/_headwater/" not in file.location]
        assert first["listed"] == first["kept"] == len(of_tables) > len(orphan) and first["deleted"] == 0
        assert shown(lake, BYTES, "files-sweep")["listed"] == bytes_below(lake)
        before = bytes_below(lake)
        lake.sweep()
        second = shown(lake, FILES, "files-sweep")
        assert (second["deleted"], second["failed"], second["refused"]) == (len(orphan), 0, 0)
        assert second["listed"] == second["kept"] + second["deleted"]
        sizes = shown(lake, BYTES, "files-sweep")
        assert sizes["deleted"] == before - bytes_below(lake) > 0 and sizes["listed"] == sizes["kept"] + sizes["deleted"]
        assert shown(lake, REFUSALS, "files-sweep") == {"first": 0}
        assert shown(lake, "headwater_maintenance_runs_total", "files-sweep") == {"": 2}
        assert shown(lake, "headwater_maintenance_seconds_total", "files-sweep")[""] > 0


def test_a_refused_root_counts_the_files_that_it_kept(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.put("kept", lake.table("kept").metadata_location)
        orphan = lake.needed(lake.table("orphan", 5).metadata_location)
        size = sum(file.size for file in lake.operations.find(lake.root) if file.location in orphan)
        lake.sweep()
        [report] = lake.sweep(share_max=0.1).roots
        assert "would go" in report.refusal
        assert (shown(lake, FILES, "files-sweep")["refused"], shown(lake, FILES, "files-sweep")["deleted"]) == (len(orphan), 0)
        assert shown(lake, BYTES, "files-sweep")["refused"] == size
        assert shown(lake, REFUSALS, "files-sweep") == {"first": 1}


def test_deletions_of_a_stopped_run_are_counted(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.table("orphan", 5)
        lake.sweep()
        before, deletions = lake.files(), list[int]()

        def stop(step: str) -> None:
            if step == "delete":
                deleting = LocalFiles.delete

                def delete(self: LocalFiles, locations: list[str]) -> Deleted:
                    deletions.append(len(locations))
                    if len(deletions) == 3:
                        raise KeyboardInterrupt
                    return deleting(self, locations)

                patched.setattr(LocalFiles, "delete", delete)

        with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
            lake.sweep(NOW, AGELESS, stop, batch_size=2)
        assert shown(lake, FILES, "files-sweep")["deleted"] == len(before - lake.files()) == 4


def test_a_purge_that_is_tried_again_counts_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        needed = lake.needed(location)
        drop_with_purge(lake, "t", location)
        forget_history(lake)
        deleting = LocalFiles.delete

        def delete(self: LocalFiles, locations: list[str]) -> Deleted:
            if any(one.endswith(".parquet") for one in locations):
                raise StoreUnavailable("access denied", retriable=False)
            return deleting(self, locations)

        with monkeypatch.context() as faulty:
            faulty.setattr(LocalFiles, "delete", delete)
            purge_tasks(lake)
        gone = len(needed - lake.files())
        first = shown(lake, FILES, "files-purge")
        assert (first["deleted"], first["failed"]) == (gone, 2) and 0 < gone < len(needed)
        purge_tasks(lake)
        second = shown(lake, FILES, "files-purge")
        assert (second["deleted"], second["failed"]) == (len(needed), 2) and not lake.files()
        rows = shown(lake, "headwater_maintenance_rows_total", "files-purge")
        assert rows["purged"] == len(needed)
        assert shown(lake, BYTES, "files-purge")["deleted"] > 0


def test_a_dropped_table_below_a_root_without_a_claim_counts_as_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        drop_with_purge(lake, "t", location)
        purge_tasks(lake)
        assert shown(lake, REFUSALS, "files-purge") == {}, "waiting for history is no refusal"
        forget_history(lake)
        (Path(lake.root.removeprefix("file://")) / "_headwater" / "root.json").unlink()
        purge_tasks(lake)
        assert shown(lake, REFUSALS, "files-purge") == {"first": 1}
