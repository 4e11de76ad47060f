"""Runs every thread of every simulated process as a task: one at a time, the next one chosen by the seed.

A task is a real thread that holds the baton. It gives the baton away at each yield point: a call on the store, the broker or a
file, a sleep, a wait for a lock or an event. Nothing else happens between two yield points, so one seed gives one trace.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable

from tests.simulation.runtime.trace import Trace

START_MICROS = 1_767_225_600_000_000
STEP_MICROS = (50, 200, 1_000, 5_000, 20_000)
"""How much time may pass at a step."""
STAY_SHARE = 0.35
"""How often the task that runs continues, though others could: bursts are as telling as perfect interleaving."""


class Killed(BaseException):
    """The process ends here. Not an Exception: nothing may handle it."""


class Stuck(Exception):
    """No task can continue, and no timer would wake one."""


class Process:
    """One simulated operating-system process: its tasks live, pause and die together, by one wall clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused_until = 0
        self.skew_micros = 0
        self.speed = 1.0


class Task:
    def __init__(self, number: int, process: Process, name: str, run: Callable[[], object]) -> None:
        self.number = number
        self.process = process
        self.name = name
        self.wake_at = 0
        """Microseconds; it is not run before."""
        self.waits_for: object | None = None
        """A lock or event; None while it could run."""
        self.done = False
        self._run = run
        self.baton = threading.Semaphore(0)
        self.thread: threading.Thread | None = None


class Scheduler:
    def __init__(self, seed: int, trace: Trace) -> None:
        self.now = START_MICROS
        self.steps = 0
        self.over = False
        self.trace = trace
        self.failure: BaseException | None = None
        self.before_step: Callable[[], None] = lambda: None
        self.each_hundred_steps: Callable[[], None] = lambda: None
        """What the plan does at this step: it may kill, pause or restore."""
        self._chance = random.Random(f"scheduler {seed}")
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._ended = threading.Semaphore(0)
        self._number = 0

    # ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def process(self) -> Process:
        assert self._current is not None, "outside of the simulation"
        return self._current.process

    @property
    def is_inside(self) -> bool:
        return self._current is not None and threading.current_thread() is self._current.thread

    def spawn(self, process: Process, name: str, run: Callable[[], object]) -> Task:
        self._number += 1
        task = Task(self._number, process, name, run)
        task.thread = threading.Thread(target=self._body, args=(task,), name=f"{process.name}/{name}", daemon=True)
        self._tasks.append(task)
        task.thread.start()
        return task

    def _body(self, task: Task) -> None:
        task.baton.acquire()
        try:
            if not (self.over or task.process.dead):
                task._run()
        except Killed:
            pass
        except BaseException as error:
            error.add_note(f"in {task.process.name}/{task.name}, step {self.steps}")
            self.fail(error)
        finally:
            task.done = True
            self._tasks.remove(task)
            self._leave()

    def fail(self, error: BaseException) -> None:
        """The simulation ends with this."""
        if self.failure is None:
            self.failure = error
        self.over = True

    def run(self) -> None:
        """Until somebody calls `stop`, or everything has ended. On the thread that made the scheduler."""
        self._leave()
        self._ended.acquire()
        self._current = None

    def stop(self) -> None:
        self.over = True

    # ── yield points ────────────────────────────────────────────────────────────────────────────────────────

    def step(self, what: str = "") -> None:
        """Anything may happen here."""
        task = self._mine()
        if self.over or task.process.dead:
            raise Killed
        self.steps += 1
        if self.steps % 100 == 0:
            self.each_hundred_steps()
        self.now += self._chance.choice(STEP_MICROS)
        if what:
            self.trace.note(self.steps, self.now, task.process.name, task.name, what)
        try:
            self.before_step()
        except BaseException as error:
            self.fail(error)
        self._switch(task)

    def sleep(self, seconds: float) -> None:
        task = self._mine()
        task.wake_at = self.now + max(1, int(seconds * 1_000_000))
        self._switch(task)

    def wait(self, what: object, seconds: float | None) -> bool:
        """Until `wake(what)`; False if the time was over before."""
        task = self._mine()
        task.waits_for = what
        task.wake_at = 2**62 if seconds is None or seconds > 1e9 else self.now + max(1, int(seconds * 1_000_000))
        self._switch(task)
        woken = task.waits_for is None
        task.waits_for = None
        return woken

    def wake(self, what: object) -> None:
        for task in self._tasks:
            if task.waits_for is what:
                task.waits_for = None
                task.wake_at = 0

    def kill(self, process: Process) -> None:
        process.dead = True
        process.paused_until = 0
        for task in self._tasks:
            if task.process is process:
                task.wake_at = 0

    def skip(self, seconds: float) -> None:
        """Nobody runs for so long; all that waited wakes up late."""
        self.now += int(seconds * 1_000_000)

    # ── the baton ───────────────────────────────────────────────────────────────────────────────────────────

    def _mine(self) -> Task:
        task = self._current
        assert task is not None and threading.current_thread() is task.thread, "a thread that the simulation does not know"
        return task

    def _switch(self, task: Task) -> None:
        """Give the baton to the next task, and come back when it is ours again."""
        if task.process.dead:
            raise Killed
        chosen = self._choose(task)
        if chosen is not task:
            self._current = chosen
            chosen.baton.release()
            task.baton.acquire()
        if self.over or task.process.dead:
            task.waits_for = None
            raise Killed

    def _leave(self) -> None:
        """A task has ended, or the simulation begins."""
        try:
            chosen = self._choose(None)
        except Stuck as error:
            self.fail(error)
            chosen = self._tasks[0] if self._tasks else None
        if chosen is None:
            self._current = None
            self._ended.release()
        else:
            self._current = chosen
            chosen.baton.release()

    def _choose(self, current: Task | None) -> Task | None:
        if not self._tasks:
            return None
        if self.over:
            return self._tasks[0] if current is None else current
        ready = self._ready()
        while not ready:
            wakes = [max(task.wake_at, task.process.paused_until) for task in self._tasks]
            if min(wakes) >= 2**62:
                raise Stuck(f"tasks wait forever: {[f'{task.process.name}/{task.name}' for task in self._tasks]}")
            self.now = max(self.now, min(wakes))
            ready = self._ready()
        if current is not None and len(ready) > 1 and current in ready and self._chance.random() < STAY_SHARE:
            return current
        if len(ready) == 1:
            return ready[0]
        return self._chance.choices(ready, [task.process.speed for task in ready])[0]

    def _ready(self) -> list[Task]:
        now = self.now
        return [task for task in self._tasks if task.wake_at <= now and task.process.paused_until <= now]


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
