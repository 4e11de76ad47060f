"""A store URL enters; a real server process that serves it leaves, to be talked to, killed and started again on its port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

READY_SECONDS = 60.0


class ServedStore:
    def __init__(self, store_url: str, *arguments: str) -> None:
        self.store_url = store_url
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "headwater", "serve", "--dev", "--store", self.store_url, "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*command, *self._arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, f"the server ended with {self._process.returncode}"
            assert time.monotonic() < deadline, "the server is not ready"
            time.sleep(0.05)

    def kill9(self) -> None:
        """The server and its workers: its own process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill9()
            self._process = None

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


@contextmanager
def served(store_url: str, *arguments: str) -> Iterator[ServedStore]:
    server = ServedStore(store_url, *arguments)
    try:
        server.start()
        yield server
    finally:
        server.kill9()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
