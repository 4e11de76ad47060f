"""A file sweep deletes what no retained state needs, after a second look, and nothing else."""

from __future__ import annotations

import gc
import json
import unicodedata
import warnings
from pathlib import Path
from urllib.parse import quote

import pytest

from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import InvalidInput, MaintenanceRefused, StoreUnavailable
from headwater.streaming.files import file_groups as file_groups_module
from headwater.streaming.files.file_groups import file_groups, table_folder
from headwater.streaming.files.kinds import FileKind, FileRef, kind_by_name
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.file_sweep import FileSweep, FileSweepOptions
from tests.support.fixtures.swept_lake import AGELESS, META, NOW, swept_lake


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


def test_a_dry_run_counts_files_to_delete_by_table_and_kind(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept", 2)
        lake.put("kept", kept.metadata_location)
        orphans = {name: list(lake.operations.identify(lake.table(name, 5).metadata_location)) for name in ("one", "two")}
        sizes = {file.location: file.size for file in lake.operations.find(lake.root)}
        wanted = {
            (f"db/{name}", kind): sorted({file.location for file in files if kind_by_name(file.location) is kind})
            for name, files in orphans.items()
            for kind in (FileKind.DATA, FileKind.MANIFEST, FileKind.MANIFEST_LIST, FileKind.METADATA)
        }
        [first] = lake.sweep(dry_run=True).roots
        shown = {(group.table, group.kind): group for group in first.sample}
        assert {key: group.files for key, group in shown.items()} == {key: len(files) for key, files in wanted.items()}
        for key, files in wanted.items():
            group = shown[key]
            assert group.bytes == sum(sizes[one] for one in files) and group.confirmed == 0
            assert len(group.examples) == 3 and set(group.examples) < set(files), "some of them, not all"
        assert list(shown) == sorted(shown)
        lake.sweep()
        [second] = lake.sweep(dry_run=True).roots
        assert [group.confirmed for group in second.sample] == [group.files for group in second.sample]
        assert lake.sweep().roots[0].sample == []


def test_groups_are_bounded_and_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_groups_module, "GROUPS_MAX", 2)
    files = [FileRef(f"s3://b/t{number}/data/x.parquet", FileKind.DATA, 10) for number in range(5)]
    groups = file_groups(files, lambda one: table_folder("s3://b/", one))
    assert [(it.table, it.files, it.bytes) for it in groups] == [("t0", 1, 10), ("t1", 1, 10), ("(others)", 3, 30)]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/r/db/t/data/day=1/x.parquet", "db/t"),
        ("s3://b/r/db/t/metadata/v1.metadata.json", "db/t"),
        ("s3://b/r/data/data/data/x.parquet", "data/data"),
        ("s3://b/r/loose/x.parquet", "loose"),
        ("s3://b/r/x.parquet", ""),
    ],
)
def test_the_folder_of_a_table_is_the_one_around_data_and_metadata(location: str, expected: str) -> None:
    assert table_folder("s3://b/r/", location) == expected


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


def test_a_missing_metadata_file_refuses_the_sweep_until_it_is_abandoned_by_name(tmp_path: Path) -> None:
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


def test_a_read_that_fails_half_way_is_repeated_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second attempt that skipped what the first one has read would take those files for unused."""
    from headwater.schemas.errors import StoreUnavailable
    from headwater.streaming.files.sweep import live_files

    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 3).metadata_location
        lake.put("t", location)
        needed = lake.needed(location)
        reading, failed = lake.operations.storages.read, list[str]()
        oldest = min(
            (one for one in needed if "/snap-" in one), key=lambda one: Path(one.removeprefix("file://")).stat().st_mtime_ns
        )

        def read(place: str, bytes_max: int) -> bytes:
            if place == oldest and len(failed) % 2 == 0:
                failed.append(place)
                raise StoreUnavailable("slow down", remedy="Try again.")
            failed.extend([place] if place == oldest else [])
            return reading(place, bytes_max)

        monkeypatch.setattr(lake.operations.storages, "read", read)
        monkeypatch.setattr(live_files, "READ_PAUSE_SECONDS", 0)
        [report] = lake.sweep_twice().roots
        assert len(failed) >= 4 and lake.files() == needed and report.condemned == 0


def test_files_committed_during_the_sweep_of_one_root_stay_below_the_others(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        late = lake.table("late").metadata_location
        Catalogs(lake.store.kernel(lake.realm)).ensure("beside", storage_root=f"file://{tmp_path}/beside", meta=META)
        beside = tmp_path / "beside"
        beside.mkdir()
        for name in ("a.parquet", "b.parquet"):
            (beside / name).write_text("orphan")
        lake.claim()
        lake.sweep(roots=[])
        order = [f"file://{beside}", lake.root]
        commits: list[str] = []

        def commit(step: str) -> None:
            if step == "list" and not commits:
                commits.append(late)
                lake.put("late", late)

        first, second = lake.sweep(roots=order, at=commit).roots
        assert first.purge is not None and first.purge.purged == 2 and commits
        assert lake.needed(late) <= lake.files() and second.rescued > 0


DAMAGE = {
    "missing": None,
    "empty": b"",
    "random": b"\x00random\xff" * 40,
    "format 9": b'{"format-version": 9}',
    "cut off": -40,
}


@pytest.mark.parametrize("kind", [FileKind.METADATA, FileKind.MANIFEST_LIST, FileKind.MANIFEST])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_metadata_deletes_nothing_anywhere_until_it_is_given_up(tmp_path: Path, kind: FileKind, damage: str) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t", 2)
        lake.put("t", table.metadata_location)
        lake.table("orphan")
        lake.sweep()
        victim = [file.location for file in lake.operations.identify(table.metadata_location) if file.kind is kind][-1]
        path, content = Path(victim.removeprefix("file://")), DAMAGE[damage]
        if content is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:content] if isinstance(content, int) else content)
        before = lake.files()
        with pytest.raises(MaintenanceRefused) as refused:
            lake.sweep_twice(AGELESS)
        assert lake.files() == before and path.name in str(refused.value) and "'t' (branch main)" in str(refused.value)
        assert f"--accept-missing {table.metadata_location}" in str(refused.value)
        left = lake.needed_or_gone(table.metadata_location) & before
        lake.sweep(accept_missing=[table.metadata_location])
        lake.sweep(accept_missing=[table.metadata_location])
        assert left <= lake.files() and not any("/orphan/" in one for one in lake.files())


def spelled(folder: Path, name: str) -> dict[str, str]:
    return {
        "one slash": f"file:{folder}/{name}",
        "no scheme": f"{folder}/{name}",
        "empty segment": f"file://{folder}//{name}",
        "dot": f"file://{folder}/./{name}",
        "encoded": f"file://{folder}/{quote(name)}",
        "encoded twice": f"file://{folder}/{quote(quote(name))}",
        "other case": f"file://{folder}/{name.upper()}",
        "decomposed": f"file://{folder}/{unicodedata.normalize('NFD', name)}",
    }


@pytest.mark.parametrize("spelling", spelled(Path("/x"), "y"))
def test_a_file_in_use_stays_however_metadata_spells_it(tmp_path: Path, spelling: str) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t")
        folder = Path(table.metadata_location.removeprefix("file://")).parent
        used, unused = folder / "k ä%1.puffin", folder / "k ö%1.puffin"
        for file in (used, unused):
            file.write_text("statistics")
        metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
        where = spelled(folder, used.name)[spelling]
        metadata["statistics"] = [{"snapshot-id": 1, "statistics-path": where, "file-size-in-bytes": 10, "blob-metadata": []}]
        Path(table.metadata_location.removeprefix("file://")).write_text(json.dumps(metadata))
        lake.put("t", table.metadata_location)
        [report] = lake.sweep_twice().roots
        assert not report.refusal and used.exists() and not unused.exists()


@pytest.mark.parametrize("step", ["claim", "mark", "list", "prove", "intent", "second fence", "delete"])
def test_a_sweep_that_dies_at_any_step_is_finished_by_the_next(tmp_path: Path, step: str) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()

        def die(here: str) -> None:
            if here == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lake.sweep(at=die)
        assert orphan | lake.needed(kept) == lake.files()
        lake.sweep()
        assert lake.files() == lake.needed(kept)


def test_a_catalog_that_is_dropped_and_created_again_at_the_same_place_keeps_what_is_retained(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        catalogs = Catalogs(lake.store.kernel(lake.realm))
        old = lake.table("old").metadata_location
        lake.put("old", old)
        catalogs.drop("lake", meta=META)
        catalogs.create("lake", storage_root=lake.root, meta=META)
        new = lake.table("new").metadata_location
        lake.put("new", new)
        lake.table("orphan")
        [report] = lake.sweep_twice().roots
        assert not report.refusal and lake.files() == lake.needed(old) | lake.needed(new)


@pytest.mark.parametrize("status", ["INACTIVE", "PURGING"])
def test_files_of_a_realm_that_is_closed_or_going_stay(tmp_path: Path, status: str) -> None:
    with swept_lake(tmp_path) as lake:
        other = lake.new_realm("other", "")
        location = lake.table("t").metadata_location
        lake.put("t", location, realm=other)
        lake.realms.deactivate("other")
        lake.table("orphan")
        if status == "PURGING":
            lake.realms.purge("other")
            with pytest.raises(MaintenanceRefused, match="PURGING"):
                lake.sweep_twice()
        else:
            lake.sweep_twice()
        assert lake.needed(location) <= lake.files()


def test_a_root_that_is_refused_after_it_was_listed_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: FileSweep) -> frozenset[str]:
        raise StoreUnavailable("the store was not reached.")

    monkeypatch.setattr(FileSweep, "reserved", unreachable)
    with swept_lake(tmp_path) as lake, warnings.catch_warnings(record=True, category=ResourceWarning) as left_open:
        lake.table("garbage")
        [root] = lake.sweep().roots
        gc.collect()
    assert "not reached" in root.refusal and not left_open
