"""The log in Spark: batch and stream are the log itself, whole, once, restartable, and they say why when they cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.schemas.errors import CursorExpired, InvalidInput
from headwater.streaming.spark.spark_errors import typed_error, typed_errors
from headwater.streaming.spark.stream_runner import run_until_caught_up
from tests.support.fixtures.spark_lakes import change_of_row, cut_history, fill, logged_changes, put_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAIN = "cat/1/heads/main"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Filled once, and only read."""
    url = f"sqlite:///{tmp_path_factory.mktemp('log')}/lake.db"
    with headwater.open(url, create=True) as engine:
        fill(engine)
    return url


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[str, Headwater]]:
    """A store of the test's own, to be changed."""
    url = f"sqlite:///{tmp_path}/own.db"
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=3)
        yield url, engine


def read(spark: SparkSession, store: str, **options: Any) -> DataFrame:
    return spark.read.format("headwater").options(store=store, **{name: str(value) for name, value in options.items()}).load()


class Sink:
    """What a stream brought, batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self.batches: dict[int, list[tuple[str, int]]] = {}

    def run(self, store: str, **options: Any) -> list[tuple[str, int]]:
        """Catch up; the rows of this run."""
        self.batches = {}
        texts = {name: str(value) for name, value in options.items()}
        stream = self._spark.readStream.format("headwater").options(store=store, until="start", **texts).load()
        run_until_caught_up(stream.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._folder / "at")))
        return [row for rows in self.batches.values() for row in rows]

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [(row.pointer, row.seq) for row in batch.select("pointer", "seq").collect()]


def test_a_batch_read_is_the_log_change_by_change(spark: SparkSession, store: str) -> None:
    rows = read(spark, store, changes_per_split=8).collect()
    with headwater.open(store) as engine:
        kernel = engine.realm().kernel
        assert sorted((change_of_row(row) for row in rows), key=lambda it: (it.pointer, it.seq)) == logged_changes(kernel)
        assert {row.realm_instance for row in rows} == {kernel.realm}
    assert {row.kind for row in rows} == {"commit", "merge", "create", "assign", "delete"}


def test_filters_on_pointer_seq_kind_and_time_are_answered_by_the_log(spark: SparkSession, store: str) -> None:
    condition = f"pointer = '{MAIN}' AND seq > 6 AND kind IN ('commit') AND time > timestamp'2025-01-01' AND seq <= 12"
    filtered = read(spark, store, changes_per_split=4).where(condition)
    plan = filtered._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, f"Spark filters itself: {plan}"
    assert filtered.rdd.getNumPartitions() == 2, "entries 7 to 12, four for each task"
    assert sorted(row.seq for row in filtered.collect()) == list(range(7, 13))


def test_filters_that_the_log_does_not_support_are_applied_by_spark(spark: SparkSession, store: str) -> None:
    by_author = read(spark, store).where("author = 'cyd' AND seq > 1")
    assert "Filter (" in by_author._jdf.queryExecution().executedPlan().toString()
    assert {row.author for row in by_author.collect()} == {"cyd"}


def test_a_stream_delivers_every_change_once_and_continues_from_its_checkpoint_in_bounded_batches(
    spark: SparkSession, own: tuple[str, Headwater], tmp_path: Path
) -> None:
    store, engine = own
    sink = Sink(spark, tmp_path)
    first = sink.run(store, changes_per_batch=16)
    assert sorted(first) == [(change.pointer, change.seq) for change in logged_changes(engine.realm().kernel)]
    assert max(len(batch) for batch in sink.batches.values()) <= 16 and len(sink.batches) >= 2
    put_tables(engine, "a", "b", "c", "d")
    engine.realm().catalog("lake").create_branch("later")
    second = sink.run(store, changes_per_batch=3)
    assert sorted(first + second) == [(change.pointer, change.seq) for change in logged_changes(engine.realm().kernel)]
    assert max(len(batch) for batch in sink.batches.values()) <= 3


def test_a_first_batch_that_is_repeated_begins_where_it_began(
    spark: SparkSession, own: tuple[str, Headwater], tmp_path: Path
) -> None:
    store, engine = own
    sink = Sink(spark, tmp_path)
    first = sink.run(store)
    shutil.rmtree(tmp_path / "at" / "commits")  # as if the driver had died before the batch was done
    assert sink.run(store) == first
    shutil.rmtree(tmp_path / "at" / "commits")
    cut_history(engine, MAIN)
    with pytest.raises(CursorExpired):
        sink.run(store)


def test_history_truncated_beyond_the_checkpoint_ends_the_stream(
    spark: SparkSession, own: tuple[str, Headwater], tmp_path: Path
) -> None:
    store, engine = own
    sink = Sink(spark, tmp_path)
    sink.run(store)
    put_tables(engine, "a", "b", "c")
    cut_history(engine, MAIN)
    with pytest.raises(CursorExpired):
        sink.run(store)


def test_an_option_that_does_not_exist_is_refused_in_one_line(spark: SparkSession, store: str) -> None:
    with pytest.raises(InvalidInput) as refused, typed_errors():
        read(spark, store, pointer=MAIN).count()
    assert "no option 'pointer'" in str(refused.value) and "\n" not in str(refused.value)


def test_a_failure_of_spark_itself_is_reported_as_such() -> None:
    assert str(typed_error(RuntimeError("first line\n  at somewhere"))).startswith("the Spark job failed: first line")
