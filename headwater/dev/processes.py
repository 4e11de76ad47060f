"""Says whether a recorded process is still alive, and stops it; never another process that got its pid."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from headwater.dev.launch import launch, started_at

__all__ = ["ProcessId", "kill9", "launch_detached", "myself", "read_process", "stop", "wait_until_gone"]

POLL_SECONDS = 0.02
RECORD_TIMEOUT_SECONDS = 30


class ProcessId(msgspec.Struct, frozen=True):
    """The system reuses pids; together with the start time, a pid identifies one process forever."""

    pid: int
    started_at: str

    @property
    def is_alive(self) -> bool:
        return started_at(self.pid) == self.started_at


def myself() -> ProcessId:
    pid = os.getpid()
    return ProcessId(pid, started_at(pid) or "")


def read_process(file: Path) -> ProcessId | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ProcessId)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def launch_detached(
    command: list[str],
    *,
    folder: Path,
    process_file: Path,
    log_file: Path,
    owner: ProcessId | None,
    lock: int,
    scraps: Sequence[Path] = (),
    keeps_data: bool = False,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Returns when the new process is on record; it is not our child and outlives us unless it has an owner.

    The lock is passed along until then: if we are killed in between, nobody else looks before the record is there. The folder
    and leftovers are removed when the owner dies, unless data are to be kept. Secrets belong in the environment, which no list
    of processes shows.
    """
    order = {
        "command": command,
        "folder": str(folder),
        "process_file": str(process_file),
        "log_file": str(log_file),
        "owner": owner,
        "lock": lock,
        "scraps": [str(scrap) for scrap in scraps],
        "keeps_data": keeps_data,
    }
    process_file.unlink(missing_ok=True)
    script = launch.__code__.co_filename
    bare_python = [sys.executable, "-I", "-S", script]
    given = None if environment is None else {**os.environ, **environment}
    subprocess.run(bare_python, input=msgspec.json.encode(order), pass_fds=(lock,), env=given, check=True)  # noqa: S603
    deadline = time.monotonic() + RECORD_TIMEOUT_SECONDS
    while not process_file.exists() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def stop(process: ProcessId, *, stop_signal: signal.Signals, timeout_seconds: float) -> None:
    """Asks first; whatever does not end in time is killed."""
    if not process.is_alive:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, stop_signal)
        if process_is_stopped(process):
            os.kill(process.pid, signal.SIGCONT)  # a frozen process cannot hear the request
    if not wait_until_gone([process], timeout_seconds):
        kill9(process)
    _wait_until_reaped(process.pid, timeout_seconds=5)


def kill9(process: ProcessId) -> None:
    """Kills the whole family at once, the main process first so that it cannot repair or replace its children."""
    if not process.is_alive:
        return
    family = [process, *_descendants(process.pid)]
    for member in family:
        if member.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)
    wait_until_gone(family, timeout_seconds=30)
    _wait_until_reaped(process.pid, timeout_seconds=5)


def _wait_until_reaped(pid: int, timeout_seconds: float) -> None:
    """PostgreSQL takes even a zombie for a running predecessor. The keeper reaps at once, unless it was killed too."""
    deadline = time.monotonic() + timeout_seconds
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(POLL_SECONDS)


def wait_until_gone(processes: list[ProcessId], timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while any(process.is_alive for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def process_is_stopped(process: ProcessId) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _descendants(pid: int) -> list[ProcessId]:
    children: dict[int, list[int]] = {}
    for child, parent in _all_parents():
        children.setdefault(parent, []).append(child)
    found: list[ProcessId] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        waiting += children.get(child, ())
        if (began := started_at(child)) is not None:
            found.append(ProcessId(child, began))
    return found


def _all_parents() -> Iterator[tuple[int, int]]:
    """(pid, parent's pid) of every process; minimal Linux images have no `ps`, other systems no /proc."""
    if Path("/proc/self/stat").exists():
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    else:
        listing = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout  # noqa: S607
        for line in listing.splitlines():
            child, parent = line.split()
            yield int(child), int(parent)
