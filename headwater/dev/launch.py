"""Starts a detached process, with its pid and start time on disk before its first instruction runs.

Run as a script with a bare interpreter, so only the standard library is imported here. The process file is written by the very
process that then becomes the server: at no moment does a killed caller leave a server that nobody knows. With an owner, the
server ends as soon as the owner is gone, even by kill -9; its folder is removed too, unless data are to be kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

WATCH_INTERVAL_SECONDS = 0.5


def started_at(pid: int) -> str | None:
    """When the process began, as text that a later process with the same pid cannot repeat; None if it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _started_at_by_ps(pid) if not Path("/proc/self/stat").exists() else None
    if fields[0] in "ZX":  # a zombie holds no port and no file
        return None
    return f"{_boot_id()}/{fields[19]}"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started_at_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return answer.stdout.strip() or None


def launch(order: dict[str, Any]) -> None:
    """The caller gets no child to wait for: a keeper process in between waits for the server, and so leaves no zombie."""
    if os.fork() != 0:
        return
    os.setsid()
    if (server_pid := os.fork()) == 0:
        os.setsid()
        _become_server(order)
    os.close(order["lock"])
    _keep(server_pid, order)


def _become_server(order: dict[str, Any]) -> None:
    process_file, command = Path(order["process_file"]), order["command"]
    _redirect_to(order["log_file"])
    os.chdir(order["folder"])
    unfinished = process_file.with_suffix(".new")
    unfinished.write_text(json.dumps({"pid": os.getpid(), "started_at": started_at(os.getpid())}))
    unfinished.replace(process_file)
    os.close(order["lock"])
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(127)


def _redirect_to(log_file: str) -> None:
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _keep(server_pid: int, order: dict[str, Any]) -> None:
    """Waits until the server ends; or, with an owner, until the owner ends, and then the server and its folders go too."""
    _redirect_to(os.devnull)
    owner = order["owner"]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while os.waitpid(server_pid, os.WNOHANG)[0] == 0:
        if owner and started_at(owner["pid"]) != owner["started_at"]:
            os.kill(server_pid, signal.SIGKILL)
            os.waitpid(server_pid, 0)
            for folder in () if order["keeps_data"] else (order["folder"], *order["scraps"]):
                shutil.rmtree(folder, ignore_errors=True)
            break
        signal.sigtimedwait([signal.SIGCHLD], WATCH_INTERVAL_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    launch(json.loads(sys.stdin.read()))
