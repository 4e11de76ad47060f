"""Measures a file sweep beside Iceberg's `remove_orphan_files`, in turns on the same files of this machine.

Nine files in ten are in use, in manifests of 10,000 entries; the others are deleted, and written again before the next turn.
Grace and second look are off, because the files are young and each turn deletes; everything else is a sweep as it is shipped.
`--objects 1000000` takes as many files, for the sweep on Spark.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.context import Context
from bench.file_tables import FilesOnDisk
from bench.measures import Measure
from bench.prepared_s3 import key_of, prepared_s3
from bench.processes import core_seconds
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.pointer_names import branch_pointer
from headwater.settings import load_settings
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.spark.spark_marks import SparkFileExecutor
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.executors import FileExecutor
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS, FileSweep, FileSweepOptions
from headwater.streaming.files.sweep.local_executor import LocalExecutor
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.runs.runs import Runs
from headwater.wiring.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Files: a sweep beside Iceberg's remove_orphan_files, local files"
META = CommitMeta("bench")
PREPARED_KEYS, PREPARED_DELETES = 300_000, 50_000
OPTIONS = FileSweepOptions(grace_hours=0, confirm_hours=0, share_max=1, batches_per_second=0)
ONE_RUN = FileSafeguards(grace=False, second_look=False)
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.disk": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.disk.type": "hadoop",
}


class Turn(NamedTuple):
    seconds: float
    core_seconds: float
    heap_megabytes: float = 0.0


def run(context: Context) -> Iterator[Measure]:
    with context.console.status("listing and deleting on an endpoint with prepared answers …"):
        yield from _on_prepared_s3()
    for files in context.objects:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
            with context.console.status(f"writing {files:,} files …"):
                disk = FilesOnDisk(Path(folder) / "lake", files)
            yield from _measured(context, disk, Path(folder))


def _on_prepared_s3() -> Iterator[Measure]:
    import boto3  # type: ignore[import-untyped]

    with prepared_s3(PREPARED_KEYS) as endpoint:
        options = {"s3.endpoint": endpoint, "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
        operations = FileOperations(Storages(options))
        cores, listed = time.process_time(), sum(1 for _ in operations.find("s3://lake"))
        rate = listed / (time.process_time() - cores)
        if listed != PREPARED_KEYS:
            raise AssertionError(f"{listed} keys were listed")
        yield Measure("files", "prepared S3", "listed", rate, "keys/s of one core")
        locations = [f"s3://lake/{key_of(number, PREPARED_KEYS)}" for number in range(PREPARED_DELETES)]
        cores = time.process_time()
        spec = PurgeSpec(batch_size=1_000, batches_per_second=0)
        done = operations.purge((FileRef(one, FileKind.DATA) for one in locations), spec)
        ours = time.process_time() - cores
        if done.purged != PREPARED_DELETES:
            raise AssertionError(f"{done.purged} keys were deleted")
        yield Measure("files", "prepared S3", "deleted in batches of 1,000", PREPARED_DELETES / ours, "keys/s of one core")
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )
        cores = time.process_time()
        for first in range(0, PREPARED_DELETES, 1_000):
            keys = [{"Key": key_of(number, PREPARED_KEYS)} for number in range(first, first + 1_000)]
            client.delete_objects(Bucket="lake", Delete={"Objects": keys})
        boto = time.process_time() - cores
        yield Measure("files", "prepared S3", "deleted, against boto3", boto / ours, "× rate")


def _measured(context: Context, disk: FilesOnDisk, folder: Path) -> Iterator[Measure]:
    subject = f"{disk.files:,} files"
    conf = " ".join(f"{name}={value}" for name, value in {**ICEBERG, "spark.sql.catalog.disk.warehouse": disk.root}.items())
    spark = open_spark(load_settings({"spark_conf": conf, "spark_master": "local[2]"}))
    url = f"sqlite:///{folder}/store.db"
    with open_store(url, create=True) as store:
        sweeping = _Sweeping(store, disk, folder)
        on_spark = SparkFileExecutor(spark, WorkerFiles(store_url=url))
        ways: dict[str, Callable[[], int]] = {
            "in process, cold": lambda: sweeping.run(LocalExecutor(), "cold"),
            "remove_orphan_files, first": lambda: _removed(spark),
            "in process, warm": lambda: sweeping.run(LocalExecutor(), "cold"),
            "remove_orphan_files": lambda: _removed(spark),
            "on Spark, cold, first": lambda: sweeping.run(on_spark),
            "on Spark, cold": lambda: sweeping.run(on_spark),
        }
        turns: dict[str, Turn] = {}
        for name, way in ways.items():
            disk.write_orphans()
            with context.console.status(f"{subject}: {name} …"):
                turns[name] = _turn(spark, way, disk.orphans)
            yield Measure("files", subject, name, turns[name].seconds, "s")
            yield Measure("files", subject, name, turns[name].core_seconds, "core s")
        for name in ("in process, cold", "in process, warm", "on Spark, cold"):
            action, ours = turns["remove_orphan_files"], turns[name]
            yield Measure("files", subject, f"{name}, against remove_orphan_files", ours.seconds / action.seconds, "× time")
            cores = ours.core_seconds / action.core_seconds
            yield Measure("files", subject, f"{name}, against remove_orphan_files", cores, "× CPU time")
        heap = turns["on Spark, cold"].heap_megabytes / turns["remove_orphan_files"].heap_megabytes
        yield Measure("files", subject, "on Spark, cold, against remove_orphan_files", heap, "× heap")
        for name in ("on Spark, cold", "remove_orphan_files"):
            yield Measure("files", subject, name, turns[name].heap_megabytes, "MiB of heap")


def _turn(spark: SparkSession, way: Callable[[], int], expected: int) -> Turn:
    heap = _Heap(spark)
    started, cores = time.perf_counter(), core_seconds()
    with heap:
        gone = way()
    turn = Turn(time.perf_counter() - started, core_seconds() - cores, heap.most)
    if gone != expected:
        raise AssertionError(f"{gone} files went, not {expected}")
    return turn


def _removed(spark: SparkSession) -> int:
    """Young files, too: the action refuses less than a day, so a time in the future is not possible; files were dated back."""
    call = "CALL disk.system.remove_orphan_files(table => 'db.t', older_than => TIMESTAMP '{}')"
    yesterday = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 25 * 3_600))
    return len(spark.sql(call.format(yesterday)).collect())


class _Sweeping:
    def __init__(self, store: Store, disk: FilesOnDisk, folder: Path) -> None:
        self._store = store
        self._folder = folder
        realms = Realms(store)
        realms.create("bench")
        realms.init("bench")
        kernel = realms.require_active("bench")
        catalog = Catalogs(kernel).ensure("lake", storage_root=disk.root, meta=META)
        put = CatalogCommit(kernel, [Put(("t",), IcebergTable(disk.metadata))], META)
        kernel.committer.commit(branch_pointer(catalog.id, "main"), put)
        for root in roots_of(store, [kernel.realm]):
            Claims(store, Storages()).claim(root)

    def run(self, executor: FileExecutor, cache: str = "") -> int:
        operations = FileOperations(Storages(), cache_folder=str(self._folder / cache) if cache else "")
        runs = Runs(self._store.backend, self._store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with runs.run("files-sweep") as run:
            sweep = FileSweep(self._store, operations, OPTIONS, safeguards=ONE_RUN, executor=executor)
            [report] = sweep.run(run).roots
        if report.refusal or report.purge is None:
            raise AssertionError(report.refusal or "nothing went")
        return report.purge.purged


class _Heap:
    """The most that the JVM's heap held, looked at while something runs, after a collection."""

    def __init__(self, spark: SparkSession) -> None:
        self._bean = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()  # type: ignore[union-attr]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most = 0.0

    def __enter__(self) -> None:
        self._bean.gc()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.5):
            self.most = max(self.most, self._bean.getHeapMemoryUsage().getUsed() / 1024 / 1024)
