"""A stream that catches up tells of each batch while it runs, once: progress bars live from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from headwater.streaming.archive.archive import archive_log
from headwater.streaming.archive.archive_targets import ParquetArchive
from tests.support.fixtures.spark_lakes import fill, logged_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_batch_is_told_once_while_others_are_still_to_come(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    manifests = tmp_path / "archive" / "_headwater" / "batches"
    told: list[tuple[int, int, int]] = []

    def report(progress: dict[str, Any]) -> None:
        told.append((progress["batchId"], progress["numInputRows"], len(list(manifests.glob("*.json")))))

    with headwater.open(url, create=True) as engine:
        fill(engine, tables=2)
        changes = len(logged_changes(engine.realm().kernel))
        rows = archive_log(
            spark, ParquetArchive(spark, str(tmp_path / "archive")), store=url, changes_per_batch=2, report=report
        )
    batches = [batch for batch, _, _ in told]
    assert rows == changes == sum(count for _, count, _ in told)
    assert len(batches) == len(set(batches)) > 8
    assert told[0][2] < len(batches), "the first batch was told when all had ended"
