"""A stream that catches up reports each batch while it runs, once, whichever session is the active one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from headwater.streaming.archive.archive import archive_log
from headwater.streaming.archive.archive_targets import Decide, ParquetArchive
from headwater.streaming.sources.log_offsets import LogOffset
from headwater.streaming.spark.session import SparkOptions, spark_session
from tests.support.fixtures.spark_lakes import fill, logged_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def activate_a_clone(spark: SparkSession) -> None:
    """As a batch of a stream does that makes a DataFrame of local rows."""
    clone = spark.newSession()
    clone.createDataFrame([(1,)], "number int")
    assert clone.getActiveSession() is clone, "no other session became the active one"


def test_the_session_that_runs_is_found_while_a_clone_is_active(spark: SparkSession) -> None:
    activate_a_clone(spark)
    assert spark_session(SparkOptions(master="local[2]")) is spark


def test_each_batch_is_reported_once_while_others_follow(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    told: list[tuple[int, int]] = []
    first_told = threading.Event()
    waited: list[bool] = []

    def report(progress: dict[str, Any]) -> None:
        told.append((progress["batchId"], progress["numInputRows"]))
        first_told.set()

    class WaitingArchive(ParquetArchive):
        """Its sixth batch is written only when the first was told."""

        def append(self, changes: DataFrame, position: LogOffset, decide: Decide) -> None:
            waited.append(len(waited) < 5 or first_told.wait(60))
            super().append(changes, position, decide)

    with headwater.open(url, create=True) as engine:
        fill(engine, tables=2)
        changes = len(logged_changes(engine.realm().kernel))
        activate_a_clone(spark)
        rows = archive_log(
            spark, WaitingArchive(spark, str(tmp_path / "archive")), store=url, changes_per_batch=2, report=report
        )
    batches = [batch for batch, _ in told]
    assert rows == changes == sum(count for _, count in told)
    assert len(batches) == len(set(batches)) > 8
    assert all(waited) and len(waited) > 6, "the first batch was not told while others were still to come"
