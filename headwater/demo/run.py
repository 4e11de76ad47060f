"""Runs the demo in a folder, and shows each Change as it happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headwater.consumers.audit.store_history import StoreHistory
from headwater.demo.follower import Follower, branch_pointers
from headwater.demo.journal import JournalLine
from headwater.demo.workload import SHARED, table
from headwater.demo.writer import CATALOG, REALM
from headwater.demo.writer_processes import Killed, WriterProcesses
from headwater.embedded import CatalogHandle, open_embedded
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import Namespace
from headwater.schemas.change import Change

STORE_FILE = "demo.db"
LOOK_SECONDS = 0.02
CATCH_UP_SECONDS = 30.0

Show = Callable[[Change], None]
Say = Callable[[str], None]


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    writers: int = 4
    steps: int = 24
    pause_seconds: float = 0.2


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence: what writers wrote down, what the follower saw, and what the log held right after the kill."""

    store: str
    seconds: float
    writers: int
    set_up: set[str]
    """Request ids from before the writers began."""
    diaries: dict[str, list[JournalLine]]
    failures: list[str]
    seen: dict[str, list[str]]
    delays_micros: list[int]
    killed: Killed
    found: list[Change]
    """What the log held of the commit that was in flight."""


def run_demo(folder: Path, plan: DemoPlan, show: Show, say: Say) -> DemoResult:
    started = time.monotonic()
    store = f"sqlite:///{folder / STORE_FILE}"
    with open_embedded(store, create=True) as engine:
        lake = engine.ensure_realm(REALM).ensure_catalog(CATALOG)
        lake.branch().commit([Put(SHARED[:1], Namespace()), Put(SHARED, table(SHARED, 1))], message="Set up")
        set_up = {change.request_id for change in lake.branch().changes()}
        crew = WriterProcesses(folder, store, writers=plan.writers, steps=plan.steps, pause_seconds=plan.pause_seconds)
        follower = Follower(lake, engine.store.clock.now_micros)
        try:
            say(f"{plan.writers} writer processes start: {', '.join(crew.names)}")
            crew.start()
            killing = Killing(crew, lake, say)
            _follow_while(lambda: killing.goes_on or crew.working, follower, show)
            killed, found = killing.result()
            _catch_up(lake, follower, show)
            failures = crew.failures()
        finally:
            crew.stop()
    return DemoResult(
        store=store,
        seconds=time.monotonic() - started,
        writers=plan.writers,
        set_up=set_up,
        diaries=crew.diaries(),
        failures=failures,
        seen=follower.seen,
        delays_micros=follower.delays_micros,
        killed=killed,
        found=found,
    )


class Killing:
    """Runs while the follower continues: kill, see what the log holds, start the successor."""

    def __init__(self, crew: WriterProcesses, lake: CatalogHandle, say: Say) -> None:
        self._crew, self._lake, self._say = crew, lake, say
        self._result: tuple[Killed, list[Change]] | BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> tuple[Killed, list[Change]]:
        if isinstance(self._result, tuple):
            return self._result
        raise self._result or RuntimeError("nobody was killed")

    def _run(self) -> None:
        try:
            killed = self._crew.kill_one()
            self._say(f"kill -9 {killed.writer} (process {killed.pid}), in the middle of a commit")
            wanted = killed.in_flight.request_id if killed.in_flight else ""
            found = [change for change in _newest_log(self._lake) if change.request_id == wanted]
            self._crew.succeed()
            self._say(f"a new process continues as {killed.writer}")
            self._result = killed, found
        except BaseException as error:  # raised again by `result`
            self._result = error


def _newest_log(lake: CatalogHandle) -> list[Change]:
    """As the store has it now: only the store knows what a killed process committed last."""
    history, pointer = StoreHistory(lake.realm.kernel), lake.branch().pointer
    return list(history.changes(pointer, 0, history.range(pointer)[1]))


def _follow_while(goes_on: Callable[[], bool], follower: Follower, show: Show) -> None:
    """Until the writers have ended, and once more for the last commits."""
    while True:
        last_round = not goes_on()
        for change in follower.new_changes():
            show(change)
        if last_round:
            return
        time.sleep(LOOK_SECONDS)


def _catch_up(lake: CatalogHandle, follower: Follower, show: Show) -> None:
    """The last writer's commit is noticed a moment later: wait until every head has been seen."""
    kernel, deadline = lake.realm.kernel, time.monotonic() + CATCH_UP_SECONDS
    follower.discover()
    heads = kernel.store.backend.read_pointers(kernel.realm, branch_pointers(lake))
    while any(len(follower.seen[name]) < row.seq for name, row in heads.items()) and time.monotonic() < deadline:
        for change in follower.new_changes():
            show(change)
        time.sleep(LOOK_SECONDS)
