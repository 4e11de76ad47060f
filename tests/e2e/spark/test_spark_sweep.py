"""A sweep on Spark's workers: what must stay is found, joined or filtered, and probed there, and exactly the rest is gone.

Each safeguard that concerns workers is switched off once, to show that without it data are lost.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.commit import draft
from headwater.persistence.rows import Split, Table
from headwater.schemas.errors import FilterOverflow, MaintenanceRefused, MaintenanceSuperseded, ObjectNotFound
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.id_set import MarkedIds
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.reachability.safeguards import Safeguards
from headwater.streaming.retained.retained_filter import FilterChoice
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import RunStatus
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.spark_jobs.spark_ids import FrameIds
from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource
from headwater.streaming.sweep.executors import SweepWork
from headwater.streaming.sweep.sweep_task import RealmToSweep, SplitResult, SweepPlan
from tests.support.fixtures.maintained import HOUR, Maintained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANCE = "lake#0000000000000001"
OTHER = "other#0000000000000001"


class OnSpark:
    """Two realms in SQLite, each with garbage that is old enough."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.url = f"sqlite:///{folder}/lake.db"
        self.backend = open_backend(self.url)
        self.backend.create_schema()
        self.realm = Maintained(self.backend, seed=7, realm=INSTANCE)
        self.other = Maintained(self.backend, seed=8, realm=OTHER, clock=self.realm.clock)
        for one in (self.realm, self.other):
            for _ in range(35):
                one.step()
            one.orphan()
            one.expire("*=5n")
        self.realm.clock.move(4 * HOUR)

    @property
    def executor(self) -> SparkExecutor:
        return SparkExecutor(self.spark, self.url, self.backend)

    def marked(self) -> MarkedIds:
        fenced = fence_realm(self.backend, INSTANCE, self.realm.clock)
        return WalkedSource(self.backend, Identifiers()).retained(fenced).ids

    def sweep(self, **options: Any) -> Any:
        source = SparkWalkedSource(self.spark, self.url, Identifiers, entries_per_task=8)
        return self.realm.sweep(realms=[INSTANCE, OTHER], source=source, executor=self.executor, splits=3, **options)


@pytest.fixture
def on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnSpark]:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
    made = OnSpark(spark, tmp_path)
    yield made
    made.backend.close()


@pytest.mark.parametrize("kind", ["exact", "bloom"])
def test_workers_delete_exactly_what_no_state_reaches(on_spark: OnSpark, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚠ Neither the ids of the set nor the rows of the scan are gathered in the driver: it is given counts and a sample."""
    collected = driver_is_given(monkeypatch)
    realms = (on_spark.realm, on_spark.other)
    reachable = [one.reachable() for one in realms]
    on_spark.realm.attach_copies()
    on_spark.realm.clock.move(4 * HOUR)
    staying = [on_spark.realm.with_copies(reachable[0]), reachable[1]]
    before = [Counter(row.type for row in one.rows()) for one in realms]
    report = on_spark.sweep(filter=kind)
    assert [one.ids() for one in realms] == staying != reachable and not report.failures
    for one, rows in zip(realms, before, strict=True):
        one.check_states()
        after = Counter(row.type for row in one.rows())
        for name, counts in report.counts[one.realm].items():
            assert (counts.scanned, counts.retained, counts.newer) == (rows[name], after[name], 0)
            assert counts.purged == rows[name] - after[name]
    assert report.sample and sum(it.purged for by in report.counts.values() for it in by.values()) > 40
    assert on_spark.realm.record.status is RunStatus.DONE and on_spark.realm.record.retained_ids == sum(map(len, reachable))
    assert collected and sum(collected) < 20 < len(reachable[0])


def driver_is_given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows, each time."""
    from pyspark.sql.classic.dataframe import DataFrame

    collected: list[int] = []
    collect = DataFrame.collect

    def counted(self: DataFrame) -> Any:
        rows = collect(self)
        collected.append(len(rows))
        return rows

    def never(self: Any) -> Any:
        raise AssertionError("ids were asked for by the driver")

    monkeypatch.setattr(DataFrame, "collect", counted)
    monkeypatch.setattr(DataFrame, "toArrow", never)
    monkeypatch.setattr(FrameIds, "local", never)
    return collected


def test_a_walk_split_into_many_tasks_marks_what_one_walk_marks(on_spark: OnSpark) -> None:
    fenced = fence_realm(on_spark.backend, INSTANCE, on_spark.realm.clock)
    by_tasks = SparkWalkedSource(on_spark.spark, on_spark.url, Identifiers, entries_per_task=3).retained(fenced)
    by_one = WalkedSource(on_spark.backend, Identifiers()).retained(fenced)
    assert by_tasks.ids.local() == by_one.ids and by_tasks.positions == by_one.positions


def test_a_filter_that_workers_hash_otherwise_is_refused_and_would_lose_objects(on_spark: OnSpark) -> None:
    """The mutant "seed hash differing between workers"."""
    before = on_spark.realm.ids()
    with pytest.raises(MaintenanceRefused, match="has lost object"):
        on_spark.sweep(filter="bloom", safeguards=Safeguards(one_salt=False))
    assert on_spark.realm.ids() == before
    on_spark.sweep(filter="bloom", safeguards=Safeguards(one_salt=False, probe=False))
    with pytest.raises(ObjectNotFound):
        on_spark.realm.check_states()


def test_a_filter_of_workers_that_is_overfull_or_a_set_that_shrank_on_its_way_is_refused(on_spark: OnSpark) -> None:
    ids = on_spark.marked()
    executor = on_spark.executor
    with pytest.raises(FilterOverflow):
        executor.prepare({INSTANCE: ids}, FilterChoice(kind="bloom", capacity=20))
    executor.prepare({INSTANCE: ids}, FilterChoice(kind="exact"))
    assert executor.probe() == len(ids)
    executor._kept_count += 1
    with pytest.raises(MaintenanceRefused, match="must stay"):
        executor.probe()
    executor.release()


def test_a_split_that_cannot_be_read_is_reported_and_the_others_continue(on_spark: OnSpark) -> None:
    ids = on_spark.marked()
    before = len(on_spark.realm.rows())
    splits = [*on_spark.backend.splits(Table.OBJECTS, 2), Split(Table.OBJECTS, "no such share", "")]
    plan = SweepPlan(realms={INSTANCE: RealmToSweep(created_before=2**62, types=frozenset({"content"}))}, dry_run=True)
    for choice in (FilterChoice(kind="exact"), FilterChoice(kind="bloom", capacity=1_000)):
        total, executor = SplitResult(), on_spark.executor
        executor.prepare({INSTANCE: ids}, choice)
        executor.sweep(SweepWork(splits, plan, lambda: None, lambda _: None, total.merge))
        executor.release()
        assert "no such share" in total.failures[0] and len(total.failures) == 1
        assert sum(counts.scanned for counts in total.counts[INSTANCE].values()) == before


def test_a_run_that_is_superseded_while_workers_are_at_it_is_cancelled(on_spark: OnSpark) -> None:
    before, asked = on_spark.realm.ids(), 0

    def superseded() -> None:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise MaintenanceSuperseded("by another run.")

    executor = on_spark.executor
    executor.prepare({INSTANCE: on_spark.marked()}, FilterChoice())
    plan = SweepPlan(realms={INSTANCE: RealmToSweep(created_before=2**62, types=frozenset({"content"}))})
    work = SweepWork(on_spark.backend.splits(Table.OBJECTS, 2), plan, superseded, lambda _: None, lambda _: None)
    writer = sqlite3.connect(on_spark.url.removeprefix("sqlite:///"), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # whatever a worker wants to delete has to wait
    with pytest.raises(MaintenanceSuperseded):
        executor.sweep(work)
    assert asked == 4 and on_spark.realm.ids() == before
    writer.execute("ROLLBACK")
    writer.close()
    executor.release()
    on_spark.realm.check_states()
