"""Sweeps the files of a store on the executors of a real cluster, slowly, and prints the report of its root as JSON."""

from __future__ import annotations

import sys

import msgspec

from headwater.persistence.store import open_store
from headwater.settings import load_settings
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.spark.spark_marks import SparkFileExecutor
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS, FileSweep, FileSweepOptions
from headwater.streaming.runs.runs import Runs
from headwater.wiring.spark import open_spark


def main(master: str, conf: str, url: str, files_per_second: str) -> None:
    spark = open_spark(load_settings({"spark_master": master, "spark_conf": conf, "spark_driver_memory": "512m"}, {}))
    options = FileSweepOptions(
        confirm_hours=0, share_max=1, batch_size=5, batches_per_second=0, files_per_second=float(files_per_second)
    )
    with open_store(url) as store:
        runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with runs.run("files-sweep") as run:
            executor = SparkFileExecutor(spark, WorkerFiles(store_url=url))
            ageless = FileSafeguards(grace=False)
            sweep = FileSweep(store, FileOperations(Storages()), options, safeguards=ageless, executor=executor)
            [report] = sweep.run(run).roots
    print("ANSWER " + msgspec.json.encode(report).decode())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
