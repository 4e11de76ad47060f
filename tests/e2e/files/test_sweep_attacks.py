"""What has tried to make a sweep delete a file in use: links, cut files, faults between roots, clocks, stores, listings."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.coordination.location_reservations import RESERVATION_TYPE, LocationReservations
from headwater.persistence.coordination.removal_intents import IntentWatch, read_intents
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable, Udf
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import (
    FilesCondemned,
    HeadwaterError,
    MaintenanceRefused,
    MaintenanceSuperseded,
    RemovalUnderWay,
    StorageDenied,
    StoreUnavailable,
)
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import MetadataReader
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks import content_marks
from headwater.streaming.files.operations import TABLE
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep import live_files
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, FileSweep
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.retained_contents import ContentFiles
from headwater.streaming.runs.runs import Runs
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.swept_lake import AGELESS, META, NOW, SweptLake, swept_lake

DAY_SECONDS = 24 * 3_600


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def second_root(lake: SweptLake) -> str:
    root = f"{lake.root.rpartition('/')[0]}/second"
    Catalogs(lake.store.kernel(lake.realm)).ensure("second", storage_root=root, meta=META)
    path_of(root).mkdir()
    lake.claim()
    return root


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_after_the_second_fence_of_one_root_loses_no_mark_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table that is committed meanwhile is marked for the first root, whose marking then fails at another table."""
    with swept_lake(tmp_path) as lake:
        first = second_root(lake)
        (path_of(first) / "a.parquet").write_text("orphan")
        late, broken = (lake.table(name).metadata_location for name in ("late", "broken"))
        needed = lake.needed(late)
        lake.sweep(roots=[])
        reading, failed = lake.operations.storages.read, list[str]()

        def read(location: str, bytes_max: int) -> bytes:
            if location == broken and len(failed) < live_files.READ_TRIES:
                failed.append(location)
                raise StoreUnavailable("timeout", remedy="Try again.")
            return reading(location, bytes_max)

        def commit(step: str) -> None:
            if step == "list" and not failed:
                lake.put("late", late)
                lake.put("broken", broken)
                monkeypatch.setattr(lake.operations.storages, "read", read)

        monkeypatch.setattr(live_files, "READ_PAUSE_SECONDS", 0)
        refused, swept = lake.sweep(roots=[first, lake.root], at=commit).roots
        assert "timeout" in refused.refusal and len(failed) == live_files.READ_TRIES and not swept.refusal
        assert needed <= lake.files() and swept.rescued > 0


def test_manifests_read_by_other_threads_before_a_failure_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first table is read slowly; meanwhile the second cannot be read, and then the third one is, by the same thread."""
    with swept_lake(tmp_path) as lake:
        slow, broken, whole = (lake.table(name).metadata_location for name in ("slow", "broken", "whole"))
        contents = [ContentFiles(TABLE, one, "ICEBERG_TABLE") for one in (slow, broken, whole)]
        monkeypatch.setattr(live_files, "retained_contents", lambda *_: iter(contents))
        storages = Storages()
        reading, has_read, failed = storages.read, threading.Event(), list[str]()

        def read(location: str, bytes_max: int) -> bytes:
            if location == broken and not failed:
                failed.append(location)
                raise StorageDenied("denied")
            if location == slow:
                assert has_read.wait(60)
            content = reading(location, bytes_max)
            if "/whole/" in location and location.endswith("-m0.avro"):
                has_read.set()
            return content

        monkeypatch.setattr(storages, "read", read)
        live = LiveFiles(storages, [], bytes(16), lake.store.clock, safeguards=ALL_ON, threads=2)
        with closing(live):
            with pytest.raises(MaintenanceRefused, match="denied"):
                live.add(lake.store.backend, lake.realm, {})
            live.add(lake.store.backend, lake.realm, {})
            assert {fingerprint(file, bytes(16)) for file in lake.needed(whole)} <= set(live.finish())


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_manifest_truncated_between_two_blocks_is_damage_and_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t")
        lake.put("t", table.metadata_location)
        manifest = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
        content = path_of(manifest).read_bytes()
        path_of(manifest).write_bytes(content[: content.index(content[-16:]) + 16])  # the header ends with the marker of blocks
        needed = {one for one in lake.files() if one.endswith(".parquet")}
        if not is_checked:

            def read(manifest: ManifestRef, reader: MetadataReader) -> bytes:
                return reader.read(manifest.location)

            monkeypatch.setattr(content_marks, "whole_manifest", read)
            lake.sweep_twice()
            assert not needed & lake.files()
            return
        with pytest.raises(MaintenanceRefused, match="its manifest list says"):
            lake.sweep_twice()
        assert needed <= lake.files()


def test_a_manifest_list_truncated_after_its_header_is_damage(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t")
        lake.put("t", table.metadata_location)
        before = lake.files()
        listed = path_of(table.current_snapshot().manifest_list)  # type: ignore[union-attr]
        content = listed.read_bytes()
        listed.write_bytes(content[: content.index(content[-16:]) + 16])
        with pytest.raises(MaintenanceRefused, match="lists nothing, and its snapshot has files"):
            lake.sweep_twice()
        assert before == lake.files()


def test_a_function_that_has_no_file_stops_no_sweep_and_commits_beside_one(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        function = Udf(sql_text="SELECT 1", dialect="spark")
        lake.commit(Put(("one",), function))
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        lake.sweep(at=lambda step: lake.commit(Put(("two",), function)) if step == "delete" else None)
        assert not orphan & lake.files()


# ── links ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_told", [True, False])
def test_files_in_use_that_metadata_names_through_a_link_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """The listing shows them under the name that the link leads to, and no link is followed to find that out."""
    with swept_lake(tmp_path) as lake:
        real, linked = path_of(lake.root) / "real", path_of(lake.root) / "linked"
        real.mkdir()
        linked.symlink_to(real)
        table = lake.table("t")
        metadata = json.loads(path_of(table.metadata_location).read_text())
        (real / "t.puffin").write_text("statistics")
        metadata["statistics"] = [
            {
                "snapshot-id": metadata["current-snapshot-id"],
                "statistics-path": f"file://{linked}/t.puffin",
                "file-size-in-bytes": 10,
                "blob-metadata": [],
            }
        ]
        path_of(table.metadata_location).write_text(json.dumps(metadata))
        lake.put("t", table.metadata_location)
        if not is_told:
            looking = LocalFiles.head

            def head(self: LocalFiles, location: str) -> FoundFile | None:
                try:
                    return looking(self, location)
                except HeadwaterError:
                    return None

            monkeypatch.setattr(LocalFiles, "head", head)
        [report] = lake.sweep_twice().roots
        assert ("symbolic link" in report.refusal) is is_told
        assert (real / "t.puffin").exists() is is_told


# ── other stores ────────────────────────────────────────────────────────────────────────────────────────────────


def claim_of_another_store(lake: SweptLake, folder: Path) -> None:
    (folder / "_headwater").mkdir(parents=True, exist_ok=True)
    ours = (path_of(lake.root) / "_headwater" / "root.json").read_text()
    (folder / "_headwater" / "root.json").write_text(ours.replace(lake.store.incarnation, "0" * 32))


def test_a_folder_around_the_root_that_another_store_has_claimed_refuses_claims_and_sweeps(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        theirs = lake.needed(lake.table("theirs").metadata_location)
        lake.sweep()
        claim_of_another_store(lake, path_of(lake.root).parent)
        [report] = lake.sweep().roots
        assert "is claimed by" in report.refusal and theirs <= lake.files()
        with pytest.raises(MaintenanceRefused, match="is claimed by"):
            lake.claim()


def test_a_catalog_of_the_same_store_inside_of_another_ones_root_is_swept_with_it(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        inner = f"{lake.root}/team"
        Catalogs(lake.store.kernel(lake.realm)).ensure("team", storage_root=inner, meta=META)
        path_of(inner).mkdir()
        lake.claim()
        (path_of(inner) / "a.parquet").write_text("orphan")
        lake.sweep()
        outer, _ = lake.sweep().roots
        assert not outer.refusal and not (path_of(inner) / "a.parquet").exists()


def test_two_catalogs_with_one_root_have_one_claim_and_both_keep_their_tables(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kernel = lake.store.kernel(lake.realm)
        other = Catalogs(kernel).create("other", storage_root=lake.root, meta=META)
        mine, theirs = (lake.table(name).metadata_location for name in ("mine", "theirs"))
        lake.put("t", mine)
        kernel.committer.commit(
            branch_pointer(other.id, "main"), CatalogCommit(kernel, [Put(("t",), IcebergTable(theirs))], META)
        )
        lake.table("orphan")
        [report] = lake.sweep_twice().roots
        assert not report.refusal and lake.files() == lake.needed(mine) | lake.needed(theirs)


def test_a_temporarily_unreadable_table_elsewhere_is_not_committed_during_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies below no root, and its metadata names files that are about to go."""
    with swept_lake(tmp_path) as lake:
        orphan = lake.table("orphan").metadata_location
        copied = tmp_path / "elsewhere" / "t.metadata.json"
        copied.parent.mkdir()
        shutil.copy(path_of(orphan), copied)
        other = lake.new_realm("second", "")
        lake.sweep()
        refused: list[str] = []
        reading = Storages.read

        def read(self: Storages, location: str, bytes_max: int) -> bytes:
            if location == f"file://{copied}":
                raise StoreUnavailable("timeout", remedy="Try again.")
            return reading(self, location, bytes_max)

        def commit(step: str) -> None:
            if step == "delete":
                for kind, fault in ((FilesCondemned, reading), (RemovalUnderWay, read)):
                    monkeypatch.setattr(Storages, "read", fault)
                    with pytest.raises(kind) as error:
                        lake.put("t", f"file://{copied}", realm=other)
                    refused.append(error.value.code)
                monkeypatch.undo()

        lake.sweep(at=commit)
        assert refused == ["FILES_CONDEMNED", "REMOVAL_UNDER_WAY"]


# ── clocks ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ahead_seconds", [DAY_SECONDS, -DAY_SECONDS, 3 * 3_600])
def test_a_committer_whose_clock_is_a_day_off_heeds_a_removal_under_way(tmp_path: Path, ahead_seconds: int) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        location = lake.table("late").metadata_location
        lake.sweep()
        refusals: list[str] = []

        def commit(step: str) -> None:
            if step == "delete":
                lake.store.removals = IntentWatch(lake.store.backend, ManualClock(clock.micros + ahead_seconds * 1_000_000))
                with pytest.raises(FilesCondemned) as refused:
                    lake.put("late", location)
                refusals.append(refused.value.code)

        lake.sweep(at=commit)
        assert refusals


def test_a_clock_that_goes_back_during_a_removal_does_not_shorten_it(tmp_path: Path) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        location = lake.table("late").metadata_location
        lake.sweep()
        ends: list[int] = []

        def jump(step: str) -> None:
            if step == "delete":
                ends.append(read_intents(lake.store.backend)[0].until)
                clock.move(-DAY_SECONDS)

        lake.sweep(at=jump)
        [intent] = read_intents(lake.store.backend)
        assert ends and intent.until >= ends[0] and intent.is_done
        assert not lake.needed_or_gone(location) & lake.files()


def test_the_intents_of_a_dead_run_end_with_the_next_run(tmp_path: Path) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        lake.table("orphan")
        lake.sweep()

        def die(step: str) -> None:
            if step == "delete":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lake.sweep(at=die)
        watch = IntentWatch(lake.store.backend, clock)
        clock.move(3 * 3_600)
        assert watch.deleting(lake.realm, None), "whether its process is dead is not known to those who commit"
        lake.sweep(roots=[lake.root])
        clock.move(3 * 3_600)
        assert not watch.deleting(lake.realm, None)


@pytest.mark.parametrize("missing", ["time", "size"])
def test_files_without_a_time_or_without_content_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    with swept_lake(tmp_path) as lake:
        orphan = lake.needed(lake.table("orphan").metadata_location)
        storage = lake.operations.storages.of(lake.root)
        listing = storage.list
        change = {"modified": None} if missing == "time" else {"size": 0}

        def without(prefix: str) -> Iterator[list[FoundFile]]:
            for page in listing(prefix):
                yield [msgspec.structs.replace(file, **change) for file in page]

        monkeypatch.setattr(storage, "list", without, raising=False)
        [report] = lake.sweep_twice().roots
        assert report.condemned == 0 and report.unknown >= len(orphan)


# ── listings ────────────────────────────────────────────────────────────────────────────────────────────────────


def paged(lake: SweptLake, monkeypatch: pytest.MonkeyPatch, fault: str) -> list[str]:
    """Pages of two files; the fault is at the seventh."""
    storage = lake.operations.storages.of(lake.root)
    listing, fired = storage.list, list[str]()

    def pages(prefix: str) -> Iterator[list[FoundFile]]:
        files = [file for page in listing(prefix) for file in page]
        for number, first in enumerate(range(0, len(files), 2), start=1):
            page = files[first : first + 2]
            if number == 7 and len(files) > 14:
                fired.append(fault)
                if fault == "error":
                    raise StoreUnavailable("503 SlowDown")
                if fault == "denied":
                    raise StorageDenied("403")
                if fault == "cut":
                    return
                page = [] if fault == "skipped" else page * 2
            yield page

    monkeypatch.setattr(storage, "list", pages, raising=False)
    return fired


@pytest.mark.parametrize("fault", ["error", "denied", "cut", "skipped", "repeated"])
def test_a_listing_with_a_fault_on_page_seven_deletes_nothing_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    with swept_lake(tmp_path) as lake:
        orphan = lake.needed(lake.table("orphan").metadata_location)
        kept = lake.table("t", 6).metadata_location
        lake.put("t", kept)
        needed = lake.needed(kept)
        lake.sweep()
        with monkeypatch.context() as faulty:
            fired = paged(lake, faulty, fault)
            [report] = lake.sweep().roots
        assert fired and needed <= lake.files()
        assert bool(report.refusal) is (fault != "repeated"), report
        if fault != "repeated":
            assert orphan <= lake.files() and report.purge is None
        lake.sweep()
        assert lake.files() == needed


def test_an_empty_listing_and_another_bucket_at_the_endpoint_delete_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        lake.table("orphan")
        before = lake.files()
        lake.sweep()
        storage = lake.operations.storages.of(lake.root)
        with monkeypatch.context() as faulty:
            faulty.setattr(storage, "list", lambda _: iter(()), raising=False)
            [report] = lake.sweep().roots
            assert "the listing" in report.refusal and lake.files() == set()
        shutil.move(path_of(lake.root), path_of(lake.root).with_name("away"))
        path_of(lake.root).mkdir()
        [report] = lake.sweep().roots
        assert "is not claimed" in report.refusal
        path_of(lake.root).rmdir()
        shutil.move(path_of(lake.root).with_name("away"), path_of(lake.root))
        assert lake.files() == before


# ── two sweepers ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_was_superseded_between_two_batches_deletes_no_further_file(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        orphans = lake.needed(lake.table("orphan", 4).metadata_location)
        lake.sweep()
        runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
        left: list[int] = []
        with pytest.raises(MaintenanceSuperseded), runs.run("files-sweep") as run:

            def take_over(what: str, count: int) -> None:
                if what == "purged" and not left:
                    other = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
                    with other.run("files-sweep", supersede=run.record.id):
                        left.append(len(orphans & lake.files()))

            options = msgspec.structs.replace(NOW, batch_size=2)
            FileSweep(lake.store, lake.operations, options, safeguards=AGELESS, on_progress=take_over).run(run)
        assert left and 0 < left[0] < len(orphans) and len(orphans & lake.files()) == left[0]
        lake.sweep()
        assert not orphans & lake.files()


def test_a_reservation_ends_after_a_week_and_staging_again_renews_it(tmp_path: Path) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        reservations = LocationReservations(lake.store.backend, clock)
        for days, again in ((6, True), (6, False)):
            if again:
                reservations.reserve(lake.realm, [f"{lake.root}/db/a", f"{lake.root}/db/b"])
            clock.move(days * 24 * 3_600)
            if again:
                reservations.reserve(lake.realm, [f"{lake.root}/db/a"])
        assert {one.location for one in reservations.all()} == {f"{lake.root}/db/a"}
        clock.move(3 * 24 * 3_600)
        lake.sweep()
        assert not list(lake.store.backend.all_mutable("::system::", RESERVATION_TYPE))
