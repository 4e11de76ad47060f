"""Sweeps the files of a store, or purges its dropped tables, and kills itself with SIGKILL at a step of the protocol."""

from __future__ import annotations

import os
import signal
import sys

from headwater.persistence.store import open_store
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, FileSweep, FileSweepOptions
from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskPurgeOptions
from headwater.streaming.runs.runs import Runs

BATCH_FILES = 2


def main(url: str, what: str, step: str) -> None:
    deleting = os.unlink
    deleted: list[str] = []

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        """`file` is a step in the middle of the work: a batch is done, and the next one has begun."""
        deleted.extend([] if dir_fd is None else [name])
        if step == "file" and len(deleted) == BATCH_FILES + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        deleting(name, dir_fd=dir_fd)

    def at(here: str) -> None:
        if here == step:
            os.kill(os.getpid(), signal.SIGKILL)

    os.unlink = unlink  # type: ignore[assignment]
    with open_store(url) as store:
        runs = Runs(store.backend, store.clock, lease_seconds=300, lease_key=FILES_LEASE)
        operations = FileOperations(Storages())
        with runs.run(f"files-{what}") as run:
            if what == "purge":
                tasks = TaskPurgeOptions(wait_seconds=0, batches_per_second=0, batch_size=BATCH_FILES)
                TaskPurge(store, operations, tasks, at=at).run(run)
            else:
                options = FileSweepOptions(confirm_hours=0, share_max=1, batches_per_second=0, batch_size=BATCH_FILES)
                FileSweep(store, operations, options, safeguards=FileSafeguards(grace=False), at=at).run(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
