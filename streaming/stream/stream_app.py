"""Updates the retained set of every realm round by round, and runs each task when it is due, whatever fails in between.

⚠ A realm that fails does not stop the others, and a task that fails is left for its next turn. Realms are listed again in each
round, so new ones are picked up. Of several processes one has the turn of each task (`schedule_turns`). Everything that
counts is kept beside the sets and in the store, so a process that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import HeadwaterError, MaintenanceStopped
from headwater.streaming.runs.schedule_turns import ScheduleTurns
from headwater.streaming.schedule import COME_BACK_SECONDS
from headwater.streaming.stream.stream_status import RealmStatus, StreamStatus, TaskStatus

_log = logging.getLogger(__name__)


class Updated(NamedTuple):
    """What an update of a realm's set has come to."""

    source: str
    step: int
    rows: int
    behind: int


class Task(NamedTuple):
    every_seconds: float
    run: Callable[[], Sequence[str]]
    """Failures leave."""


class StreamParts(NamedTuple):
    realms: Callable[[], Sequence[str]]
    """The instances to maintain, as they are now."""
    update: Callable[[str], Updated]
    tasks: Mapping[str, Task]


class StreamApp:
    def __init__(self, store: Store, parts: StreamParts, *, every_seconds: float, stopping: threading.Event) -> None:
        self._store = store
        self._parts = parts
        self._every_seconds = every_seconds
        self._stopping = stopping
        self.status = StreamStatus(
            started_at=self._now(),
            realms={},
            tasks={name: TaskStatus(task=name, every_seconds=task.every_seconds) for name, task in parts.tasks.items()},
        )

    def run(self) -> None:
        """Until it is told to stop."""
        self.status.state = "running"
        while not self._stopping.is_set():
            began = time.monotonic()
            self.update_all()
            self.run_due_tasks()
            self._stopping.wait(max(0.0, self._every_seconds - (time.monotonic() - began)))
        self.status.state = "stopping"

    def run_once(self) -> list[str]:
        """Every realm and every task, whenever it is due; failures leave."""
        self.status.state = "running"
        self.update_all()
        for name, task in self._parts.tasks.items():
            self._run_task(name, task)
        return self.status.failures

    def update_all(self) -> None:
        try:
            instances = self._parts.realms()
        except HeadwaterError as error:  # the store is away: the next round finds it
            _log.warning("the realms were not listed: %s", error)
            self.status.failure = str(error)
            return
        self.status.failure = ""
        for gone in self.status.realms.keys() - set(instances):
            del self.status.realms[gone]
        for instance in instances:
            if self._stopping.is_set():
                return
            self._update(instance)
        self.status.rounds += 1

    def run_due_tasks(self) -> None:
        for name, task in self._parts.tasks.items():
            if not self._stopping.is_set() and self._is_due(name, task):
                self._run_task(name, task)

    def _update(self, instance: str) -> None:
        status = self.status.realms.setdefault(instance, RealmStatus(realm=realm_name_of(instance)))
        began = time.monotonic()
        try:
            done = self._parts.update(instance)
        except HeadwaterError as error:
            if status.failure != str(error):
                _log.warning("%s is not up to date: %s", instance, error)
            status.failure = str(error)
        else:
            status.source, status.step, status.rows, status.behind = done
            status.failure, status.updated_at = "", self._now()
        status.seconds = round(time.monotonic() - began, 3)

    def _is_due(self, name: str, task: Task) -> bool:
        try:
            return self._turns(name, task).take() == 0
        except HeadwaterError as error:
            _log.warning("it is not known whether %s is due: %s", name, error)
            return False

    def _run_task(self, name: str, task: Task) -> None:
        status = self.status.tasks[name]
        began = time.monotonic()
        try:
            status.failures = list(task.run())
        except MaintenanceStopped as stopped:
            _log.info("%s", stopped)
            return
        except HeadwaterError as error:
            status.failures = [f"{name}: {error}"]
        for failure in status.failures:
            _log.warning("%s left something for the next time: %s", name, failure)
        if status.failures:
            self._come_back(name, task)
        status.runs += 1
        status.seconds, status.ended_at = round(time.monotonic() - began, 3), self._now()

    def _come_back(self, name: str, task: Task) -> None:
        """Also where another run was at work: what was left does not wait for the whole cadence."""
        try:
            self._turns(name, task).come_back(min(COME_BACK_SECONDS, task.every_seconds))
        except HeadwaterError as error:
            _log.debug("the turn could not be given back: %s", error)

    def _turns(self, name: str, task: Task) -> ScheduleTurns:
        return ScheduleTurns(self._store.backend, self._store.clock, task.every_seconds, key=name)

    def _now(self) -> str:
        return time_text(self._store.clock.now_micros())
