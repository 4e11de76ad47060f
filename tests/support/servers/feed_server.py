"""Runs a real `headwater serve` process on a free loopback port, and stops it as a service manager does."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.support.servers.ports import free_port

START_SECONDS = 120.0
STOP_SECONDS = 30.0


class FeedServer:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        port: int,
        store_url: str,
        log_file: Path,
        certificate: str | None = None,
        grpc_port: int = 0,
    ) -> None:
        self.process = process
        self.port = port
        self.store_url = store_url
        self.verify = True if certificate is None else ssl.create_default_context(cafile=certificate)
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
        self.feed = f"{self.url}/feed/v1/default"
        self.grpc_url = f"{'grpc' if certificate is None else 'grpcs'}://127.0.0.1:{grpc_port}"
        """Of a server with the setting `grpc_port`."""
        self._log_file = log_file
        self._log_text = ""

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines that are JSON; the first line of the command is for people."""
        lines = self.log_text.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def log_text(self) -> str:
        """Also when the server is gone and its folder with it."""
        if self._log_file.exists():
            self._log_text = self._log_file.read_text()
        return self._log_text

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.feed, timeout=30, **options)

    def stop(self) -> int:
        """Like a service manager does; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def wait_until_ready(self) -> None:
        wait_until_ready(self.process, self.url, self._log_file, self.verify)


def start_server(
    store_url: str,
    port: int,
    log_file: Path,
    *arguments: str,
    settings: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    dev: bool = True,
    python: str = sys.executable,
    own_group: bool = False,
) -> subprocess.Popen[bytes]:
    """`python` may be of another environment. With `own_group` the server and its workers can be killed together."""
    sets = [part for name, value in (settings or {}).items() for part in ("--set", f"{name}={value}")]
    command = [python, "-m", "headwater", *sets, "serve", *(["--dev"] if dev else [])]
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [*command, "--store", store_url, "--port", str(port), *arguments],
            stdout=log,
            stderr=log,
            cwd=log_file.parent,
            env={**os.environ, **(environ or {})},
            start_new_session=own_group,
        )


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log_file: Path, verify: ssl.SSLContext | bool = True) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}: {log_file.read_text()}")
        try:
            if httpx.get(f"{url}/readyz", timeout=5, verify=verify).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"the server is not ready after {START_SECONDS} s: {log_file.read_text()}")


@contextmanager
def feed_server(
    store_url: str,
    *arguments: str,
    settings: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    exit_code: int = 0,
    dev: bool = True,
    certificate: str | None = None,
    python: str = sys.executable,
) -> Iterator[FeedServer]:
    """With `certificate` it is asked over TLS, and must show that one."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="headwater-feed-") as folder:
        log_file = Path(folder) / "log"
        process = start_server(
            store_url, port, log_file, *arguments, settings=settings, environ=environ, dev=dev, python=python
        )
        grpc_port = int(str((settings or {}).get("grpc_port", 0)))
        server = FeedServer(process, port, store_url, log_file, certificate, grpc_port)
        try:
            server.wait_until_ready()
            yield server
        finally:
            if process.poll() is None:
                server.stop()
            process.wait(STOP_SECONDS)
            if process.returncode != exit_code:
                raise AssertionError(f"the server ended with {process.returncode}: {server.log_text}")
            server.log_text  # noqa: B018 - kept for after


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


class Event(NamedTuple):
    event: str
    id: str
    data: Any


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Server-sent events as the standard reads them: fields up to an empty line."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]))
        fields = {}
