"""Maintains the store in a process of its own beside a server, and ends with it.

In a process, not on a thread: requests neither share an interpreter lock nor memory with a sweep. The settings go over a pipe,
where no list of processes shows passwords; the closed pipe tells the process that its server is gone, however it ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import msgspec

from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.settings import Settings

NICENESS = 10
RESTART_SECONDS_FIRST = 1.0
RESTART_SECONDS_MAX = 60.0
OPEN_SECONDS = 1.0
"""Seconds between two tries to open the store: the server may be about to create it."""

_log = logging.getLogger(__name__)


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the process reads first."""

    settings: Settings
    every_seconds: float


@contextlib.contextmanager
def maintenance_beside(settings: Settings, hours: float) -> Iterator[None]:
    """Nothing at 0 hours. Invalid values are refused here, before anything is served."""
    if not hours:
        yield
        return
    if settings.store.startswith("memory:"):
        raise InvalidInput(
            "maintenance is a process of its own, and no other process shares a store in memory.",
            field="maintain",
            remedy="Use another store, or leave it out.",
        )
    from headwater.wiring.maintenance import schedule_options

    schedule_options(settings, hours * 3_600)
    process = MaintenanceProcess(ProcessConfig(settings=settings, every_seconds=hours * 3_600))
    process.start()
    try:
        yield
    finally:
        process.stop(settings.stop_seconds)


class MaintenanceProcess:
    """Restarted if it dies, after growing delays."""

    def __init__(self, order: ProcessConfig) -> None:
        self._order = msgspec.json.encode(order) + b"\n"
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = threading.Thread(target=self._watch, name="maintenance-watch", daemon=True)

    def start(self) -> None:
        self._launch()
        self._watcher.start()

    def stop(self, timeout_seconds: float) -> None:
        """A run in progress ends before its next batch. A killed run leaves nothing half done that matters."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", __name__]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own interpreter and module
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(self._order)
                process.stdin.flush()
        self._process = process
        return process

    def _watch(self) -> None:
        pause_seconds = RESTART_SECONDS_FIRST
        while self._process is not None and not self._stopping.is_set():
            started = time.monotonic()
            code = self._process.wait()
            if time.monotonic() - started > RESTART_SECONDS_MAX:
                pause_seconds = RESTART_SECONDS_FIRST
            if self._stopping.wait(pause_seconds):
                return
            _log.error("maintenance ended with %s and is started again", code)
            pause_seconds = min(2 * pause_seconds, RESTART_SECONDS_MAX)
            self._launch()


def main() -> None:
    """Runs in the process until it is stopped, or its server is gone."""
    from headwater.service.observability.log_files import LogFile
    from headwater.service.observability.logs import set_up_logs

    os.nice(NICENESS)
    stopping = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too: the server decides when we stop
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ProcessConfig)
    given = order.settings
    set_up_logs(LogFile(path=given.log_file, bytes_max=given.log_file_bytes, kept=given.log_files))
    threading.Thread(target=_until_the_server_is_gone, args=(stopping,), daemon=True).start()
    while not stopping.is_set():
        try:
            _maintain(order, stopping)
        except HeadwaterError as error:
            _log.debug("the store cannot be opened yet: %s", error)
            stopping.wait(OPEN_SECONDS)


def _maintain(order: ProcessConfig, stopping: threading.Event) -> None:
    from headwater.persistence.store import open_store
    from headwater.streaming.schedule import Schedule
    from headwater.wiring.maintenance import cycle_tools, schedule_options
    from headwater.wiring.stores import store_options

    with open_store(order.settings.store, store_options(order.settings)) as store:
        options = schedule_options(order.settings, order.every_seconds)
        schedule = Schedule(store, options, cycle_tools(store, order.settings)).start()
        stopping.wait()
        schedule.stop(order.settings.stop_seconds)


def _until_the_server_is_gone(stopping: threading.Event) -> None:
    while sys.stdin.buffer.read(1):
        pass
    stopping.set()


if __name__ == "__main__":
    main()
