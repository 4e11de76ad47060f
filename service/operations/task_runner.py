"""Runs the tasks that commits have left, in every realm that is served.

Each worker runs one. ⚠ A task belongs to one runner at a time, by a lease that is a mutable row moved by CAS; a runner that
dies loses it when its time is over, and another one continues from the state that is recorded. Every step can be done twice.
Files are deleted by maintenance, not here: a dropped table is left as HELD.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.work_leases import HeldLease, LeaseRecord, WorkLeases
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.store import RealmKernel
from headwater.producer.immediate_tasks import ImmediateTask, ImmediateTasks, TaskState
from headwater.schemas.errors import FileMissing, HeadwaterError, MalformedMetadata

LEASE_TYPE = "task-lease"
LEASE_SECONDS = 30.0
EVERY_SECONDS = 2.0
INTENT_SECONDS = 10.0
"""So long an intent is left to the request that wrote it."""
ABANDONED_SECONDS = 3_600.0
"""⚠ Much longer than any commit is tried: an intent without a commit after that has come to nothing."""

_log = logging.getLogger(__name__)

FilesNamed = Callable[[RealmKernel, ImmediateTask], int]
"""How many files the metadata of a dropped table names; `MalformedMetadata` or `FileMissing` if it cannot be read."""


OBJECT_TYPES.register(ObjectType(LEASE_TYPE, LeaseRecord, Life.MUTABLE))


class TaskRunner:
    """`kernels` says which realms are served now."""

    def __init__(
        self, kernels: Callable[[], list[RealmKernel]], files_named: FilesNamed, *, every_seconds: float = EVERY_SECONDS
    ) -> None:
        self._kernels = kernels
        self._files_named = files_named
        self._every_seconds = every_seconds
        self._holder = uuid.uuid4().hex
        self._closing = threading.Event()
        self._settled: dict[str, int] = {}
        """By realm, the seq of its tasks at which there was nothing left to do."""
        self._thread = threading.Thread(target=self._run, name="tasks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._every_seconds):
            for kernel in self._kernels():
                try:
                    self.run_realm(kernel)
                except HeadwaterError as error:
                    _log.warning("tasks of %s wait: %s", kernel.realm_name, error)
                except Exception:
                    _log.exception("tasks of %s wait", kernel.realm_name)

    def run_realm(self, kernel: RealmKernel) -> int:
        """How many tasks moved."""
        tasks = ImmediateTasks(kernel)
        seq = tasks.seq()
        if self._settled.get(kernel.realm) == seq:
            return 0
        still_open = tasks.open()
        moved = sum(self._step(kernel, tasks, task) for task in still_open if not self._closing.is_set())
        if not still_open:
            self._settled[kernel.realm] = seq
        return moved

    def _step(self, kernel: RealmKernel, tasks: ImmediateTasks, task: ImmediateTask) -> bool:
        age_seconds = (kernel.store.clock.now_micros() - task.created_at) / MICROS
        if task.state is TaskState.INTENDED and age_seconds < INTENT_SECONDS:
            return False
        lease = self._take(kernel, task.id)
        if lease is None:
            return False
        try:
            known = tasks.get(task.id)  # another one may have gone on before the lease was ours
            return known is not None and self._advance(kernel, tasks, known, age_seconds)
        finally:
            self._release(lease)

    def _advance(self, kernel: RealmKernel, tasks: ImmediateTasks, task: ImmediateTask, age_seconds: float) -> bool:
        if task.state is TaskState.INTENDED:
            change = tasks.drop_commit(task)
            if change is None:
                if age_seconds > ABANDONED_SECONDS:
                    tasks.forget(task)
                return age_seconds > ABANDONED_SECONDS
            task = tasks.dropped(task, change)
        if task.state is TaskState.DROPPED:
            tasks.move(task, self._looked_at(kernel, task))
            return True
        return False

    def _looked_at(self, kernel: RealmKernel, task: ImmediateTask) -> ImmediateTask:
        try:
            named = self._files_named(kernel, task)
        except (MalformedMetadata, FileMissing) as fault:
            return msgspec.structs.replace(task, state=TaskState.METADATA_UNREADABLE, fault=fault.message[:1_000])
        return msgspec.structs.replace(task, state=TaskState.HELD, files_named=named)

    # ── leases ──────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, kernel: RealmKernel, id: str) -> HeldLease | None:
        leases = WorkLeases(kernel.store.backend, kernel.store.clock, LEASE_SECONDS, type=LEASE_TYPE, realm=kernel.realm)
        seen = leases.look(id)
        return None if seen.is_held else leases.take(id, self._holder, seen)

    def _release(self, lease: HeldLease) -> None:
        try:
            lease.delete()
        except HeadwaterError:
            _log.info("a lease stays until it expires", extra={"task": lease.claim.key})
