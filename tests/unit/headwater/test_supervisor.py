"""Supervised processes: order of start and stop, restarts, back-off, and what is reported."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headwater.dev.kind import Report, silent
from headwater.schemas.errors import ServerFailed
from headwater.up.restarts import MAX_SECONDS, STEADY_SECONDS, BackOff
from headwater.up.screen import process_table
from headwater.up.supervisor import ProcessStatus, State, Supervisor, _Failing

WAIT_SECONDS = 60.0


class Fake:
    """A process that runs until the test ends it."""

    def __init__(self, name: str, done: list[str], needs: Sequence[str] = ()) -> None:
        self.name, self.needs, self.address, self.log_file = name, needs, f"there/{name}", Path("/no/log")
        self.pid: int | None = None
        self.launches = 0
        self.refusals = 0
        self.answers = True
        self.ready_when = "it answers"
        self.unmendable = False
        self._done = done

    def launch(self, lock: int, report: Report = silent) -> None:
        self.launches += 1
        report("fetching jars")
        report("starting")
        if self.launches <= self.refusals:
            raise ServerFailed("not now.")
        self.pid = 1_000 + self.launches
        self._done.append(f"+{self.name}")

    def is_ready(self) -> bool:
        return self.answers

    def needs_new_start(self) -> bool:
        return self.unmendable

    def kill9(self) -> None:
        self.pid = None
        self._done.append(f"!{self.name}")

    def give_up(self) -> None:
        self._done.append(f"?{self.name}")

    def stop(self) -> None:
        self.pid = None
        self._done.append(f"-{self.name}")


def with_one() -> tuple[Fake, list[str]]:
    done: list[str] = []
    return Fake("one", done), done


@contextmanager
def supervised(one: Fake) -> Iterator[Supervisor]:
    """After it has been ready."""
    wanted, one.answers = one.answers, True
    supervisor = Supervisor([one], 0)
    supervisor.start()
    try:
        wait_until(lambda: supervisor.is_ready)
        one.answers = wanted
        yield supervisor
    finally:
        supervisor.stop()


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_processes_start_after_those_that_they_need_and_stop_before_them() -> None:
    done: list[str] = []
    store, server, stream = Fake("store", done), Fake("server", done, ["store"]), Fake("stream", done, ["server"])
    store.answers = False
    supervisor = Supervisor([stream, server, store], 0)
    supervisor.start()
    wait_until(lambda: store.launches == 1)
    threading.Event().wait(0.6)
    assert done == ["+store"] and not supervisor.is_ready
    assert [status.reason for status in supervisor.statuses] == ["it needs server", "it needs store", ""]
    store.answers = True
    wait_until(lambda: supervisor.is_ready)
    supervisor.stop()
    assert done[:3] == ["+store", "+server", "+stream"] and done[-3:] == ["-stream", "-server", "-store"]
    assert {status.state for status in supervisor.statuses} == {"stopped"}


def test_a_process_that_ends_or_cannot_start_is_restarted_and_the_reason_is_shown() -> None:
    told: list[ProcessStatus] = []
    one = Fake("one", [])
    one.refusals = 1
    supervisor = Supervisor([one], 0, watch=told.append)
    supervisor.start()
    wait_until(lambda: supervisor.is_ready)
    one.pid = None
    wait_until(lambda: one.launches == 3 and supervisor.is_ready)
    supervisor.stop()
    restarts = [status for status in told if status.state == "restarting"]
    assert [status.restarts for status in restarts] == [1, 2]
    assert "not now." in restarts[0].reason and "it has ended" in restarts[1].reason
    starts = [status.reason for status in told if status.state == "starting" and status.pid is None]
    assert starts.count("fetching jars") == 3 and starts[-1].startswith("it has ended"), "then again why it was started"


def test_a_process_that_answers_but_is_not_ready_any_more_is_shown_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.up.supervisor.FAILING_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("headwater.up.supervisor.KILLED_AFTER_SECONDS", 0.0)
    one, done = with_one()
    one.answers = False
    with supervised(one) as supervisor:
        wait_until(lambda: supervisor.statuses[0].state == "failing")
        reason = supervisor.statuses[0].reason
        assert "it is ready when it answers; it answers, and continues by itself" in reason
        one.answers = True
        wait_until(lambda: supervisor.is_ready)
        assert done == ["+one"] and supervisor.statuses[0].restarts == 0


def test_a_process_that_only_a_new_start_can_mend_is_killed_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.up.supervisor.FAILING_AFTER_SECONDS", 0.0)
    one, done = with_one()
    one.answers, one.unmendable = False, True
    with supervised(one) as supervisor:
        wait_until(lambda: supervisor.statuses[0].state == "failing")
        assert "after 60 s it is killed and started again" in supervisor.statuses[0].reason
        monkeypatch.setattr("headwater.up.supervisor.KILLED_AFTER_SECONDS", 0.0)
        wait_until(lambda: one.launches == 2)
        one.answers = True
        wait_until(lambda: supervisor.is_ready)
        assert done == ["+one", "!one", "+one"] and "it was killed after" in supervisor.statuses[0].reason


def test_time_counts_from_the_first_probe_that_failed_and_again_after_an_answer() -> None:
    once = _Failing().continued(True, now=1_000.0)
    assert (once.seconds, once.unmendable_seconds) == (0.0, 0.0), "the machine may have slept until then"
    mute = once.continued(True, now=1_050.0)
    assert (mute.seconds, mute.unmendable_seconds) == (50.0, 50.0)
    answered = mute.continued(False, now=1_055.0)
    assert (answered.seconds, answered.unmendable_seconds) == (55.0, 0.0)
    assert answered.continued(True, now=1_070.0).unmendable_seconds == 0.0, "one probe that fails, after an answer"


def test_a_narrow_screen_shows_addresses_and_reasons_whole() -> None:
    def status(name: str, state: State, **more: Any) -> ProcessStatus:
        return ProcessStatus(name=name, state=state, address=f"http://127.0.0.1:1234{len(name)}", **more)

    reason = "it has ended: Traceback of a process / whose last words / take more than a line of eighty characters"
    statuses = [status("server", "ready", pid=12_345, reason="before"), status("publisher", "restarting", reason=reason)]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(process_table(statuses, "headwater up", "a note"))
    shown = " ".join(console.export_text().split())
    assert all(one.address in shown for one in statuses) and "12345" in shown
    assert f"publisher: {reason}" in shown and "before" not in shown and shown.endswith("a note")


def test_waits_double_up_to_a_bound_and_begin_again_after_a_long_run() -> None:
    back_off = BackOff()
    waits = [back_off.next(1.0) for _ in range(10)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0] and waits[-1] == MAX_SECONDS
    assert back_off.next(STEADY_SECONDS) == 0.5
