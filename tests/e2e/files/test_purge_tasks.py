"""DROP … PURGE: a dropped table's files go when nothing retained needs them, and only those."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.coordination.location_reservations import LocationReservations
from headwater.persistence.coordination.registered_tables import RegisteredTables
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.immediate_tasks import IMMEDIATE_TASKS, TaskState
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.errors import FilesCondemned, MaintenanceSuperseded, StoreUnavailable
from headwater.streaming.files.kinds import FileKind
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.object_store import Deleted
from headwater.streaming.files.sweep.roots import is_below
from headwater.streaming.files.tasks import task_purge
from headwater.streaming.files.tasks.forgetting import NamedTask
from headwater.streaming.files.tasks.task_purge import ALL_ON, TaskSafeguards
from headwater.streaming.runs.runs import Runs
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.purged_lake import (
    drop_with_purge,
    forget_history,
    purge_tasks,
    references_of,
    task_of,
    tasks_of,
)
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def dropped(lake: SweptLake, name: str = "t", appends: int = 2) -> tuple[str, set[str]]:
    location = lake.table(name, appends).metadata_location
    lake.put(name, location)
    needed = lake.needed(location)
    return drop_with_purge(lake, name, location), needed


def test_files_wait_for_history_and_go_when_it_has_expired(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        id, needed = dropped(lake)
        purge_tasks(lake)
        held = task_of(lake, id)
        assert held.state is TaskState.HELD and "history of branch main" in held.held_by[0] and needed <= lake.files()
        seq = PointerLog(lake.store.kernel(lake.realm), IMMEDIATE_TASKS).head().seq
        purge_tasks(lake)
        assert PointerLog(lake.store.kernel(lake.realm), IMMEDIATE_TASKS).head().seq == seq, "the same reason again"
        forget_history(lake)
        purge_tasks(lake)
        done = task_of(lake, id)
        assert (done.state, done.purged, done.failed, done.held_by) == (TaskState.DONE, len(needed), 0, [])
        assert lake.files() == lake.needed(kept)
        newest = Runs(lake.store.backend, lake.store.clock).list()[0]
        assert newest.operation == "files-purge" and newest.totals().purged == len(needed)
        assert purge_tasks(lake) == []


@pytest.mark.parametrize("type", list(ReferenceType))
def test_a_branch_or_tag_holds_the_files_until_it_is_deleted(tmp_path: Path, type: ReferenceType) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        references_of(lake).create("other", type=type, meta=META)
        id = drop_with_purge(lake, "t", location)
        forget_history(lake, "cat/*/heads/main=1n")
        purge_tasks(lake)
        held = {ReferenceType.TAG: "tag other", ReferenceType.BRANCH: "history of branch main before entry 3"}
        assert task_of(lake, id).held_by == [held[type]], "a branch holds the entry of main that it was made from, too"
        assert lake.needed(location) <= lake.files()
        references_of(lake).delete("other", meta=META)
        forget_history(lake)
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and not lake.files()


def test_files_that_a_clone_shares_are_spared(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t", 2).metadata_location
        clone = path_of(location).with_name("clone.metadata.json")
        shutil.copy(path_of(location), clone)
        lake.put("t", location)
        other = lake.new_realm("second", "")
        lake.put("clone", f"file://{clone}", realm=other)
        id = drop_with_purge(lake, "t", location)
        forget_history(lake)
        purge_tasks(lake)
        done = task_of(lake, id)
        assert (done.state, done.purged) == (TaskState.DONE, 1) and not path_of(location).exists()
        assert lake.needed(f"file://{clone}") <= lake.files() and done.spared > 0


@pytest.mark.parametrize("step", ["mark", "intent", "second fence", "delete", "batch", "record"])
def test_a_purge_that_dies_at_any_step_is_finished_by_the_next(tmp_path: Path, step: str) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        id, _ = dropped(lake, appends=3)
        forget_history(lake)
        fired: list[str] = []

        def die(here: str) -> None:
            if here == step:
                fired.append(here)
                if here != "batch" or len(fired) == 3:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            purge_tasks(lake, at=die, batch_size=2)
        assert fired and task_of(lake, id).state in (TaskState.HELD, TaskState.DELETING)
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and lake.files() == lake.needed(kept)


def test_a_root_that_is_not_claimed_holds_its_tables(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        id, needed = dropped(lake)
        forget_history(lake)
        (path_of(lake.root) / "_headwater" / "root.json").unlink()
        purge_tasks(lake)
        assert "is not claimed by this store" in task_of(lake, id).held_by[0] and needed <= lake.files()
        lake.claim()
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and not lake.files()


def test_failures_are_counted_and_tried_again_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    with swept_lake(tmp_path, clock=clock) as lake:
        id, _ = dropped(lake)
        clock.move(1)
        forget_history(lake)
        deleting = LocalFiles.delete

        def delete(self: LocalFiles, locations: list[str]) -> Deleted:
            if any(one.endswith(".parquet") for one in locations):
                raise StoreUnavailable("access denied", retriable=False)
            return deleting(self, locations)

        with monkeypatch.context() as faulty:
            faulty.setattr(LocalFiles, "delete", delete)
            purge_tasks(lake)
            task = task_of(lake, id)
            assert task.state is TaskState.DELETING and task.failed == 2 and "access denied" in task.fault
            clock.move(task_purge.TRY_SECONDS + 10)
            purge_tasks(lake)
            assert task_of(lake, id).state is TaskState.DONE_WITH_FAILURES
        assert path_of(task.metadata_location).exists(), "it names the files that are left"
        assert purge_tasks(lake) == []


def test_a_task_of_an_older_version_continues(tmp_path: Path) -> None:
    from headwater.producer.immediate_tasks import ImmediateTasks

    with swept_lake(tmp_path) as lake:
        id, _ = dropped(lake)
        tasks = ImmediateTasks(lake.store.kernel(lake.realm))
        task = task_of(lake, id)
        tasks.move(task, msgspec.structs.replace(task, state=TaskState.WAITING_FOR_FILE_DELETION, drop_seq=0))
        purge_tasks(lake)
        assert task_of(lake, id).held_by == ["history of branch main"]
        forget_history(lake)
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and len(tasks_of(lake)) == 1 and not lake.files()


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        id, needed = dropped(lake)
        forget_history(lake)
        before = task_of(lake, id)
        [report] = purge_tasks(lake, dry_run=True)
        assert report.would_purge == len(needed) and needed == lake.files() and task_of(lake, id) == before
        assert {group.table for group in report.sample} == {"t"} and sum(group.files for group in report.sample) == len(needed)
        assert {FileKind.METADATA, FileKind.METADATA_LOG, FileKind.DATA} < {group.kind for group in report.sample}


def test_a_commit_of_the_purged_table_is_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        id, _ = dropped(lake)
        forget_history(lake)
        refused: list[str] = []

        def commit(step: str) -> None:
            if step == "delete":
                with pytest.raises(FilesCondemned) as error:
                    lake.put("again", task_of(lake, id).metadata_location)
                refused.append(error.value.code)

        purge_tasks(lake, at=commit)
        assert refused and task_of(lake, id).state is TaskState.DONE


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://lake/shop/t/a.parquet", True),
        ("s3a://lake/shop/t/a.parquet", True),
        ("s3://other/shop/t/a.parquet", False),
        ("s3://lake/shop2/a.parquet", False),
        ("s3://lake/shop/../secret/a.parquet", False),
        ("s3://lake/shop//a.parquet", False),
        ("file:///lake/shop/a.parquet", False),
        ("/etc/passwd", False),
    ],
)
def test_only_files_below_the_root_as_it_is_spelled_may_go(location: str, expected: bool) -> None:
    assert is_below("s3://lake/shop/", location) is expected


# ── each safeguard keeps a file that is lost without it ─────────────────────────────────────────────────────────


def history(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    _, needed = dropped(lake)
    purge_tasks(lake, safeguards)
    return needed


def union(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """Another realm has the same table."""
    location = lake.table("t").metadata_location
    needed = lake.needed(location)
    other = lake.new_realm("second", "")
    lake.put("t", location, realm=other)
    lake.put("t", location)
    drop_with_purge(lake, "t", location)
    forget_history(lake)
    purge_tasks(lake, safeguards)
    return needed


def naming(lake: SweptLake, *theirs: Path) -> str:
    """A table whose metadata names files of others as its statistics, dropped with PURGE."""
    location = lake.table("t").metadata_location
    metadata = json.loads(path_of(location).read_text())
    metadata["statistics"] = [
        {"snapshot-id": number, "statistics-path": f"file://{one}", "file-size-in-bytes": 8, "blob-metadata": []}
        for number, one in enumerate(theirs)
    ]
    path_of(location).write_text(json.dumps(metadata))
    lake.put("t", location)
    drop_with_purge(lake, "t", location)
    forget_history(lake)
    return location


def written(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("not ours")
    return file


def below_root(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The metadata names a file of somebody else."""
    theirs = written(path_of(lake.root).parent / "theirs" / "a.parquet")
    naming(lake, theirs)
    purge_tasks(lake, safeguards)
    return {f"file://{theirs}"}


def surroundings(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The metadata names files of a Delta table that no catalog knows, and of a store that has claimed a folder."""
    root = path_of(lake.root)
    theirs, delta = (written(root / name / "data" / "a.parquet") for name in ("theirs", "delta"))
    claimed = written(root / "theirs" / "_headwater" / "root.json")
    claimed.write_text((root / "_headwater" / "root.json").read_text().replace(lake.store.incarnation, "0" * 32))
    written(root / "delta" / "_delta_log" / "00000000000000000000.json")
    naming(lake, theirs, delta)
    purge_tasks(lake, safeguards)
    return {f"file://{one}" for one in (theirs, delta)}


def reservations(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The metadata names files of a table that is being staged."""
    staged = written(path_of(lake.root) / "staged" / "data" / "a.parquet")
    LocationReservations(lake.store.backend, lake.store.clock).reserve(lake.realm, [f"{lake.root}/staged"])
    naming(lake, staged)
    purge_tasks(lake, safeguards)
    return {f"file://{staged}"}


def registered(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The table's files were written for another catalog."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    id = drop_with_purge(lake, "t", location)
    kernel = lake.store.kernel(lake.realm)
    RegisteredTables(kernel.store.backend, kernel.realm, kernel.store.clock).add(task_of(lake, id).content_id, location)
    forget_history(lake)
    purge_tasks(lake, safeguards)
    return needed


def unowned(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The table was made by a procedure that leaves the data to the table that it was made of."""
    table = lake.table("t")
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    location = table.metadata_location
    data = {file.location for file in lake.operations.identify(location) if file.kind is FileKind.DATA}
    lake.put("t", location)
    id = drop_with_purge(lake, "t", location)
    forget_history(lake)
    purge_tasks(lake, safeguards)
    assert task_of(lake, id).state is TaskState.DONE and not path_of(location).exists()
    return data


def claim(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The store is a copy of the one that has claimed the root."""
    _, needed = dropped(lake)
    forget_history(lake)
    claimed = path_of(lake.root) / "_headwater" / "root.json"
    claimed.write_text(claimed.read_text().replace(lake.store.incarnation, "0" * 32))
    purge_tasks(lake, safeguards)
    return needed


def second_fence(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The table is registered again between the mark and the intent."""
    id, needed = dropped(lake)
    forget_history(lake)
    location = task_of(lake, id).metadata_location
    purge_tasks(lake, safeguards, at=lambda step: lake.put("again", location) if step == "intent" else None)
    return needed


def lease(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """The process sleeps for a day and more before its first batch; its intent ends, and the table is registered."""
    id, needed = dropped(lake)
    forget_history(lake)
    location = task_of(lake, id).metadata_location

    def sleep(step: str) -> None:
        if step == "delete":
            assert isinstance(lake.store.clock, ManualClock)
            lake.store.clock.move(30 * 3_600)
            lake.put("again", location)

    try:
        purge_tasks(lake, safeguards, at=sleep)
    except MaintenanceSuperseded:
        assert safeguards.lease
    return needed


def forgetting(lake: SweptLake, safeguards: TaskSafeguards) -> set[str]:
    """A branch still has the table whose history an operator gives up."""
    location = lake.table("t", 2).metadata_location
    lake.put("t", location)
    references_of(lake).create("dev", meta=META)
    id = drop_with_purge(lake, "t", location)
    needed = lake.needed(location)
    purge_tasks(lake, safeguards, forget=NamedTask(realm=lake.realm, id=id, author="ops"))
    return needed


_OF_FILES = (below_root, surroundings, reservations, registered, unowned)
_OF_RUNS = (history, union, claim, second_fence, lease, forgetting)
SCENARIOS = {one.__name__: one for one in (*_OF_FILES, *_OF_RUNS)}


def test_every_safeguard_of_a_purge_has_a_scenario() -> None:
    assert set(SCENARIOS) == set(TaskSafeguards.__struct_fields__)


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_one_safeguard_a_purge_loses_a_file_that_it_keeps(name: str, tmp_path: Path) -> None:
    for is_on in (True, False):
        safeguards = msgspec.structs.replace(ALL_ON, **({} if is_on else {name: False}))
        with swept_lake(tmp_path / str(is_on), clock=ManualClock() if name == "lease" else None) as lake:
            must_stay = SCENARIOS[name](lake, safeguards)
            lost = {one for one in must_stay if not path_of(one).exists()}
            assert bool(lost) is not is_on, f"{name} on: {is_on}; lost {sorted(lost)[:3]}"
