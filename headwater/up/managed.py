"""The two kinds of supervised processes: local servers, and our own commands that serve an address."""

from __future__ import annotations

import contextlib
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

from headwater.dev.kind import Report, silent
from headwater.dev.processes import ProcessId, kill9, launch_detached, myself, read_process, stop
from headwater.dev.server import Server

STOP_SECONDS = 60.0
PROBE_SECONDS = 5.0
LOG_TAIL_LINES = 3


class Managed(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Sequence[str]:
        """Names of the processes that must have been ready before this one is started."""

    @property
    def address(self) -> str: ...

    @property
    def log_file(self) -> Path: ...

    @property
    def pid(self) -> int | None:
        """None if it is not running."""

    @property
    def ready_when(self) -> str:
        """What `is_ready` asks for, in words."""

    def launch(self, lock: int, report: Report = silent) -> None:
        """Started when this returns, but not yet ready. `HeadwaterError` if it cannot be started."""

    def is_ready(self) -> bool: ...

    def needs_new_start(self) -> bool:
        """Asked of a process that was ready and is not any more: whether waiting cannot help if that lasts."""

    def kill9(self) -> None: ...

    def give_up(self) -> None:
        """Ends a launch that is in progress."""

    def stop(self) -> None:
        """Stops it in good order; it is killed if it does not end in time."""


class ManagedServer:
    """A local server that keeps its data over restarts, and ends with us."""

    def __init__(self, name: str, folder: Path, jar_cache: Path) -> None:
        self._server = Server(name, folder, jar_cache=jar_cache, owner=myself(), keeps_data=True)
        self.needs: Sequence[str] = ()
        self.name = name
        self.ready_when = self._server.kind.ready_when

    @property
    def url(self) -> str:
        """With password; its port is chosen before it first starts."""
        self._server.ensure_record()
        return self._server.url

    @property
    def address(self) -> str:
        return self._server.ensure_record().address

    @property
    def log_file(self) -> Path:
        return self._server.log_file

    @property
    def pid(self) -> int | None:
        process = self._server.process
        return None if process is None else process.pid

    def launch(self, lock: int, report: Report = silent) -> None:
        self._server.start(lock, report)

    def is_ready(self) -> bool:
        return self._server.kind.is_ready(self._server.record)

    def needs_new_start(self) -> bool:
        """It depends on no other process: what does not recover by itself, e.g. its group coordinator, nothing else mends."""
        return True

    def kill9(self) -> None:
        self._server.kill9()

    def give_up(self) -> None:
        self._server.given_up.set()

    def stop(self) -> None:
        self._server.stop()


class ManagedCommand:
    """`headwater …` in a process of its own. Settings go by its environment, which no list of processes shows."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        settings: Mapping[str, str],
        needs: Sequence[str],
        address: str,
        ready_path: str,
    ) -> None:
        self.name = name
        self.needs = needs
        self.address = address
        self._arguments = list(arguments)
        self._folder = folder / name
        self._settings = settings
        self.ready_path = ready_path
        self.ready_when = f"{ready_path} answers 200"

    @property
    def log_file(self) -> Path:
        return self._folder / "server.log"

    @property
    def process(self) -> ProcessId | None:
        process = read_process(self._folder / "process.json")
        return process if process is not None and process.is_alive else None

    @property
    def pid(self) -> int | None:
        process = self.process
        return None if process is None else process.pid

    def launch(self, lock: int, report: Report = silent) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if (before := self.process) is not None:  # of a supervisor that was killed a moment ago
            kill9(before)
        launch_detached(
            [sys.executable, "-P", "-m", "headwater", *self._arguments],
            folder=self._folder,
            process_file=self._folder / "process.json",
            log_file=self.log_file,
            owner=myself(),
            lock=lock,
            keeps_data=True,
            environment=self._settings,
        )

    def is_ready(self) -> bool:
        return self._answer() == HTTPStatus.OK

    def needs_new_start(self) -> bool:
        """If it answers that it is not ready, it waits for something else and continues by itself."""
        return self._answer() is None

    def _answer(self) -> int | None:
        """The status of the answer to its probe, if it answers at all."""
        try:
            with urllib.request.urlopen(f"{self.address}{self.ready_path}", timeout=PROBE_SECONDS) as answer:  # noqa: S310 - our own address
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        except (OSError, HTTPException):
            return None

    def kill9(self) -> None:
        if (process := self.process) is not None:
            kill9(process)

    def give_up(self) -> None:
        """Launching takes no time."""

    def stop(self) -> None:
        if (process := self.process) is not None:
            stop(process, stop_signal=signal.SIGTERM, timeout_seconds=STOP_SECONDS)


def log_tail(managed: Managed) -> str:
    """The last output of a process that has ended."""
    with contextlib.suppress(OSError):
        lines = managed.log_file.read_text(errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-LOG_TAIL_LINES:])
    return ""
