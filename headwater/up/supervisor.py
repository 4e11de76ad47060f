"""Starts processes when what they need is ready, watches them, and restarts those that end, after growing delays.

Each process has a thread: a slow start or a probe that hangs delays no other. A process that runs but is not ready any more is
shown as failing. If nothing else can mend it (`Managed.needs_new_start`), it is killed and started again, but only after a
while: killing what is merely slow helps nobody.
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
KILLED_AFTER_SECONDS = 60.0
"""How long every probe must fail before the process is killed. More than any pause of a busy machine."""

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


class _Failing(msgspec.Struct, frozen=True):
    """⚠ Counted from the first probe that failed, not from the last that succeeded: we may have been frozen ourselves."""

    since: float | None = None
    unmendable_since: float | None = None
    at: float = 0.0

    def continued(self, needs_new_start: bool, now: float) -> _Failing:
        since = now if self.since is None else self.since
        unmendable_since = now if self.unmendable_since is None else self.unmendable_since
        return _Failing(since, unmendable_since if needs_new_start else None, now)

    @property
    def seconds(self) -> float:
        return 0.0 if self.since is None else self.at - self.since

    @property
    def unmendable_seconds(self) -> float:
        return 0.0 if self.unmendable_since is None else self.at - self.unmendable_since


def _hope(failing: _Failing) -> str:
    if failing.unmendable_since is None:
        return "; it answers, and continues by itself"
    return f"; after {KILLED_AFTER_SECONDS:.0f} s it is killed and started again"


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
        failing = _Failing()
        while not self._stopping.wait(LOOK_SECONDS):
            if self.managed.pid is None:
                return f"it has ended: {log_tail(self.managed)}"
            if self.managed.is_ready():
                failing = _Failing()
                self._change("ready")
            elif self.status.state == "starting":
                self._change("starting")
            else:
                failing = failing.continued(self.managed.needs_new_start(), time.monotonic())
                if failing.unmendable_seconds > KILLED_AFTER_SECONDS:
                    self.managed.kill9()
                    return f"it was killed after {failing.unmendable_seconds:.0f} s; {self._ready_when}"
                if failing.seconds > FAILING_AFTER_SECONDS:
                    self._change("failing", reason=f"it is not ready any more; {self._ready_when}{_hope(failing)}")
        return ""

    @property
    def _ready_when(self) -> str:
        return f"it is ready when {self.managed.ready_when}"

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
