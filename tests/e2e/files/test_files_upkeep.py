"""The files' turn of the maintenance cycle: dropped tables and claimed roots, within budgets, and nothing without a claim."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.producer.immediate_tasks import TaskState
from headwater.settings import Settings
from headwater.streaming.files import upkeep
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.metered_store import budget_of
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
from headwater.streaming.files.sweep.roots import RootRecord, Roots
from headwater.streaming.files.upkeep import FileUpkeep
from headwater.streaming.runs.runs import Runs
from headwater.streaming.schedule import CycleTools, ScheduleOptions, run_cycle
from headwater.wiring.maintenance import file_storage
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, task_of
from tests.support.fixtures.swept_lake import SweptLake, swept_lake


def tools_of(lake: SweptLake) -> CycleTools:
    options = FileSweepOptions(share_max=1, batches_per_second=0)
    return CycleTools(files=FileUpkeep(operations=lambda: lake.operations, sweep=options))


def test_a_cycle_purges_dropped_tables_and_sweeps_claimed_roots(tmp_path: Path) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        kept, gone = (lake.table(name).metadata_location for name in ("kept", "gone"))
        lake.put("kept", kept)
        lake.put("gone", gone)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        id = drop_with_purge(lake, "gone", gone)
        clock.move(1)
        forget_history(lake)
        clock.move(3_600)
        report = run_cycle(lake.store, ScheduleOptions(), tools_of(lake), steps=["files"])
        assert not report.failures and report.files_purged > 0
        assert task_of(lake, id).state is TaskState.DONE and orphan <= lake.files(), "they are younger than the grace"
        operations = [record.operation for record in Runs(lake.store.backend, clock).list()]
        assert operations[:2] == ["files-sweep", "files-purge"]
        assert lake.files() == lake.needed(kept) | orphan


def test_a_store_without_a_claimed_root_is_left_alone(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        unclaimed = lake.new_realm("second", f"file://{tmp_path}/second")
        assert [root.realm for root in upkeep.claimed_roots(lake.store)] == [lake.realm]
        assert unclaimed != lake.realm
    with swept_lake(tmp_path / "other") as lake:
        for root in upkeep.claimed_roots(lake.store):
            Roots(lake.store.backend, lake.store.clock).put(root, RootRecord(location=root.location))

        def opened() -> FileOperations:
            raise AssertionError("no storage is opened for it")

        report = run_cycle(lake.store, ScheduleOptions(), CycleTools(files=FileUpkeep(operations=opened)), steps=["files"])
        assert not report.failures and not report.busy


def test_requests_and_bytes_of_all_threads_are_within_one_budget(tmp_path: Path) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        for number in range(4):
            lake.put(f"t{number}", lake.table(f"t{number}").metadata_location)
        budget = budget_of(10, 0, clock)
        lake.operations = FileOperations(Storages({}, budget), clock)
        before = clock.slept_seconds
        lake.sweep(threads=4)
        assert clock.slept_seconds - before > 1, "four tables have three files of metadata each, and the claim is read too"
        lake.operations = FileOperations(Storages({}, budget_of(0, 1_000, clock)), clock)
        before = clock.slept_seconds
        lake.sweep(threads=4)
        assert clock.slept_seconds - before > 10
        lake.operations = FileOperations(Storages({}, budget_of(0, 0, clock)), clock)
        before = clock.slept_seconds
        lake.sweep(threads=4)
        assert clock.slept_seconds == before


def test_files_of_protected_patterns_stay(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        orphan = lake.needed(lake.table("orphan").metadata_location)
        for _ in range(2):
            [report] = lake.sweep(protected=["*.parquet"]).roots
        assert report.protected == 1
        assert lake.files() == {one for one in orphan if one.endswith(".parquet")}


def test_operations_on_files_have_an_identity_of_their_own() -> None:
    shared = Settings(storage_options="s3.access-key-id=reader s3.session-token=old")
    own = msgspec.structs.replace(shared, files_storage_options="s3.access-key-id=deleter")
    assert file_storage(shared) == {"s3.access-key-id": "reader", "s3.session-token": "old"}
    assert file_storage(own) == {"s3.access-key-id": "deleter"}, "nothing of the other identity is left"
