"""A server process that is killed and started again on the same port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.feed_server import start_server, wait_until_ready
from tests.support.servers.ports import free_port


class ServedStore:
    def __init__(self, store_url: str, *arguments: str) -> None:
        self.store_url = store_url
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = arguments
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-served-"))
        log_file = self._folder / "log"
        self._process = start_server(self.store_url, self.port, log_file, *self._arguments, own_group=True)
        wait_until_ready(self._process, self.url, log_file)

    def kill9(self) -> None:
        """The server and its workers: its own process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._ended()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill9()
            self._ended()

    def _ended(self) -> None:
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def served(store_url: str, *arguments: str) -> Iterator[ServedStore]:
    server = ServedStore(store_url, *arguments)
    try:
        server.start()
        yield server
    finally:
        server.kill9()
