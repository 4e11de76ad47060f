"""One turn of the files' upkeep on a cadence: first the tables that were dropped with PURGE, then the claimed storage roots.

Nothing is done for a store that has claimed no root: a claim is how an operator says that files may be deleted. Between two
turns the manifest cache follows the log, so that the next sweep has less to read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import msgspec

from headwater.persistence.store import Store
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.executors import FileExecutor
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS, FileSweep, FileSweepOptions
from headwater.streaming.files.sweep.local_executor import LocalExecutor
from headwater.streaming.files.sweep.roots import Root, Roots, roots_of
from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskPurgeOptions
from headwater.streaming.files.watch.follow import FileFollower
from headwater.streaming.runs.realm_sets import realm_sets
from headwater.streaming.runs.runs import Runs


class FileUpkeep(msgspec.Struct, frozen=True, kw_only=True):
    operations: Callable[[], FileOperations]
    """Opened only when there is something to do."""
    executor: Callable[[], AbstractContextManager[FileExecutor]] = lambda: nullcontext(LocalExecutor())
    """Marks, lists and deletes in a sweep; closed when the sweep has ended."""
    sweep: FileSweepOptions = FileSweepOptions()
    tasks: TaskPurgeOptions = TaskPurgeOptions()


class UpkeepReport(msgspec.Struct, kw_only=True):
    purged: int = 0
    failures: list[str] = []


def upkeep_files(store: Store, upkeep: FileUpkeep, is_stopping: Callable[[], bool] = lambda: False) -> UpkeepReport:
    report = UpkeepReport(failures=[])
    claimed = claimed_roots(store)
    if not claimed:
        return report
    operations = upkeep.operations()
    runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE, is_stopping=is_stopping)
    with runs.run("files-purge") as run:
        TaskPurge(store, operations, upkeep.tasks).run(run)
        report.purged += run.record.totals().purged
        report.failures += run.record.failures
    options = msgspec.structs.replace(upkeep.sweep, roots=[root.location for root in claimed])
    with runs.run("files-sweep") as run, upkeep.executor() as executor:
        FileSweep(store, operations, options, executor=executor).run(run)
        report.purged += run.record.totals().purged
        report.failures += run.record.failures
    return report


def follow_files(store: Store, upkeep: FileUpkeep, is_stopping: Callable[[], bool] = lambda: False) -> list[str]:
    """One turn of reading what commits bring; realms that failed, and metadata that cannot be read. Deletes nothing."""
    if not claimed_roots(store):
        return []
    report = FileFollower(store, upkeep.operations(), threads=upkeep.sweep.threads).turn(is_stopping)
    return report.failures + report.damage


def claimed_roots(store: Store) -> list[Root]:
    """Those that this store has claimed at some time."""
    known = Roots(store.backend, store.clock)
    realms = [realm.instance for realm in realm_sets(store).retain]
    return [root for root in roots_of(store, realms) if root.takes_claim and known.get(root).claim]
