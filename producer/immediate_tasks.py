"""Tasks that must follow a commit soon, recorded in the pointer `immediate-tasks` from their intent to their end.

⚠ A commit moves one pointer, so a task and the commit that it follows cannot be written at once. The intent is written first,
with the request id that the commit will carry; a runner that finds it later asks the log whether that commit is there. A crash
at any point leaves either an intent that came to nothing or a task that continues, never a commit whose task is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.records.records import (
    DeleteRecord,
    Expect,
    PutRecord,
    Record,
    RecordOperation,
    RecordsRequest,
    RecordType,
    Unchanged,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change, KeyPath
from headwater.schemas.errors import CursorExpired, RecordChanged, RecordNotFound

IMMEDIATE_TASKS = "immediate-tasks"
TASK = RecordType("IMMEDIATE_TASK", 1)
PURGE_TABLE = "purge-table"
OPEN_KEY: KeyPath = ("open",)
HELD_KEY: KeyPath = ("held",)
SETTLED_KEY: KeyPath = ("settled",)
"""Where the records lie, so that looking for work does not read through what is done."""


class TaskState(StrEnum):
    INTENDED = "INTENDED"
    """The drop was requested; whether it was committed is not recorded yet."""
    DROPPED = "DROPPED"
    """The drop is in the log."""
    HELD = "HELD"
    """Its files wait: `held_by` says for what."""
    DELETING = "DELETING"
    """Files are being deleted, or some could not be and are tried again."""
    DONE = "DONE"
    DONE_WITH_FAILURES = "DONE_WITH_FAILURES"
    """Some files could not be deleted in many tries."""
    METADATA_UNREADABLE = "METADATA_UNREADABLE"
    """The metadata is gone or damaged: it does not show what belongs to the table."""
    WAITING_FOR_FILE_DELETION = "WAITING_FOR_FILE_DELETION"
    """The name that older versions wrote for HELD."""


OPEN = (TaskState.INTENDED, TaskState.DROPPED)
"""States that a worker's runner continues."""
HELD = (TaskState.HELD, TaskState.DELETING)
"""States that maintenance continues."""


class ImmediateTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files of a dropped table that are not needed any more."""

    id: str
    kind: str
    state: TaskState
    pointer: str
    """Of the branch that the table was dropped from."""
    key: KeyPath
    request_id: str
    """Of the commit that drops it …"""
    after_seq: int
    """… which comes after this entry of the branch."""
    created_at: int
    created_by: str
    commit_id: str = ""
    content_id: str = ""
    metadata_location: str = ""
    files_named: int = 0
    """Manifest lists, statistics and older metadata files that the metadata names by itself."""
    fault: str = ""
    drop_seq: int = 0
    """Of the entry that drops the table; 0 in records of older versions."""
    held_by: list[str] = []
    deleting_since: int = 0
    """Microseconds."""
    purged: int = 0
    """Deletions that the storage confirmed …"""
    missing: int = 0
    """… files that were gone before …"""
    spared: int = 0
    """… that a retained state needs, or that lie elsewhere …"""
    failed: int = 0
    """… and that could not be deleted."""


def task_id(pointer: str, key: KeyPath, request_id: str) -> str:
    """The same for the same request, so that one that is sent again has no second task."""
    return hashlib.sha256(msgspec.json.encode([pointer, key, request_id])).hexdigest()[:32]


class ImmediateTasks:
    """The tasks of one realm."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    def seq(self) -> int:
        """Moves with every change of a task."""
        return head_records(self._kernel, IMMEDIATE_TASKS).seq

    def get(self, id: str) -> ImmediateTask | None:
        record = self._record(id)
        return None if record is None else _task(record)

    def all(self) -> Iterator[ImmediateTask]:
        """Of one state: those that are held, the open ones, then those that nothing is left to do for, each by id."""
        return (_task(record) for record in head_records(self._kernel, IMMEDIATE_TASKS).all())

    def open(self) -> list[ImmediateTask]:
        """However many others there are."""
        return [_task(record) for record in head_records(self._kernel, IMMEDIATE_TASKS).all(OPEN_KEY)]

    def held(self) -> list[ImmediateTask]:
        """Those of older versions lie among the settled ones."""
        return [task for task in self.all() if task.state in (*HELD, TaskState.WAITING_FOR_FILE_DELETION)]

    def intend(self, task: ImmediateTask) -> None:
        """Nothing to do if the same request intended it before."""
        if self.get(task.id) is None:
            self._put(task, f"Intend {task.kind} {'.'.join(task.key)}", None)

    def dropped(self, task: ImmediateTask, change: Change) -> ImmediateTask:
        """The commit is there: the task names what it dropped."""
        operation = next((one for one in change.operations if one.key == task.key), None)
        before = {} if operation is None else operation.before or {}
        moved = msgspec.structs.replace(
            task,
            state=TaskState.DROPPED,
            commit_id=change.commit_id,
            drop_seq=change.seq,
            content_id="" if operation is None else operation.content_id,
            metadata_location=str(before.get("metadata_location", "")),
        )
        return self.move(task, moved)

    def move(self, task: ImmediateTask, moved: ImmediateTask) -> ImmediateTask:
        """⚠ Only from the state that the caller knows: what another runner has done is not undone."""
        record = self._record(task.id)
        if record is not None and _task(record).state not in (task.state, moved.state):
            return _task(record)
        try:
            self._put(moved, f"{moved.state}: {'.'.join(moved.key)}", record)
        except (RecordChanged, RecordNotFound):
            return self.get(task.id) or moved
        return moved

    def forget(self, task: ImmediateTask) -> None:
        """The intent came to nothing."""
        record = self._record(task.id)
        if record is None or _task(record).state is not TaskState.INTENDED:
            return
        gone = DeleteRecord(key=record.key, expect=Unchanged(record.object_id))
        request = RecordsRequest(operations=[gone], author=task.created_by, message=f"Forget {task.kind} {'.'.join(task.key)}")
        try:
            self._kernel.committer.commit(IMMEDIATE_TASKS, request)
        except (RecordChanged, RecordNotFound):
            return

    def drop_commit(self, task: ImmediateTask) -> Change | None:
        """The commit that the task follows, if it is in the log; of a log that was cut, in what is left of it."""
        log = PointerLog(self._kernel, task.pointer)
        try:
            found = _with_request_id(log.forward(task.after_seq), task.request_id)
        except CursorExpired:
            found = _with_request_id(log.forward("earliest"), task.request_id)
        return None if found is None else change_of(found, self._kernel.realm_name)

    def _record(self, id: str) -> Record | None:
        records = head_records(self._kernel, IMMEDIATE_TASKS)
        found = (records.get((*folder, id)) for folder in (OPEN_KEY, HELD_KEY, SETTLED_KEY))
        return next((record for record in found if record is not None), None)

    def _put(self, task: ImmediateTask, message: str, replaces: Record | None) -> None:
        """At the key of its state, and nowhere else."""
        key = (*_folder(task.state), task.id)
        stays = replaces is not None and replaces.key == key
        expect = Unchanged(replaces.object_id) if replaces is not None and stays else Expect.ANYTHING
        operations: list[RecordOperation] = [PutRecord(type=TASK, key=key, value=msgspec.to_builtins(task), expect=expect)]
        if replaces is not None and not stays:
            operations.append(DeleteRecord(key=replaces.key, expect=Unchanged(replaces.object_id)))
        request = RecordsRequest(operations=operations, author=task.created_by, message=message)
        self._kernel.committer.commit(IMMEDIATE_TASKS, request)


def _folder(state: TaskState) -> KeyPath:
    if state in OPEN:
        return OPEN_KEY
    return HELD_KEY if state in HELD else SETTLED_KEY


def _with_request_id(entries: Iterable[LogRecord], request_id: str) -> LogRecord | None:
    return next((logged for logged in entries if logged.entry.request_id == request_id), None)


def _task(record: Record) -> ImmediateTask:
    return msgspec.convert(record.value, ImmediateTask)
