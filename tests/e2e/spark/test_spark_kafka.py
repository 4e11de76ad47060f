"""A realm's topic in Spark, from a real broker: the same rows as from the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import headwater
from headwater.streaming.archive.archive import archive_stream
from headwater.streaming.archive.archive_targets import ParquetArchive
from headwater.streaming.sources.kafka_changes import KafkaOptions, stream_kafka_changes
from tests.support.fixtures.publisher_runs import options, publish_rest
from tests.support.fixtures.spark_lakes import change_of_row, fill, logged_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_published_changes_are_archived_from_kafka_change_by_change(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(store, create=True) as engine:
        fill(engine, tables=3)
        kernel = engine.realm().kernel
        expected = logged_changes(kernel)
        target = ParquetArchive(spark, f"{tmp_path}/archive")
        source = KafkaOptions(bootstrap=kafka_bootstrap, realm_instance=kernel.realm, store=store)
        publish_rest(engine.store, options(kafka_bootstrap))
        for _ in range(2):  # the second run finds nothing new
            writer = archive_stream(stream_kafka_changes(spark, source), target, f"{tmp_path}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()
        found = [change_of_row(row) for row in target.changes().collect()]
        assert sorted(found, key=lambda change: (change.pointer, change.seq)) == expected
