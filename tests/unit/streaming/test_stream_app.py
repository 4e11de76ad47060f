"""The rounds of a stream: realms that fail, come and go, and tasks that are due."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.schemas.errors import MaintenanceSuperseded, RetainedIncomplete, StoreUnavailable
from headwater.streaming.runs.realm_sets import instances_to_maintain
from headwater.streaming.runs.runs import Runs, RunStatus
from headwater.streaming.runs.schedule_turns import ScheduleTurns
from headwater.streaming.schedule import COME_BACK_SECONDS
from headwater.streaming.stream import stream_app
from headwater.streaming.stream.stream_app import StreamApp, StreamParts, Task, Updated
from headwater.streaming.stream.stream_status import TaskStatus, metrics_text


@pytest.fixture
def engine() -> Iterator[Headwater]:
    with headwater.open("memory://", create=True) as engine:
        for realm in ("a", "b"):
            engine.ensure_realm(realm)
        yield engine


class Parts:
    """Updates that count, of which some fail, and one task."""

    def __init__(self, engine: Headwater) -> None:
        self.engine = engine
        self.failing: set[str] = set()
        self.updated: list[str] = []
        self.ran = 0

    def update(self, instance: str) -> Updated:
        name = instance.partition("#")[0]
        if name in self.failing:
            raise RetainedIncomplete(f"{name} is broken.")
        self.updated.append(name)
        return Updated("log", 1, 2, 0)

    def task(self) -> list[str]:
        self.ran += 1
        return []

    def app(self, stopping: threading.Event | None = None) -> StreamApp:
        store = self.engine.store
        parts = StreamParts(lambda: instances_to_maintain(store), self.update, {"task": Task(3_600.0, self.task)})
        return StreamApp(store, parts, every_seconds=0.0, stopping=stopping or threading.Event())


def test_a_realm_that_fails_does_not_stop_the_others_and_is_shown(engine: Headwater) -> None:
    parts = Parts(engine)
    parts.failing = {"a"}
    app = parts.app()
    assert app.run_once() == ["a: a is broken."]
    assert parts.updated == ["::system::", "b"] and parts.ran == 1
    assert 'headwater_stream_realm_failing{realm="a"} 1' in metrics_text(app.status)
    parts.failing = set()
    app.update_all()
    assert app.status.failures == []


def test_realms_that_come_and_go_are_noticed_in_the_next_round(engine: Headwater) -> None:
    parts = Parts(engine)
    app = parts.app()
    app.update_all()
    engine.ensure_realm("c")
    engine.realms.deactivate("b")
    engine.realms.purge("b")
    app.update_all()
    assert {one.realm for one in app.status.realms.values()} == {"::system::", "a", "c"}


def test_of_two_processes_one_runs_a_task_that_is_due(engine: Headwater) -> None:
    parts, others = Parts(engine), Parts(engine)
    for one in (parts, others, parts):
        one.app().run_due_tasks()
    assert (parts.ran, others.ran) == (1, 0)


def test_nothing_starts_after_a_stop(engine: Headwater) -> None:
    parts, stopping = Parts(engine), threading.Event()
    app = parts.app(stopping)
    stopping.set()
    app.run()
    app.run_due_tasks()
    assert (parts.updated, parts.ran, app.status.state) == ([], 0, "stopping")


def test_an_unavailable_store_fails_one_round_and_no_more(engine: Headwater) -> None:
    parts = Parts(engine)
    app = parts.app()

    def away() -> list[str]:
        raise StoreUnavailable("away")

    app._parts = app._parts._replace(realms=away)
    app.update_all()
    assert app.status.rounds == 0 and parts.updated == [] and app.status.failures == ["away"]


def test_a_failed_task_is_retried_before_its_cadence_is_over(engine: Headwater) -> None:
    parts = Parts(engine)
    app = parts.app()
    app._parts = app._parts._replace(tasks={"task": Task(3_600.0, lambda: ["busy"])})
    app.run_due_tasks()
    store = engine.store
    assert app.status.failures == ["busy"]
    assert 0 < ScheduleTurns(store.backend, store.clock, 3_600.0, key="task").take() <= COME_BACK_SECONDS


def test_an_unexpected_error_ends_neither_tasks_nor_realms(engine: Headwater) -> None:
    parts = Parts(engine)

    def broken(instance: str) -> Updated:
        if instance.startswith("a#"):
            raise NotADirectoryError("a file is in its way")
        return parts.update(instance)

    def broken_task() -> list[str]:
        raise NotADirectoryError("here too")

    app = parts.app()
    tasks = {"broken": Task(3_600.0, broken_task), "task": Task(3_600.0, parts.task)}
    app._parts = app._parts._replace(update=broken, tasks=tasks)
    app._status.tasks = {name: TaskStatus(task=name, every_seconds=1.0) for name in tasks}
    assert app.run_once() == ["a: NotADirectoryError: a file is in its way", "broken: NotADirectoryError: here too"]
    assert parts.updated == ["::system::", "b"] and parts.ran == 1


def test_a_long_task_delays_no_set_and_a_slow_realm_no_other(engine: Headwater) -> None:
    parts, stopping, released = Parts(engine), threading.Event(), threading.Event()
    began, slow = threading.Event(), threading.Event()

    def long_task() -> list[str]:
        began.set()
        released.wait(60)
        return []

    def update(instance: str) -> Updated:
        if instance.startswith("a#"):
            slow.set()
            released.wait(60)
        return parts.update(instance)

    app = parts.app(stopping)
    app._parallel = 2
    app._parts = app._parts._replace(update=update, tasks={"task": Task(3_600.0, long_task)})
    running = threading.Thread(target=app.run, daemon=True)
    running.start()
    assert began.wait(60) and slow.wait(60)
    for _ in range(600):
        if parts.updated.count("b") > 2:
            break
        stopping.wait(0.1)
    assert parts.updated.count("b") > 2 and "a" not in parts.updated and not released.is_set()
    assert app.status.tasks["task"].is_running
    released.set()
    stopping.set()
    running.join(60)
    assert not running.is_alive() and parts.updated.count("a") == 1


def test_a_stream_whose_spark_has_ended_reports_it_and_ends(engine: Headwater) -> None:
    app = Parts(engine).app()
    app._parts = app._parts._replace(engine_failure=lambda: "gone.")
    assert app.run() == "gone."


def test_it_is_ready_when_every_realm_was_looked_at(engine: Headwater) -> None:
    parts = Parts(engine)
    parts.failing = {"a"}
    app = parts.app()
    assert not app.status.is_ready
    app.run_once()
    assert app.status.is_ready


def test_a_run_that_does_not_end_in_time_gives_up_its_lease(engine: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_app, "FINISH_SECONDS", 0.05)
    stopping, began, released, ended = (threading.Event() for _ in range(4))
    runs = Runs(engine.store.backend, engine.store.clock, is_stopping=stopping.is_set)
    outcomes: list[Exception] = []

    def stuck() -> list[str]:
        try:
            with runs.run("sweep") as run:
                began.set()
                released.wait(60)
                run.check()
        except MaintenanceSuperseded as error:  # before it changes anything more
            outcomes.append(error)
        ended.set()
        return []

    app = Parts(engine).app(stopping)
    app._parts = app._parts._replace(tasks={"task": Task(3_600.0, stuck)})
    threading.Thread(target=lambda: began.wait(60) and stopping.set(), daemon=True).start()
    app.run()
    with new_runs(engine).run("verify"):  # at once
        pass
    assert [record.status for record in runs.list()] == [RunStatus.DONE, RunStatus.STOPPED]
    released.set()
    assert ended.wait(60) and len(outcomes) == 1


def test_the_run_of_another_process_is_not_ended(engine: Headwater) -> None:
    runs = new_runs(engine)
    with runs.run("sweep") as run:
        run.record.pid += 1
        runs.save(run.record)
        assert runs.end_own() == ""
        run.check()


def new_runs(engine: Headwater) -> Runs:
    return Runs(engine.store.backend, engine.store.clock)
