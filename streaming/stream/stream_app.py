"""Updates the retained set of every realm round by round, and runs each task when it is due, whatever fails in between.

⚠ A realm that fails or takes long does not stop the others, and a task that fails is left for its next turn. Tasks run on a
thread of their own, so a long sweep delays no set. Realms are listed again in each round, so new ones are picked up. If there
are several processes, one has the turn of each task (`schedule_turns`). All important state is kept beside the sets and in the
store, so a process that was killed continues where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import msgspec

from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import HeadwaterError, MaintenanceStopped
from headwater.streaming.runs.runs import Runs
from headwater.streaming.runs.schedule_turns import ScheduleTurns
from headwater.streaming.schedule import COME_BACK_SECONDS
from headwater.streaming.stream.stream_status import RealmStatus, StreamStatus, TaskStatus

TASK_LOOK_SECONDS = 1.0
"""Seconds between two checks whether a task is due."""
FINISH_SECONDS = 20.0
"""How long batches and tasks in progress may take to end before they are interrupted."""

_log = logging.getLogger(__name__)


class Updated(NamedTuple):
    """The result of updating a realm's set."""

    source: str
    step: int
    rows: int
    behind: int


class Task(NamedTuple):
    every_seconds: float
    run: Callable[[], Sequence[str]]
    """Returns failures."""


class StreamParts(NamedTuple):
    realms: Callable[[], Sequence[str]]
    """The instances to maintain at this moment."""
    update: Callable[[str], Updated]
    tasks: Mapping[str, Task]
    engine_failure: Callable[[], str] = lambda: ""
    """Why nothing can be updated any more, e.g. because Spark has ended; empty while all is well."""
    interrupt: Callable[[], None] = lambda: None
    """Ends what is in progress; unfinished work is repeated later."""
    begin_round: Callable[[Sequence[str]], None] = lambda _: None
    """Called with the instances of the round, before any of them is updated."""
    close: Callable[[], None] = lambda: None
    """Ends what continues between rounds."""


class StreamApp:
    def __init__(
        self, store: Store, parts: StreamParts, *, every_seconds: float, stopping: threading.Event, parallel: int = 1
    ) -> None:
        self._store = store
        self._parts = parts
        self._every_seconds = every_seconds
        self._stopping = stopping
        self._parallel = parallel
        self._lock = threading.Lock()
        """Guards changes to the status' structure."""
        self._status = StreamStatus(
            started_at=self._now(),
            realms={},
            tasks={name: TaskStatus(task=name, every_seconds=task.every_seconds) for name, task in parts.tasks.items()},
        )

    @property
    def status(self) -> StreamStatus:
        """The current status; the copy does not change while it is read."""
        with self._lock:
            realms = {instance: msgspec.structs.replace(one) for instance, one in self._status.realms.items()}
            tasks = {name: msgspec.structs.replace(one) for name, one in self._status.tasks.items()}
            return msgspec.structs.replace(self._status, realms=realms, tasks=tasks)

    def run(self) -> str:
        """Runs until it is stopped or cannot do anything any more; then returns the reason."""
        self._status.state = "running"
        failure = ""
        tasks = threading.Thread(target=self._run_tasks, name="stream-tasks", daemon=True)
        tasks.start()
        pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="stream-realm")
        running: dict[str, Future[None]] = {}
        while not self._stopping.is_set() and not failure:
            began = time.monotonic()
            running = self._begin_round(pool, running)
            wait(running.values(), timeout=max(self._every_seconds, TASK_LOOK_SECONDS))
            failure = self._parts.engine_failure()
            self._stopping.wait(0.0 if failure else max(0.0, self._every_seconds - (time.monotonic() - began)))
        self._status.state = "stopping"
        self._stopping.set()
        self._finish(pool, running, tasks)
        return failure

    def run_once(self) -> list[str]:
        """Runs every realm and every task, whenever it is due; returns failures."""
        self._status.state = "running"
        self.update_all()
        for name, task in self._parts.tasks.items():
            self._run_task(name, task)
        return self.status.failures

    def update_all(self) -> None:
        """Runs one complete round."""
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="stream-realm") as pool:
            wait(self._begin_round(pool, {}).values())

    def _begin_round(self, pool: ThreadPoolExecutor, running: Mapping[str, Future[None]]) -> dict[str, Future[None]]:
        """Realms of an earlier round that are still being updated are not started again, and the others do not wait for
        them."""
        still = {instance: future for instance, future in running.items() if not future.done()}
        try:
            instances = self._parts.realms()
        except HeadwaterError as error:  # the store is unavailable: the next round finds it
            _log.warning("the realms were not listed: %s", error)
            self._status.failure = str(error)
            return still
        with self._lock:
            self._status.failure = ""
            for gone in self._status.realms.keys() - set(instances):
                del self._status.realms[gone]
            for instance in instances:
                self._status.realms.setdefault(instance, RealmStatus(realm=realm_name_of(instance)))
            self._status.rounds += 1
        try:
            self._parts.begin_round(instances)
        except HeadwaterError as error:  # each affected realm fails by itself
            _log.warning("a round began without its topics: %s", error)
            self._status.failure = str(error)
        new = {instance: pool.submit(self._update, instance) for instance in instances if instance not in still}
        return still | new

    def _run_tasks(self) -> None:
        while not self._stopping.is_set():
            self.run_due_tasks()
            self._stopping.wait(TASK_LOOK_SECONDS)

    def _finish(self, pool: ThreadPoolExecutor, running: Mapping[str, Future[None]], tasks: threading.Thread) -> None:
        """Waits until the batches in progress end, or interrupts them."""
        deadline = time.monotonic() + FINISH_SECONDS
        pool.shutdown(wait=False, cancel_futures=True)
        self._parts.close()
        wait(running.values(), timeout=FINISH_SECONDS)
        tasks.join(max(0.0, deadline - time.monotonic()))
        if tasks.is_alive() or any(not future.done() for future in running.values()):
            self._parts.interrupt()
            tasks.join(FINISH_SECONDS)
            wait(running.values(), timeout=FINISH_SECONDS)
        if tasks.is_alive():
            self._end_own_run()

    def _end_own_run(self) -> None:
        """A task that does not end would hold its lease after this process is gone, and delay the next run."""
        try:
            ended = Runs(self._store.backend, self._store.clock).end_own()
        except HeadwaterError as error:
            _log.warning("the lease of a task that did not end in time was not released: %s", error)
        else:
            _log.warning("run %s did not end in time and was given up", ended or "of a task")

    def run_due_tasks(self) -> None:
        for name, task in self._parts.tasks.items():
            if not self._stopping.is_set() and self._is_due(name, task):
                self._run_task(name, task)

    def _update(self, instance: str) -> None:
        status = self._status.realms.get(instance)
        if status is None or self._stopping.is_set():  # it has gone, or there is no time left
            return
        began = time.monotonic()
        try:
            done = self._parts.update(instance)
        except HeadwaterError as error:
            self._realm_failed(status, instance, str(error))
        except Exception as error:
            _log.exception("the update of %s failed", instance)
            self._realm_failed(status, instance, f"{type(error).__name__}: {error}")
        else:
            status.source, status.step, status.rows, status.behind = done
            status.updates += 1
            status.failure, status.updated_at = "", self._now()
        status.seconds = round(time.monotonic() - began, 3)

    def _realm_failed(self, status: RealmStatus, instance: str, failure: str) -> None:
        if status.failure != failure:
            _log.warning("%s is not up to date: %s", instance, failure)
        status.failure = failure

    def _is_due(self, name: str, task: Task) -> bool:
        try:
            return self._turns(name, task).take() == 0
        except HeadwaterError as error:
            _log.warning("it is not known whether %s is due: %s", name, error)
            return False

    def _run_task(self, name: str, task: Task) -> None:
        status = self._status.tasks[name]
        status.is_running = True
        began = time.monotonic()
        try:
            status.failures = list(task.run())
        except MaintenanceStopped as stopped:
            _log.info("%s", stopped)
            return
        except HeadwaterError as error:
            status.failures = [f"{name}: {error}"]
        except Exception as error:  # ⚠ the thread continues: without it no task would ever run again
            _log.exception("%s failed", name)
            status.failures = [f"{name}: {type(error).__name__}: {error}"]
        finally:
            status.is_running = False
        for failure in status.failures:
            _log.warning("%s left something for the next time: %s", name, failure)
        if status.failures:
            self._come_back(name, task)
        status.runs += 1
        status.seconds, status.ended_at = round(time.monotonic() - began, 3), self._now()

    def _come_back(self, name: str, task: Task) -> None:
        """Also if another run was at work: the rest does not wait for the whole cadence."""
        try:
            self._turns(name, task).come_back(min(COME_BACK_SECONDS, task.every_seconds))
        except HeadwaterError as error:
            _log.debug("the turn could not be given back: %s", error)

    def _turns(self, name: str, task: Task) -> ScheduleTurns:
        return ScheduleTurns(self._store.backend, self._store.clock, task.every_seconds, key=name)

    def _now(self) -> str:
        return time_text(self._store.clock.now_micros())
