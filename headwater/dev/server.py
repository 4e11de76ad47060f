"""A real local server that can be started, probed, stopped, killed and started again."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from headwater.dev.kind import Report, ServerKind, silent
from headwater.dev.kinds import kind_named
from headwater.dev.processes import ProcessId, kill9, launch_detached, myself, read_process, stop
from headwater.dev.state import ServerRecord, locked, make_record, read_record
from headwater.schemas.errors import NotFound, ServerFailed
from headwater.settings import load_settings

START_TIMEOUT_SECONDS = 180.0
"""A broker that was killed needs up to 90 s on a busy machine."""
STOP_TIMEOUT_SECONDS = 30.0
READY_POLL_SECONDS = 0.05
LOG_TAIL_LINES = 20

State = Literal["absent", "stopped", "died", "not answering", "running"]


class Server:
    """One server in `<dev_dir>/<name>`: every fact is read from disk, so any process may hold a handle to it.

    With an owner, the server ends when that process is gone, however it ended, and its folder is removed unless it keeps its
    data.
    """

    def __init__(
        self,
        name: str,
        dev_dir: Path,
        *,
        jar_cache: Path | None = None,
        owner: ProcessId | None = None,
        keeps_data: bool = False,
    ) -> None:
        self.kind: ServerKind = kind_named(name)
        self.dev_dir = dev_dir.absolute()
        self.folder = self.dev_dir / name
        self.jar_cache = jar_cache or Path(load_settings().jar_cache_dir)
        self.owner = owner
        self.keeps_data = keeps_data
        self.given_up = threading.Event()
        """Set by a caller who was interrupted: waiting ends at once, and the server is left running."""

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def record(self) -> ServerRecord:
        if (record := read_record(self.folder)) is None:
            raise NotFound(f"There is no {self.name} in {self.dev_dir}.", remedy=f"Run `headwater dev up {self.name}`.")
        return record

    @property
    def url(self) -> str:
        """With password if there is one: the address that Headwater's own settings take."""
        return self.kind.url(self.record)

    @property
    def process(self) -> ProcessId | None:
        """The running process, or None: a record left by a crash names no live process."""
        process = read_process(self._process_file)
        return process if process is not None and process.is_alive else None

    @property
    def pid(self) -> int:
        if (process := self.process) is None:
            raise ServerFailed(f"{self.name} is not running.", server=self.name)
        return process.pid

    @property
    def state(self) -> State:
        if (record := read_record(self.folder)) is None:
            return "absent"
        if self.process is None:
            return "died" if self._process_file.exists() else "stopped"
        return "running" if self.kind.is_ready(record) else "not answering"

    def start(self, lock: int, report: Report = silent) -> None:
        """Ready when this returns; if one is running, does nothing. The caller holds the lock of the dev folder."""
        record = self.ensure_record()
        if self.process is None:
            self._launch(record, lock, report)
            self._wait_until_ready(record)
        else:
            try:
                self._wait_until_ready(record)
            except ServerFailed:  # it was dying when we found it
                self._launch(record, lock, report)
                self._wait_until_ready(record)
        report("running")

    def ensure_record(self) -> ServerRecord:
        """Its ports and password are known before it starts."""
        choose = self.kind.choose_data_dir
        return read_record(self.folder) or make_record(self.name, self.folder, self.kind.port_names, choose)

    def _launch(self, record: ServerRecord, lock: int, report: Report) -> None:
        self.kind.prepare(record, self.jar_cache, report)
        report("starting")
        self.log_file.unlink(missing_ok=True)
        launch_detached(
            self.kind.command(record, self.jar_cache),
            folder=self.folder,
            process_file=self._process_file,
            log_file=self.log_file,
            owner=self.owner,
            lock=lock,
            scraps=[_home_of_data(record)],
            keeps_data=self.keeps_data,
        )

    def _wait_until_ready(self, record: ServerRecord) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.kind.is_ready(record):
            if self.process is None:
                raise self._failure("ended while it was starting")
            if time.monotonic() > deadline:
                self.kill9()
                waited = f"was not ready within {START_TIMEOUT_SECONDS:.0f} s and was killed"
                raise self._failure(f"{waited}; it is ready when {self.kind.ready_when}")
            if self.given_up.wait(READY_POLL_SECONDS):
                raise self._failure("continues starting, but nobody waits for it any more")

    def _failure(self, what: str) -> ServerFailed:
        error = ServerFailed(f"{self.name} {what}; its log is {self.log_file}.", server=self.name, log_tail=self.log_tail())
        error.add_note(self.log_tail())
        return error

    def log_tail(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def stop(self) -> None:
        """Shuts down in good order and keeps the data."""
        if (process := self.process) is not None:
            stop(process, stop_signal=self.kind.stop_signal, timeout_seconds=STOP_TIMEOUT_SECONDS)
        self._process_file.unlink(missing_ok=True)

    def kill9(self) -> None:
        """As in a crash: nothing is flushed or reported."""
        if (process := self.process) is not None:
            kill9(process)

    def restart(self) -> None:
        """On the same ports and data; after kill9 this is the recovery."""
        with locked(self.dev_dir) as lock:
            self.stop()
            self.start(lock)

    def delete(self) -> None:
        """Stops it, and removes its data and password."""
        self.stop()
        if (record := read_record(self.folder)) is not None:
            shutil.rmtree(_home_of_data(record), ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _process_file(self) -> Path:
        return self.folder / "process.json"


def _home_of_data(record: ServerRecord) -> Path:
    """Usually the server's folder; PostgreSQL may have one elsewhere."""
    return Path(record.data_dir).parent


@contextmanager
def running(name: str, dev_dir: Path, *, jar_cache: Path | None = None, report: Report = silent) -> Iterator[Server]:
    """A server for the length of the block, and never longer than this process lives."""
    server = Server(name, dev_dir, jar_cache=jar_cache, owner=myself())
    try:
        with locked(server.dev_dir) as lock:
            server.start(lock, report)
        yield server
    finally:
        server.kill9()
        server.delete()
