"""A sweep of files on Spark's workers: the same files go as in one process, and the driver is given counts alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.schemas.errors import FilterOverflow, InvalidInput, MaintenanceSuperseded
from headwater.streaming.files.spark.spark_marks import SparkFileExecutor
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE
from headwater.streaming.files.tasks.forgetting import NamedTask
from headwater.streaming.retained import retained_filter
from tests.support.fixtures.purged_lake import drop_with_purge, purge_tasks
from tests.support.fixtures.swept_lake import SweptLake, swept_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED_BY_ALL = ("kept", "dropped")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SweptLake]:
    """With a table in use, one that its history needs, and one that nobody needs."""
    with swept_lake(tmp_path, url=f"sqlite:///{tmp_path}/store.db", cached=True) as made:
        for name in NEEDED_BY_ALL:
            made.put(name, made.table(name, 3).metadata_location)
        made.drop("dropped")
        made.table("orphan", 2)
        yield made


def executor_of(spark: SparkSession, lake: SweptLake) -> SparkFileExecutor:
    return SparkFileExecutor(spark, WorkerFiles(store_url=lake.url, cache_folder=lake.cache_folder))


def orphans(lake: SweptLake) -> set[str]:
    return {file for file in lake.files() if "/orphan/" in file}


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
        raise AssertionError("rows were asked for by the driver")

    monkeypatch.setattr(DataFrame, "collect", counted)
    monkeypatch.setattr(DataFrame, "toArrow", never)
    return collected


def test_workers_delete_what_one_process_would_delete(
    lake: SweptLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look is one process's, the second and the deletion are the workers'."""
    going, before = orphans(lake), lake.files()
    [alone] = lake.sweep().roots
    collected = driver_is_given(monkeypatch)
    [report] = lake.sweep(executor=executor_of(spark, lake)).roots
    assert not report.refusal and report.purge is not None
    assert (report.purge.purged, report.purge.missing, report.purge.failed) == (len(going), 0, 0)
    for name in ("listed", "live", "young", "unknown", "protected", "mismatched", "condemned", "condemned_bytes"):
        assert getattr(report, name) == getattr(alone, name), name
    assert lake.files() == before - going and report.purge.bytes == alone.condemned_bytes
    assert collected and max(collected) < len(going)


def test_a_bloom_filter_overflows_then_fits_and_what_is_committed_meanwhile_stays(
    lake: SweptLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, going = lake.table("late", 2).metadata_location, orphans(lake)
    lake.sweep()
    executor = executor_of(spark, lake)
    with monkeypatch.context() as small:
        small.setattr(retained_filter, "CAPACITY_MIN", 5)
        with pytest.raises(FilterOverflow):
            lake.sweep(filter="bloom", executor=executor)
        assert going <= lake.files()

        def commit(step: str) -> None:
            if step == "list" and not late_commits:
                late_commits.append(late)
                lake.put("late", late)

        late_commits: list[str] = []
        [report] = lake.sweep(filter="bloom", executor=executor, at=commit).roots
    assert late_commits and report.rescued >= len(lake.needed(late)) and lake.needed(late) <= lake.files()
    assert not report.refusal and report.purge is not None and report.purge.purged > 0
    assert len(going & lake.files()) <= 1, "a false positive may spare one"


def test_workers_delete_nothing_once_the_run_has_lost_its_lease(lake: SweptLake, spark: SparkSession) -> None:
    """And what an earlier share has done would be counted: the run ends as superseded."""
    lake.sweep()
    before = lake.files()

    def take_over(step: str) -> None:
        if step == "delete":
            leases = WorkLeases(lake.store.backend, lake.store.clock)
            assert leases.take(FILES_LEASE, "another", leases.look(FILES_LEASE)) is not None

    with pytest.raises(MaintenanceSuperseded):
        lake.sweep(executor=executor_of(spark, lake), at=take_over)
    assert lake.files() == before


def test_a_store_that_workers_cannot_reach_is_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake, pytest.raises(InvalidInput, match="cannot be reached by workers"):
        lake.sweep(executor=SparkFileExecutor(None, WorkerFiles(store_url=lake.url)))  # type: ignore[arg-type]


def test_credentials_are_not_shown_where_workers_settings_are_printed() -> None:
    files = WorkerFiles(store_url="postgresql://ada:secret@db/lake", options={"s3.secret-access-key": "secret"})
    assert "secret" not in f"{files} {files!r}"


def test_workers_leave_out_a_table_whose_history_was_given_up(lake: SweptLake, spark: SparkSession) -> None:
    location = lake.table("forgotten").metadata_location
    lake.put("forgotten", location)
    id = drop_with_purge(lake, "forgotten", location)
    lake.sweep()
    purge_tasks(lake, forget=NamedTask(realm=lake.realm, id=id, author="ops"))
    before, going = lake.files(), orphans(lake)
    assert not any("/forgotten/" in one for one in before)
    [report] = lake.sweep(executor=executor_of(spark, lake)).roots
    assert not report.refusal and not report.damage and lake.files() == before - going
