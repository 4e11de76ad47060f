"""The parts of a maintenance cycle, for `maintain schedule` and for the server; operations on files for commands, too."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.files.upkeep import FileUpkeep
from headwater.streaming.schedule import CycleTools, ScheduleOptions
from headwater.wiring.external_resources import external_resources
from headwater.wiring.sweeps import scheduled_plan, sweep_backend

if TYPE_CHECKING:
    from headwater.streaming.files.operations import FileOperations
    from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
    from headwater.streaming.files.tasks.doomed_files import DoomedFiles
    from headwater.streaming.files.tasks.task_purge import TaskPurgeOptions


def schedule_options(settings: Settings, every_seconds: float) -> ScheduleOptions:
    parse_retention(settings.retention)  # a rule that is none is refused at once, not at night
    return ScheduleOptions(every_seconds=every_seconds, retention=settings.retention)


def cycle_tools(store: Store, settings: Settings) -> CycleTools:
    return CycleTools(
        external_resources=external_resources(store, settings),
        sweep_backend=partial(sweep_backend, settings, scheduled_plan(settings)),
        files=file_upkeep(settings),
    )


def file_operations(settings: Settings) -> FileOperations:
    """Within one budget of requests and bytes."""
    from headwater.persistence.clock import SystemClock
    from headwater.service.storage.storage_options import server_storage
    from headwater.streaming.files.operations import FileOperations
    from headwater.streaming.files.stores.metered_store import budget_of
    from headwater.streaming.files.stores.storages import Storages

    budget = budget_of(settings.files_requests_per_second, settings.files_bytes_per_second, SystemClock())
    storages = Storages(server_storage(settings.storage_options).server, budget)
    return FileOperations(storages, cache_folder=location_of(settings.maintenance_dir))


def location_of(folder: str) -> str:
    """A folder of this machine as one that is reached without links."""
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
        protected=tuple(settings.files_protected.split()),
    )
    check_options(options)
    return options


def task_options(settings: Settings) -> TaskPurgeOptions:
    from headwater.streaming.files.tasks.task_purge import TaskPurgeOptions

    return TaskPurgeOptions(
        batch_size=settings.files_batch,
        files_per_second=settings.files_per_second,
        batches_per_second=settings.file_batches_per_second,
    )


def file_upkeep(settings: Settings) -> FileUpkeep:
    return FileUpkeep(
        operations=partial(file_operations, settings), sweep=sweep_options(settings), tasks=task_options(settings)
    )


def doomed_files(store: Store, settings: Settings) -> DoomedFiles:
    """Of realms and catalogs that are purged."""
    from headwater.streaming.files.tasks.doomed_files import DoomedFiles

    return DoomedFiles(store, partial(file_operations, settings), sweep_options(settings))
