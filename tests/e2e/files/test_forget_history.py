"""Giving up the history of one dropped table: its files go at once, nothing live loses one, and nothing brings it back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import Store, StoreOptions, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.operations import Put, Rename
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.forgotten_tables import FORGOTTEN_TABLES, ForgottenTables
from headwater.producer.immediate_tasks import TaskState
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.producer.merging.transplant import TransplantRequest
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PinnedEntry, PlanInput, PlanOptions
from headwater.producer.plans.plans import Plans
from headwater.producer.pointer_names import ReferenceType, branch_pointer
from headwater.producer.references import reference_moves
from headwater.producer.references.references import References
from headwater.schemas.errors import HistoryForgotten, InvalidInput, MaintenanceRefused
from headwater.streaming.files.tasks.forgetting import NamedTask, named_task
from headwater.streaming.files.tasks.task_purge import TaskReport
from headwater.streaming.files.watch.follow import FileFollower
from headwater.streaming.files.watch.verify_files import verify_files
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.transfer.exporting import export_realm
from headwater.streaming.transfer.importing import ImportOptions, import_realm
from tests.e2e.files.test_purge_waits_for_readers import HOLDERS
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.faults.manual_clock import ManualClock
from tests.support.faults.two_actors import SteppedActor
from tests.support.fixtures.purged_lake import drop_with_purge, purge_tasks, references_of, task_of
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
STEPS = ["forget", "mark", "intent", "second fence", "settle", "delete", "batch", "record"]


def forget(lake: SweptLake, id: str, **others: object) -> list[TaskReport]:
    return purge_tasks(lake, forget=NamedTask(realm=lake.realm, id=id, author="ops"), **others)


def dropped(lake: SweptLake, name: str = "t") -> tuple[str, set[str]]:
    """Its older version has data that the newest does not name."""
    table = lake.table(name, 2)
    first = table.metadata_location
    lake.put(name, first)
    needed = lake.needed(first)
    table.overwrite(table.scan().to_arrow())
    lake.put(name, table.metadata_location)
    needed |= lake.needed(table.metadata_location)
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    lake.put(name, table.metadata_location)
    needed |= lake.needed(table.metadata_location)
    assert not lake.needed(first) <= lake.needed(table.metadata_location)
    return drop_with_purge(lake, name, table.metadata_location), needed


def entry(lake: SweptLake, seq: int) -> str:
    kernel = lake.store.kernel(lake.realm)
    [found] = [one for one in PointerLog(kernel, pointer_of(lake)).forward("earliest") if one.entry.seq == seq]
    return found.entry_id.hex()


def pointer_of(lake: SweptLake, branch: str = "main") -> str:
    return branch_pointer(Catalogs(lake.store.kernel(lake.realm)).list()[0].id, branch)


def forgotten(lake: SweptLake) -> list[bool]:
    return [table.is_settled for table in ForgottenTables(lake.store.kernel(lake.realm)).all()]


def is_whole(lake: SweptLake) -> bool:
    return verify_files(lake.store, lake.realm, lake.operations, lambda _what, _count: None).holds


def test_all_versions_go_at_once_and_the_rest_of_the_history_stays_whole(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        kept = lake.table("kept", 2).metadata_location
        lake.put("kept", kept)
        other, others = dropped(lake, "other")
        id, needed = dropped(lake)
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.HELD and lake.files() >= needed
        [report] = forget(lake, id)
        done = task_of(lake, id)
        assert (done.state, done.failed, done.held_by) == (TaskState.DONE, 0, []) and report.task == done
        assert lake.files() == lake.needed(kept) | others and task_of(lake, other).state is TaskState.HELD
        change = list(PointerLog(lake.store.kernel(lake.realm), FORGOTTEN_TABLES).forward("earliest"))[-1]
        assert change.entry.author == "ops" and change.entry.operations[0].after is not None
        report = verify_files(lake.store, lake.realm, lake.operations, lambda _what, _count: None)
        assert report.holds and report.forgotten == 3
        followed = FileFollower(lake.store, lake.operations)
        followed.rebuild()
        assert not followed.turn().damage
        swept = lake.sweep_twice()
        assert not swept.damage and not any(one.refusal for one in swept.roots) and lake.files() == lake.needed(kept) | others
        assert forget(lake, other) and lake.files() == lake.needed(kept)


class Creator:
    """Another process that brings the dropped table back by a branch or tag, one call of the store at a time."""

    def __init__(self, lake: SweptLake, type: ReferenceType) -> None:
        backend = FaultyBackend(lake.store.backend)
        kernel = Store(backend, StoreOptions(), lake.store.clock).kernel(lake.realm)
        references, at = References(kernel, Catalogs(kernel).list()[0].id), entry(lake, 2)
        self.actor = SteppedActor(backend, lambda: references.create("other", f"main@{at}", type=type, meta=META))

    @property
    def has_created(self) -> bool:
        if isinstance(self.actor.result, Exception):
            assert isinstance(self.actor.result, HistoryForgotten), self.actor.result
            return False
        return True


@pytest.mark.parametrize("type", list(ReferenceType))
def test_either_the_reference_keeps_the_table_or_it_is_refused(tmp_path: Path, type: ReferenceType) -> None:
    """Whichever part of its creation comes before the history is given up."""
    outcomes = set()
    with swept_lake(tmp_path) as lake:
        id, needed = dropped(lake)
        counted = Creator(lake, type).actor
        counted.start()
        counted.finish()
        references_of(lake).delete("other", meta=META)
        orders = list(itertools.product(range(counted.steps + 1), STEPS))
        if not SOAK:  # the first creation ends before everything else, the last one after it
            orders = [*orders[:: 5 if type is ReferenceType.BRANCH else 17], (0, STEPS[-1])]
    for number, (calls, step) in enumerate(orders):
        with swept_lake(tmp_path / str(number)) as lake:
            id, needed = dropped(lake)
            creator = Creator(lake, type)
            creator.actor.start()
            for _ in range(calls):
                creator.actor.step()
            forget(lake, id, at=lambda here, wanted=step, actor=creator.actor: actor.finish() if here == wanted else None)
            creator.actor.finish()
            task = task_of(lake, id)
            outcomes.add(creator.has_created)
            if creator.has_created:
                assert task.state is TaskState.HELD and task.held_by == [f"{type.lower()} other, so its history stays"]
                assert needed <= lake.files() and not forgotten(lake) and is_whole(lake)
            else:
                assert task.state is TaskState.DONE and not lake.files() and is_whole(lake), (calls, step)
    assert outcomes == {True, False}, "each of them wins in some order"


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_reader_keeps_the_files_and_the_history(tmp_path: Path, holder: str) -> None:
    with swept_lake(tmp_path, clock=ManualClock()) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        lake.put("u", lake.table("u").metadata_location)
        end = HOLDERS[holder](lake, location)
        id = drop_with_purge(lake, "t", location)
        before = lake.files()
        forget(lake, id)
        held = task_of(lake, id)
        assert held.state is TaskState.HELD and "so its history stays" in held.held_by[0]
        assert lake.files() == before and not forgotten(lake)
        end()
        forget(lake, id)
        assert task_of(lake, id).state is TaskState.DONE and lake.files() == before - needed_by(lake, before, location)


def needed_by(lake: SweptLake, before: set[str], location: str) -> set[str]:
    """The table's files lie in its own folder."""
    folder = location.rpartition("/metadata/")[0] + "/"
    return {one for one in before if one.startswith(folder)}


def test_a_clone_keeps_the_files_and_the_history(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        id, needed = dropped(lake)
        other = lake.new_realm("second", "")
        lake.put("clone", task_of(lake, id).metadata_location, realm=other)
        forget(lake, id)
        assert task_of(lake, id).held_by == ["branch main"] and needed <= lake.files() and not forgotten(lake)
        assert is_whole(lake) and not lake.sweep_twice().damage and needed <= lake.files()


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_dies_at_any_step_is_finished_or_taken_back_by_the_next(tmp_path: Path, step: str) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        id, needed = dropped(lake)
        fired: list[str] = []

        def die(here: str) -> None:
            if here == step:
                fired.append(here)
                if here != "batch" or len(fired) == 3:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            forget(lake, id, at=die, batch_size=2)
        assert fired
        assert is_whole(lake), "either nothing is gone, or it is known to be given up"
        swept = lake.sweep_twice()
        assert not swept.damage and not any(one.refusal for one in swept.roots) and lake.needed(kept) <= lake.files()
        purge_tasks(lake)
        if step in ("delete", "batch", "record"):
            assert task_of(lake, id).state in (TaskState.DONE, TaskState.METADATA_UNREADABLE)
            assert lake.files() == lake.needed(kept)
        else:
            assert task_of(lake, id).state is TaskState.HELD and needed <= lake.files() and not forgotten(lake)
            forget(lake, id)
            assert task_of(lake, id).state is TaskState.DONE and lake.files() == lake.needed(kept)
        assert is_whole(lake)


def bring_back_by_assign(lake: SweptLake) -> None:
    references_of(lake).assign("dev", f"main@{entry(lake, 3)}", meta=META)


def bring_back_by_merge(lake: SweptLake) -> None:
    kernel = lake.store.kernel(lake.realm)
    source = references_of(lake).resolve(f"main@{entry(lake, 3)}").logged
    commit_merge(kernel, pointer_of(lake, "dev"), MergeRequest(kernel, source, pointer_of(lake), META))


def bring_back_by_transplant(lake: SweptLake) -> None:
    kernel = lake.store.kernel(lake.realm)
    source = references_of(lake).resolve(f"main@{entry(lake, 3)}").logged
    kernel.committer.commit(pointer_of(lake, "dev"), TransplantRequest(kernel, [source], META))


def bring_back_by_plan(lake: SweptLake) -> None:
    kernel = lake.store.kernel(lake.realm)
    [table] = ForgottenTables(kernel).all()
    read = PlanInput(
        catalog="lake", catalog_id=1, key=("t",), type="ICEBERG_TABLE", content_id=table.content_id, metadata_location="x"
    )
    pinned = PinnedEntry(pointer_of(lake), 3, bytes.fromhex(entry(lake, 3)))
    Plans(kernel, PlanOptions(), PlanCounts()).begin("ann", [read], [pinned])


WAYS = [bring_back_by_assign, bring_back_by_merge, bring_back_by_transplant, bring_back_by_plan]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", ["mark", "delete", "after"])
def test_nothing_brings_the_table_back(tmp_path: Path, way: Callable[[SweptLake], None], step: str) -> None:
    with swept_lake(tmp_path) as lake:
        references_of(lake).create("dev", meta=META)
        lake.put("first", lake.table("first").metadata_location)
        id, _ = dropped(lake)
        before = references_of(lake).resolve("dev").commit_id
        refused: list[str] = []

        def bring_back(here: str) -> None:
            if here == step:
                with pytest.raises(HistoryForgotten) as error:
                    way(lake)
                refused.append(error.value.code)

        forget(lake, id, at=bring_back)
        bring_back("after")
        assert refused and references_of(lake).resolve("dev").commit_id == before
        assert task_of(lake, id).state is TaskState.DONE and is_whole(lake)
        references_of(lake).assign("dev", "main", meta=META)


def test_a_copy_of_the_realm_knows_it_too(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        id, _ = dropped(lake)
        forget(lake, id)
        export_realm(lake.store, "first", tmp_path / "first.hwx", Identifiers())
        with open_store(f"memory://{tmp_path.name}", create=True) as copied:
            realm = import_realm(copied, tmp_path / "first.hwx", "copy", Identifiers(), ImportOptions()).instance
            report = verify_files(copied, realm, lake.operations, lambda _what, _count: None)
            assert report.holds and report.forgotten == 3 and report.contents == 1


def test_a_later_table_with_the_same_content_id_keeps_its_files(tmp_path: Path) -> None:
    """Callers may choose content ids; what was given up is the versions of before."""
    with swept_lake(tmp_path) as lake:
        id, _ = dropped(lake)
        forget(lake, id)
        again = lake.table("again", 2).metadata_location
        lake.commit(Put(("elsewhere",), IcebergTable(again), content_id=task_of(lake, id).content_id))
        needed = lake.needed(again)
        assert not lake.sweep_twice().damage and needed <= lake.files()
        purge_tasks(lake)
        dropped_again = drop_with_purge(lake, "elsewhere", again)
        purge_tasks(lake)
        assert task_of(lake, dropped_again).state is TaskState.HELD and needed <= lake.files()
        forget(lake, dropped_again)
        assert task_of(lake, dropped_again).state is TaskState.DONE and not lake.files() and is_whole(lake)


def test_a_table_that_was_renamed_is_known_by_all_its_names(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        lake.commit(Rename(("t",), ("u",)))
        id = drop_with_purge(lake, "u", location)
        forget(lake, id)
        assert task_of(lake, id).state is TaskState.DONE and not lake.files() and is_whole(lake)
        for seq in (2, 3):
            with pytest.raises(HistoryForgotten):
                references_of(lake).create("old", f"main@{entry(lake, seq)}", meta=META)


def test_states_without_the_table_can_still_be_branched_from(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.put("kept", lake.table("kept").metadata_location)
        id, _ = dropped(lake)
        forget(lake, id)
        references_of(lake).create("early", f"main@{entry(lake, 2)}", meta=META)
        references_of(lake).create("late", meta=META)
        assert is_whole(lake)


def test_without_the_check_a_branch_at_an_old_state_loses_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_moves, "require_remembered", lambda *_: None)
    with swept_lake(tmp_path) as lake:
        id, _ = dropped(lake)
        at = f"main@{entry(lake, 2)}"
        forget(lake, id, at=lambda step: references_of(lake).create("dev", at, meta=META) if step == "delete" else None)
        assert not is_whole(lake), "a live branch names files that are gone"


def test_only_one_table_that_waits_can_be_named(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        id, needed = dropped(lake)
        with pytest.raises(InvalidInput, match="no table 'other' was dropped with PURGE"):
            named_task(lake.store, "other", "ops")
        assert named_task(lake.store, "t", "ops").id == named_task(lake.store, id, "ops").id == id
        with pytest.raises(MaintenanceRefused, match="a moment ago"):
            forget(lake, id, wait_seconds=300)
        [report] = forget(lake, id, dry_run=True)
        assert report.would_purge == len(needed) and needed <= lake.files() and not forgotten(lake)
        again = lake.table("again").metadata_location
        lake.put("t", again)
        drop_with_purge(lake, "t", again)
        with pytest.raises(InvalidInput, match="2 dropped tables are named 't'"):
            named_task(lake.store, "t", "ops")
