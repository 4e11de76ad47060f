"""A file sweep deletes what no retained state needs, after a second look, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
from tests.support.fixtures.swept_lake import AGELESS, NOW, swept_lake


def test_unused_files_go_in_the_second_run_and_everything_in_use_stays(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept", 3)
        lake.put("kept", kept.metadata_location)
        orphan = lake.needed(lake.table("orphan", 2).metadata_location)
        [first] = lake.sweep().roots
        assert (first.condemned, first.confirmed, first.purge) == (len(orphan), 0, None) and orphan <= lake.files()
        [second] = lake.sweep().roots
        assert second.purge is not None and (second.purge.purged, second.purge.failed) == (len(orphan), 0)
        assert lake.files() == lake.needed(kept.metadata_location) and not second.damage and not second.refusal


def test_a_dropped_table_stays_while_its_history_is_retained(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        lake.drop("t")
        [report] = lake.sweep_twice().roots
        assert lake.needed(location) <= lake.files() and report.condemned == 0


def test_a_dry_run_changes_nothing_and_counts_for_no_second_look(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.table("orphan")
        before = {file.location: file for file in lake.operations.find(lake.root)}
        [report] = lake.sweep(dry_run=True).roots
        assert report.condemned > 0 and {file.location: file for file in lake.operations.find(lake.root)} == before
        [first] = lake.sweep().roots
        assert first.confirmed == 0


def test_a_bloom_filter_that_overflows_deletes_nothing_and_the_next_one_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.schemas.errors import FilterOverflow
    from headwater.streaming.retained import retained_filter

    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept", 12)
        lake.put("kept", kept.metadata_location)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        monkeypatch.setattr(retained_filter, "CAPACITY_MIN", 5)
        with pytest.raises(FilterOverflow):
            lake.sweep(filter="bloom")
        lake.sweep(filter="bloom")
        [report] = lake.sweep(filter="bloom").roots
        assert report.purge is not None and lake.needed(kept.metadata_location) <= lake.files()
        assert len(orphan & lake.files()) <= 1  # a false positive may spare one


def test_a_grace_below_a_day_is_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake, pytest.raises(InvalidInput, match="grace"):
        lake.sweep(NOW, ALL_ON)


def test_young_files_stay(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.table("orphan")
        options = FileSweepOptions(confirm_hours=0, share_max=1)
        lake.sweep(options, ALL_ON)
        [report] = lake.sweep(options, ALL_ON).roots
        assert (report.condemned, report.purge) == (0, None) and report.young > 0


def test_a_missing_metadata_file_refuses_until_it_is_given_up_by_name(tmp_path: Path) -> None:
    from headwater.schemas.errors import MaintenanceRefused

    with swept_lake(tmp_path) as lake:
        lost = lake.table("lost").metadata_location
        lake.put("lost", lost)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        Path(lost.removeprefix("file://")).unlink()
        with pytest.raises(MaintenanceRefused, match="is missing"):
            lake.sweep()
        lake.sweep(accept_missing=[lost])
        lake.sweep(accept_missing=[lost])
        assert not orphan & lake.files()


@pytest.mark.parametrize("damage", [b"", b"\x00random\xff" * 40, b'{"format-version": 9}'])
def test_damaged_metadata_deletes_nothing_anywhere(tmp_path: Path, damage: bytes) -> None:
    from headwater.schemas.errors import MaintenanceRefused

    with swept_lake(tmp_path) as lake:
        table = lake.table("t", 2)
        lake.put("t", table.metadata_location)
        lake.table("orphan")
        before = lake.files()
        Path(table.metadata_location.removeprefix("file://")).write_bytes(damage)
        with pytest.raises(MaintenanceRefused, match="cannot be read"):
            lake.sweep_twice(AGELESS)
        assert lake.files() == before
