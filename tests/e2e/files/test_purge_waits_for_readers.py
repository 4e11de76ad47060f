"""DROP … PURGE waits for whoever still reads the table's past: plans, subscriptions and registered readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.records.subscriptions import SubscriptionRecord, Subscriptions
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.immediate_tasks import TaskState
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PinnedEntry, PlanInput, PlanOptions
from headwater.producer.plans.plans import Plans
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.cursor import Position
from headwater.streaming.expire.readers import RegisteredReaders
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, purge_tasks, references_of, task_of
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake

HOUR = 3_600
End = Callable[[], object]


def clock_of(lake: SweptLake) -> ManualClock:
    clock = lake.store.clock
    assert isinstance(clock, ManualClock)
    return clock


def head_of(lake: SweptLake, branch: str = "main") -> tuple[str, int]:
    kernel = lake.store.kernel(lake.realm)
    pointer = branch_pointer(Catalogs(kernel).list()[0].id, branch)
    return pointer, PointerLog(kernel, pointer).head().seq


def plans_of(lake: SweptLake) -> Plans:
    return Plans(lake.store.kernel(lake.realm), PlanOptions(), PlanCounts())


def plan_of_table(lake: SweptLake, location: str, branch: str = "main") -> str:
    table = PlanInput(
        catalog="lake",
        catalog_id=1,
        key=("t",),
        type="ICEBERG_TABLE",
        content_id="t",
        metadata_location=location,
        snapshot_id=1,
    )
    return plans_of(lake).begin("ann", [table], [PinnedEntry(*head_of(lake, branch), b"")], seconds=HOUR).id


def plan_that_is_ended(lake: SweptLake, location: str) -> End:
    plan = plan_of_table(lake, location)
    return lambda: plans_of(lake).end(plan, "ann")


def plan_that_is_not_renewed(lake: SweptLake, location: str) -> End:
    plan_of_table(lake, location)
    return lambda: clock_of(lake).move(HOUR + 15)


def subscription_that_moves_on(lake: SweptLake, location: str) -> End:
    subscriptions = Subscriptions(lake.store.kernel(lake.realm))
    pointer, seq = head_of(lake)
    read = subscriptions.create("copy", SubscriptionRecord({pointer: Position(seq - 1, b"")}, pin_seconds=HOUR))
    return lambda: subscriptions.write(read, SubscriptionRecord({pointer: Position(seq + 1, b"")}, pin_seconds=HOUR))


def subscription_that_is_deleted(lake: SweptLake, location: str) -> End:
    subscriptions = Subscriptions(lake.store.kernel(lake.realm))
    pointer, seq = head_of(lake)
    read = subscriptions.create("copy", SubscriptionRecord({pointer: Position(seq - 1, b"")}, pin_seconds=HOUR))
    return lambda: subscriptions.delete(read)


def subscription_that_is_too_old(lake: SweptLake, location: str) -> End:
    pointer, seq = head_of(lake)
    record = SubscriptionRecord({pointer: Position(seq - 1, b"")}, pin_seconds=HOUR)
    Subscriptions(lake.store.kernel(lake.realm)).create("copy", record)
    return lambda: clock_of(lake).move(HOUR + 1)


def reader_that_moves_on(lake: SweptLake, location: str) -> End:
    readers = RegisteredReaders(lake.store.backend, lake.realm, lake.store.clock)
    pointer, seq = head_of(lake)
    readers.save("archive", {pointer: seq - 1})
    return lambda: readers.save("archive", {pointer: seq + 1})


def reader_that_is_forgotten(lake: SweptLake, location: str) -> End:
    readers = RegisteredReaders(lake.store.backend, lake.realm, lake.store.clock)
    readers.save("archive", {})
    return lambda: readers.forget("archive")


HOLDERS = {
    one.__name__: one
    for one in (
        plan_that_is_ended,
        plan_that_is_not_renewed,
        subscription_that_moves_on,
        subscription_that_is_deleted,
        subscription_that_is_too_old,
        reader_that_moves_on,
        reader_that_is_forgotten,
    )
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_files_wait_until_the_reader_has_ended(tmp_path: Path, holder: str) -> None:
    with swept_lake(tmp_path, clock=ManualClock()) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        needed = lake.needed(location)
        end = HOLDERS[holder](lake, location)
        id = drop_with_purge(lake, "t", location)
        clock_of(lake).move(1)
        forget_history(lake)
        purge_tasks(lake)
        held = task_of(lake, id)
        assert held.state is TaskState.HELD and held.held_by == [f"history of branch main before entry {held.drop_seq}"]
        assert lake.files() == needed
        end()
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.HELD, "the history is there until an expiry takes it"
        forget_history(lake)
        purge_tasks(lake)
        done = task_of(lake, id)
        assert (done.state, done.purged) == (TaskState.DONE, len(needed)) and not lake.files()


def test_a_plan_on_another_branch_holds_the_files_also_when_that_branch_is_deleted(tmp_path: Path) -> None:
    with swept_lake(tmp_path, clock=ManualClock()) as lake:
        location = lake.table("t", 2).metadata_location
        lake.put("t", location)
        needed = lake.needed(location)
        references_of(lake).create("dev", meta=META)
        plan = plan_of_table(lake, location, "dev")
        id = drop_with_purge(lake, "t", location)
        references_of(lake).delete("dev", meta=META)
        clock_of(lake).move(1)
        forget_history(lake)
        purge_tasks(lake)
        held = task_of(lake, id)
        assert held.state is TaskState.HELD and held.held_by == ["history of branch dev"] and lake.files() == needed
        plans_of(lake).end(plan, "ann")
        forget_history(lake)
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and not lake.files()
