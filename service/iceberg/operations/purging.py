"""Records a task for a drop that asks for a purge, and later how many files the dropped metadata names.

⚠ No file is deleted here: other branches, tags and readers of the past may need them.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.immediate_tasks import PURGE_TABLE, ImmediateTask, ImmediateTasks, TaskState, task_id
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, MalformedMetadata, OutcomeUnknown
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import BranchOutcome, CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes


def drop_with_task(
    branch: LakeBranch, caller: CommitAuthor, key: KeyPath, drop: Callable[[CommitAuthor], BranchOutcome]
) -> BranchOutcome:
    """The task is intended before the drop and goes with it, whatever happens in between."""
    state = branch.state()
    tasks = ImmediateTasks(branch.kernel)
    request_id = uuid4().hex if caller.key is None else caller.key.id
    caller = msgspec.structs.replace(caller, request_id=request_id)
    task = ImmediateTask(
        id=task_id(branch.pointer, key, request_id),
        kind=PURGE_TABLE,
        state=TaskState.INTENDED,
        pointer=branch.pointer,
        key=key,
        request_id=request_id,
        after_seq=state.seq,
        created_at=branch.kernel.store.clock.now_micros(),
        created_by=caller.author,
    )
    if not branch.was_done(caller):
        state.require_table(key)
        tasks.intend(task)
    try:
        done = drop(caller)
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        tasks.forget(task)
        raise
    if done.change is not None:
        tasks.dropped(task, done.change)
    return done


def files_named_by(lakes: Lakes) -> Callable[[RealmKernel, ImmediateTask], int]:
    """For the runner of tasks: reads the metadata of a dropped table through its catalog's files."""

    def files_named(kernel: RealmKernel, task: ImmediateTask) -> int:
        named = parse_reference_pointer(task.pointer)
        catalogs = Catalogs(kernel)
        known = [*catalogs.list(), *catalogs.dropped()]
        catalog = next((one for one in known if named is not None and one.id == named.catalog_id), None)
        if catalog is None:
            raise MalformedMetadata(f"the catalog of {task.pointer} is gone.", field="metadata-location")
        return _count(lakes.metadata_of(catalog).load(task.metadata_location).table)

    return files_named


def _count(table: Plain) -> int:
    lists = sum(len(one.get("manifests") or ()) or 1 for one in table["snapshots"])
    return 1 + lists + len(table["metadata-log"]) + len(table["statistics"]) + len(table["partition-statistics"])
