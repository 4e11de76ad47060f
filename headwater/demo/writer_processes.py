"""Starts the writer processes together, and kills one with -9 in the middle of a commit.

The killed one gets a successor, which begins with the step that its predecessor did not finish.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from headwater.demo.journal import JournalLine, acknowledged, in_flight, read_journal
from headwater.demo.writer import WriterConfig
from headwater.schemas.errors import ServerFailed

NAMES = ("sales", "nightly", "web", "finance", "lab", "fleet", "games", "ads")
VICTIM = "nightly"
"""Commits many tables at once, so that half a commit would be noticed."""
VICTIM_TABLES = 20
VICTIM_STEPS = 1_000
"""It works until it is killed."""
SUCCESSOR_STEPS = 4
LOOK_SECONDS = 0.0005
HOLD_SECONDS_MAX = 0.006
KILL_WAIT_SECONDS = 60.0


class Killed(msgspec.Struct, frozen=True):
    """The state of the victim's journal at its death."""

    writer: str
    pid: int
    exit_code: int
    acknowledged: int
    in_flight: JournalLine | None


class WriterProcesses:
    def __init__(self, folder: Path, store: str, *, writers: int, steps: int, pause_seconds: float) -> None:
        self.names = NAMES[:writers]
        self._folder = folder
        self._store = store
        self._steps = steps
        self._pause_seconds = pause_seconds
        self._processes: list[subprocess.Popen[str]] = []
        self._victim: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """All of them at once: each reports when it is ready, and waits for the signal."""
        steps = {VICTIM: VICTIM_STEPS}
        started = [(name, self._launch(name, 0, steps.get(name, self._steps))) for name in self.names]
        for name, process in started:
            self._await_ready(name, process)
        for name, process in started:
            self._give_start(process)
            if name == VICTIM:
                self._victim = process

    def kill_one(self) -> Killed:
        """When half of its work is done and a large commit has been sent whose outcome it does not know yet."""
        process = self._victim
        if process is None:
            raise ValueError("the crew has not started")
        path, deadline = self.diary(VICTIM), time.monotonic() + KILL_WAIT_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._in_mid_commit(read_journal(path)) and self._is_held_in_mid_commit(process):
                break
            time.sleep(LOOK_SECONDS)
        process.kill()
        code = process.wait()
        lines = read_journal(path)
        return Killed(VICTIM, process.pid, code, len(acknowledged(lines)), in_flight(lines))

    def _is_held_in_mid_commit(self, process: subprocess.Popen[str]) -> bool:
        """Suspend the process and check again: a suspended process has received nothing that it has not written down. Otherwise
        resume it."""
        time.sleep(random.uniform(0, HOLD_SECONDS_MAX))  # noqa: S311 - sometimes before it lands, sometimes behind
        process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            return False
        if self._in_mid_commit(read_journal(self.diary(VICTIM))):
            return True
        process.send_signal(signal.SIGCONT)
        return False

    def succeed(self) -> None:
        """The victim's successor: starts with the step that was not finished."""
        lines = read_journal(self.diary(VICTIM))
        unfinished = lines[-1].step if lines else 0
        successor = self._launch(VICTIM, unfinished, max(self._steps, unfinished + SUCCESSOR_STEPS))
        self._await_ready(VICTIM, successor)
        self._give_start(successor)

    @property
    def working(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def failures(self) -> list[str]:
        """Errors reported by the writers that were not killed."""
        others = [process for process in self._processes if process is not self._victim]
        errors = ((process.returncode, process.stderr.read() if process.stderr else "") for process in others)
        return [f"exit code {code}: {' '.join(text.split())[-300:]}" for code, text in errors if code != 0]

    def diary(self, name: str) -> Path:
        return self._folder / f"{name}.diary.jsonl"

    def diaries(self) -> dict[str, list[JournalLine]]:
        return {name: read_journal(self.diary(name)) for name in self.names}

    def stop(self) -> None:
        """End the remaining processes."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _in_mid_commit(self, lines: list[JournalLine]) -> bool:
        last = in_flight(lines)
        return last is not None and last.step >= self._steps // 2 and last.operations >= VICTIM_TABLES

    def _launch(self, name: str, first_step: int, steps: int) -> subprocess.Popen[str]:
        orders = WriterConfig(
            name=name,
            store=self._store,
            diary=str(self.diary(name)),
            first_step=first_step,
            steps=steps,
            tables_at_once=VICTIM_TABLES if name == VICTIM else 1,
            pause_seconds=self._pause_seconds,
        )
        process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-m", "headwater.demo.writer", msgspec.json.encode(orders).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def _await_ready(self, name: str, process: subprocess.Popen[str]) -> None:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            process.kill()
            _, errors = process.communicate()
            raise ServerFailed(f"the writer {name} did not start: {' '.join(errors.split())[-300:]}")

    def _give_start(self, process: subprocess.Popen[str]) -> None:
        if process.stdin is None:
            raise ValueError("a writer listens to its standard input")
        try:
            process.stdin.write("go\n")
            process.stdin.close()
        except OSError as gone:
            raise ServerFailed(f"a writer died before it began: {gone}") from gone
