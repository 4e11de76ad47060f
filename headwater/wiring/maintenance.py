"""The parts of a maintenance cycle, for `maintain schedule` and for the server; operations on files for commands, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.files.upkeep import FileUpkeep
from headwater.streaming.schedule import CycleTools, ScheduleOptions
from headwater.wiring.external_resources import external_resources
from headwater.wiring.sweeps import opened_purge_scan, quiet_spark, scheduled_sweep_backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.streaming.files.operations import FileOperations
    from headwater.streaming.files.sweep.executors import FileExecutor
    from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
    from headwater.streaming.files.tasks.doomed_files import DoomedFiles
    from headwater.streaming.files.tasks.task_purge import TaskPurgeOptions


def schedule_options(settings: Settings, every_seconds: float) -> ScheduleOptions:
    parse_retention(settings.retention)  # an invalid rule is refused at once, not at night
    return ScheduleOptions(every_seconds=every_seconds, retention=settings.retention)


def cycle_tools(store: Store, settings: Settings) -> CycleTools:
    return CycleTools(
        external_resources=external_resources(store, settings),
        sweep_backend=partial(scheduled_sweep_backend, settings),
        purge_scan=partial(opened_purge_scan, settings, store, on_spark=settings.maintain_on_spark),
        files=file_upkeep(settings),
    )


def file_operations(settings: Settings) -> FileOperations:
    """Within one budget of requests and bytes."""
    from headwater.persistence.clock import SystemClock
    from headwater.streaming.files.operations import FileOperations
    from headwater.streaming.files.stores.metered_store import budget_of
    from headwater.streaming.files.stores.storages import Storages

    budget = budget_of(settings.files_requests_per_second, settings.files_bytes_per_second, SystemClock())
    storages = Storages(file_storage(settings), budget)
    return FileOperations(storages, cache_folder=location_of(settings.maintenance_dir))


def file_storage(settings: Settings) -> dict[str, str]:
    """The options by which files are listed, read and deleted."""
    from headwater.service.storage.storage_options import server_storage

    return dict(server_storage(settings.files_storage_options or settings.storage_options).server)


def spark_file_executor(settings: Settings, spark: SparkSession) -> FileExecutor:
    """Uses a session that is open, and leaves it open."""
    from headwater.streaming.files.spark.spark_marks import SparkFileExecutor
    from headwater.streaming.files.spark.worker_files import WorkerFiles

    files = WorkerFiles(
        store_url=settings.store,
        options=file_storage(settings),
        requests_per_second=settings.files_requests_per_second,
        bytes_per_second=settings.files_bytes_per_second,
        cache_folder=location_of(settings.maintenance_dir),
    )
    return SparkFileExecutor(spark, files)


@contextmanager
def opened_file_executor(settings: Settings, *, on_spark: bool) -> Iterator[FileExecutor]:
    """The Spark session that it opens ends with the sweep: its memory is not held until the next one."""
    if not on_spark:
        from headwater.streaming.files.sweep.local_executor import LocalExecutor

        yield LocalExecutor()
        return
    spark = quiet_spark(settings)
    try:
        yield spark_file_executor(settings, spark)
    finally:
        spark.stop()


def location_of(folder: str) -> str:
    """A folder of this machine, as a path without links."""
    return folder if "://" in folder else os.path.realpath(folder.removeprefix("file:"))


def sweep_options(settings: Settings) -> FileSweepOptions:
    from headwater.streaming.files.sweep.file_sweep import FileSweepOptions, check_options

    options = FileSweepOptions(
        grace_hours=settings.files_grace_hours,
        confirm_hours=settings.files_confirm_hours,
        share_max=settings.files_share_max,
        filter="bloom" if settings.files_filter == "bloom" else "exact",
        batch_size=settings.files_batch,
        files_per_second=settings.files_per_second,
        batches_per_second=settings.file_batches_per_second,
        threads=settings.files_threads,
        list_prefixes=settings.files_list_prefixes,
        protected=tuple(settings.files_protected.split()),
        kept=(location_of(settings.maintenance_dir),),
    )
    check_options(options)
    return options


def task_options(settings: Settings) -> TaskPurgeOptions:
    from headwater.streaming.files.tasks.task_purge import TaskPurgeOptions

    return TaskPurgeOptions(
        batch_size=settings.files_batch,
        files_per_second=settings.files_per_second,
        batches_per_second=settings.file_batches_per_second,
        registered=settings.purge_registered,
    )


def file_upkeep(settings: Settings, spark: SparkSession | None = None) -> FileUpkeep:
    """Uses the session if there is one, otherwise follows `maintain_on_spark`."""
    executor: Callable[[], AbstractContextManager[FileExecutor]]
    if spark is None:
        executor = partial(opened_file_executor, settings, on_spark=settings.maintain_on_spark)
    else:
        session = spark
        executor = lambda: nullcontext(spark_file_executor(settings, session))  # noqa: E731
    return FileUpkeep(
        operations=partial(file_operations, settings),
        executor=executor,
        sweep=sweep_options(settings),
        tasks=task_options(settings),
    )


def doomed_files(store: Store, settings: Settings) -> DoomedFiles:
    """The files of realms and catalogs that are purged."""
    from headwater.streaming.files.tasks.doomed_files import DoomedFiles

    return DoomedFiles(store, partial(file_operations, settings), sweep_options(settings))
