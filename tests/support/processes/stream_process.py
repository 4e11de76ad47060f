"""`headwater stream` as a process of its own, asked through its status page."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.servers.ports import free_port
from tests.support.servers.spark_session import SMALL

WAIT_SECONDS = 240.0


class StreamProcess:
    def __init__(self, *arguments: str, settings: dict[str, str]) -> None:
        self.port = free_port()
        flags = [flag for name, value in (SMALL | settings).items() for flag in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "headwater", *flags, "stream", "--port", str(self.port), *arguments]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `streaming`
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/").json()
        return found

    def realms(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {one["realm"]: one for one in self.status()["realms"].values()}

    def wait_for(self, what: Callable[[], object], why: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            assert self.process.poll() is None, f"it has ended: {self.log()}"
            try:
                if what():
                    return
            except (httpx.TransportError, KeyError):  # not there yet
                pass
            assert time.monotonic() < deadline, f"{why}: {self._shown()} {self.log()}"
            time.sleep(0.2)

    def _shown(self) -> str:
        try:
            return self.get("/").text
        except httpx.TransportError as error:
            return f"no status: {error}"

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


@contextmanager
def streaming(*arguments: str, settings: dict[str, str]) -> Iterator[StreamProcess]:
    stream = StreamProcess(*arguments, settings=settings)
    try:
        yield stream
    finally:
        stream.close()
