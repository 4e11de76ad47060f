"""Starts processes when what they need is ready, watches them, and restarts those that end, after growing delays.

Each process has a thread: a slow start or a probe that hangs delays no other. A process that runs but does not answer is shown
as failing and left alone: killing what is merely slow helps nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec

from headwater.dev.kind import Report
from headwater.schemas.errors import HeadwaterError
from headwater.up.managed import Managed, log_tail
from headwater.up.restarts import BackOff

LOOK_SECONDS = 0.25
FAILING_AFTER_SECONDS = 10.0
"""How long a process may leave its probe unanswered before it is shown as failing."""

State = Literal["waiting", "starting", "ready", "failing", "restarting", "stopping", "stopped"]


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: State
    address: str
    pid: int | None = None
    restarts: int = 0
    reason: str = ""
    """Why it was last restarted, or is not ready."""
    log: str = ""


Watch = Callable[[ProcessStatus], None]
"""Called at each change of state, on the thread of the process."""


class Supervisor:
    def __init__(self, processes: Sequence[Managed], lock: int, *, watch: Watch = lambda _: None) -> None:
        self._stopping = threading.Event()
        self._all = {one.name: _Supervised(one, lock, self._is_up, self._stopping, watch) for one in processes}
        self._threads = [threading.Thread(target=one.run, name=f"up-{name}", daemon=True) for name, one in self._all.items()]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def statuses(self) -> list[ProcessStatus]:
        return [one.status for one in self._all.values()]

    @property
    def is_ready(self) -> bool:
        return all(status.state == "ready" for status in self.statuses)

    def stop(self) -> None:
        """Processes end before those that they need."""
        self._stopping.set()
        for one in self._all.values():
            one.managed.give_up()
        for thread in self._threads:
            thread.join()
        left = dict(self._all)
        with ThreadPoolExecutor(len(self._all)) as pool:
            while left:
                needed = {name for one in left.values() for name in one.managed.needs}
                last = [one for name, one in left.items() if name not in needed]
                list(pool.map(_Supervised.stop, last))
                left = {name: one for name, one in left.items() if one not in last}

    def _is_up(self, name: str) -> bool:
        return self._all[name].status.state == "ready"


class _Supervised:
    def __init__(
        self, managed: Managed, lock: int, is_up: Callable[[str], bool], stopping: threading.Event, watch: Watch
    ) -> None:
        self.managed = managed
        self._lock = lock
        self._is_up = is_up
        self._stopping = stopping
        self._watch = watch
        self._back_off = BackOff()
        self.status = ProcessStatus(name=managed.name, state="waiting", address=managed.address, log=str(managed.log_file))

    def run(self) -> None:
        if self.managed.needs:
            self._change("waiting", reason=f"it needs {', '.join(self.managed.needs)}")
        else:
            self._watch(self.status)
        while not all(self._is_up(name) for name in self.managed.needs):
            if self._stopping.wait(LOOK_SECONDS):
                return
        self._change("starting", reason="")
        while not self._stopping.is_set():
            began = time.monotonic()
            reason = self._run_once()
            if self._stopping.is_set():
                return
            wait_seconds = self._back_off.next(time.monotonic() - began)
            self._change("restarting", restarts=self.status.restarts + 1, reason=reason)
            self._stopping.wait(wait_seconds)

    def stop(self) -> None:
        self._change("stopping")
        self.managed.stop()
        self._change("stopped")

    def _run_once(self) -> str:
        """Waits until it ends; returns why."""
        self._change("starting")
        try:
            self.managed.launch(self._lock, self._reported(self.status.reason))
        except (HeadwaterError, OSError) as error:
            return " ".join(str(error).split())
        answered_at = time.monotonic()
        while not self._stopping.wait(LOOK_SECONDS):
            if self.managed.pid is None:
                return f"it has ended: {log_tail(self.managed)}"
            if self.managed.is_ready():
                answered_at = time.monotonic()
                self._change("ready")
            elif self.status.state == "ready" and time.monotonic() - answered_at > FAILING_AFTER_SECONDS:
                self._change("failing", reason=self._why_failing())
            elif self.status.state == "starting":
                self._change("starting")
        return ""

    def _why_failing(self) -> str:
        asked = f"it is not ready any more; it is ready when {self.managed.ready_when}"
        return f"{asked}. If that lasts, end process {self.managed.pid}: it is started again."

    def _reported(self, before: str) -> Report:
        """What a launch reports while it takes long, e.g. that it fetches jars; afterwards again why it was started."""

        def report(doing: str) -> None:
            self._change("starting", reason=before if doing in ("starting", "running") else doing)

        return report

    def _change(self, state: State, *, restarts: int | None = None, reason: str | None = None) -> None:
        """Called when its state has changed."""
        after = msgspec.structs.replace(
            self.status,
            state=state,
            pid=self.managed.pid,
            restarts=self.status.restarts if restarts is None else restarts,
            reason=self.status.reason if reason is None else reason,
        )
        if after != self.status:
            self.status = after
            self._watch(after)
