"""kill -9 and SIGSTOP of either of two workers under eight writers, at each named point of handing over: every commit that was
acknowledged is in the log under the number that was told, nothing is there twice, and nobody is left without an outcome."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headwater.persistence.handover.fault_points import FaultPoint
from headwater.persistence.handover.handover import chosen_holder
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import open_store
from headwater.producer.pointer_names import branch_pointer
from tests.support.fixtures.catalog_lake import Lake
from tests.support.processes.handover_process import BEFORE_CAS, WRITERS

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
COMMITS = 200 if SOAK else 20
"""Of each writer."""
WAIT_SECONDS = 120.0

KILLED = [
    ("holds", FaultPoint.TAKEN, "kill"),
    ("holds", BEFORE_CAS, "kill"),
    ("holds", FaultPoint.LANDED, "kill"),
    ("sends", FaultPoint.OFFERED, "kill"),
    ("sends", FaultPoint.ANSWERED, "kill"),
]
STOPPED = [(role, point, "stop") for role, point, _ in KILLED]
FAULTS = [*KILLED, *(STOPPED if SOAK else STOPPED[1:2])]


class Process:
    """A worker process, and all that it has said."""

    def __init__(self, *arguments: str) -> None:
        self.name = arguments[2]
        command = [sys.executable, "-m", "tests.support.processes.handover_process", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._heard = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._heard:
                self.said.append(line.strip())
                self._heard.notify_all()

    def wait_for(self, *beginnings: str) -> str:
        def found() -> str:
            return next((line for line in self.said if line.startswith(beginnings)), "")

        with self._heard:
            assert self._heard.wait_for(lambda: bool(found()), WAIT_SECONDS), f"none of {beginnings}: {self.said[-5:]}"
            return found()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    @property
    def acknowledged(self) -> dict[str, int]:
        lines = (line.split() for line in self.said if "-" in line and line[-1].isdigit() and line.count(" ") == 1)
        return {key: int(seq) for key, seq in lines if key not in ("unknown", "fault")}


@contextmanager
def workers(url: str, folder: Path, faulty: str, *fault: str) -> Iterator[tuple[Process, Process]]:
    """The one with the fault, and the other one. `faulty` is `holds` or `sends`."""
    with open_store(url, create=True) as store:
        lake = Lake(store)
        holder = chosen_holder(("a", "b"), lake.kernel.realm, branch_pointer(lake.catalog.id, "main"))
    names = ("a", "b") if (holder == "a") == (faulty == "holds") else ("b", "a")
    with ExitStack() as stack:
        one = Process(url, str(folder), names[0], str(COMMITS), *fault)
        stack.callback(one.end)
        other = Process(url, str(folder), names[1], str(COMMITS))
        stack.callback(other.end)
        assert one.wait_for("holds", "sends") == faulty != other.wait_for("holds", "sends")
        yield one, other


def keys_in_log(url: str) -> list[str]:
    with open_store(url) as store:
        lake = Lake(store)
        newest = PointerLog(lake.kernel, branch_pointer(lake.catalog.id, "main")).head().newest
        entries = lake.kernel.walk.between(newest, 1, newest.entry.seq)
        assert [logged.entry.seq for logged in entries] == list(range(1, len(entries) + 1))
        return ["" if not logged.entry.operations else logged.entry.operations[0].key[0] for logged in entries]


def check(url: str, faulty: Process, survivor: Process) -> None:
    keys = keys_in_log(url)
    landed = [key for key in keys if key]
    assert len(landed) == len(set(landed)), "a commit landed twice"
    for process in (faulty, survivor):
        for key, seq in process.acknowledged.items():
            assert keys[seq - 1] == key
    wanted = {f"{survivor.name}{writer}-{number}" for writer in range(WRITERS) for number in range(COMMITS)}
    unknown = {line.split()[1] for line in survivor.said if line.startswith("unknown ")}
    assert set(survivor.acknowledged) | unknown == wanted, "a request was left without an outcome"
    assert not unknown, "the log could tell of each of them"
    for process in (faulty, survivor):
        for writer in {key.rpartition("-")[0] for key in process.acknowledged}:
            numbers = [int(key.rpartition("-")[2]) for key in landed if key.rpartition("-")[0] == writer]
            assert numbers == list(range(len(numbers))), "a writer's commits are out of order"


@pytest.mark.parametrize(("role", "point", "action"), FAULTS)
def test_a_worker_lost_at_any_point_loses_and_duplicates_nothing(tmp_path: Path, role: str, point: str, action: str) -> None:
    run(f"sqlite:///{tmp_path}/lake.db", tmp_path, role, action, point)


@pytest.mark.parametrize("point", [BEFORE_CAS, FaultPoint.LANDED] if SOAK else [FaultPoint.LANDED])
def test_the_same_on_postgresql(fresh_postgres: Callable[[], str], tmp_path: Path, point: str) -> None:
    run(fresh_postgres(), tmp_path, "holds", "kill", point)


def run(url: str, folder: Path, role: str, action: str, point: str) -> None:
    with workers(url, folder, role, action, point, "15") as (faulty, survivor):
        for process in (faulty, survivor):
            process.go_on()
        faulty.wait_for("fault")
        survivor.wait_for("done")
        if action == "stop":  # it continues with all that it had in hand when it was stopped
            os.kill(faulty.process.pid, signal.SIGCONT)
            faulty.wait_for("done")
        check(url, faulty, survivor)
