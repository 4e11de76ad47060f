"""Reads and maintains a realm on the executors of a real cluster, and prints the result as JSON.

At the moments that are named every task that works says so by a file in the folder and waits for the file `go-<moment>`: the
test kills one worker in between. `retained`: rows of a batch are being written. `sweep`: some rows are deleted, others are not.
With `read`, which is no such moment, log and tables are read before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headwater.persistence.store import Store, open_store
from headwater.settings import load_settings
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.retained_identifiers import installed_identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.runs.runs import Runs
from headwater.streaming.spark_jobs import retained_job, spark_executor
from headwater.streaming.spark_jobs.retained_job import RetainedJob
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions
from headwater.wiring.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 60


def where_from(_: Any) -> Any:
    import headwater

    yield headwater.__file__


def gated(folder: str, moment: str) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Half of the first batch passes; the rest when the test says so."""

    def pass_half(batches: Iterable[Any]) -> Iterable[Any]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            deadline = time.monotonic() + WAIT_SECONDS
            (Path(folder) / f"in-{moment}-{os.getpid()}").touch()
            while not (Path(folder) / f"go-{moment}").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            yield batch.slice(half)

    return pass_half


def hold(folder: str, moments: Sequence[str]) -> None:
    """From now on tasks stop at these moments."""
    job, executor = cast(Any, retained_job), cast(Any, spark_executor)
    write, delete = job.write_parquet, executor.deleting
    passing, deleting = gated(folder, "retained"), gated(folder, "sweep")

    def write_gated(rows: DataFrame, target: str) -> int:
        return int(write(rows.repartition(3).mapInArrow(passing, rows.schema), target))

    def delete_gated(*arguments: Any) -> Any:
        task = delete(*arguments)
        return lambda batches: task(deleting(batches))

    if "retained" in moments:
        job.write_parquet = write_gated
    if "sweep" in moments:
        executor.deleting = delete_gated


def maintain(spark: SparkSession, store: Store, url: str, realm: str, folder: str) -> dict[str, Any]:
    retained = RetainedStore(f"{folder}/retained", realm)
    source = StreamedSource(spark, f"{folder}/retained")
    state = RetainedJob(spark, store, url, retained).run(changes_per_batch=20)
    known = installed_identifiers()
    fenced = fence_realm(store.backend, realm, store.clock)
    same = source.retained(fenced).ids.local() == WalkedSource(store.backend, known).retained(fenced).ids
    sweep = Sweep(store, source, SparkExecutor(spark, url, store.backend), known, SweepOptions(filter="exact", splits=4))
    runs = Runs(store.backend, store.clock)
    with runs.run("sweep") as run:
        report = sweep.run(runs, run, [realm])
    return {"steps": state.number, "same": same, "failures": report.failures, "purged": run.record.totals().purged}


def executors(spark: SparkSession) -> int:
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def main(master: str, conf: str, store_url: str, realm: str, folder: str, *moments: str) -> None:
    spark = open_spark(load_settings({"spark_master": master, "spark_conf": conf, "spark_driver_memory": "512m"}, {}))
    rdd = spark.sparkContext.parallelize(range(6), 6)
    answer: dict[str, Any] = {"packages": sorted(set(rdd.mapPartitions(where_from).collect())), "executors": executors(spark)}
    if "read" in moments:
        changes = spark.read.format("headwater").options(store=store_url, realm=realm, changes_per_split="20").load()
        objects = spark.read.format("headwater_rows").options(store=store_url, realm=realm, splits="3").load()
        answer["changes"] = sorted((row.pointer, row.seq) for row in changes.select("pointer", "seq").collect())
        answer["objects"] = objects.count()
    hold(folder, moments)
    with open_store(store_url) as store:
        answer |= maintain(spark, store, store_url, realm, folder)
    answer["executors_left"] = executors(spark)
    print("ANSWER " + json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
