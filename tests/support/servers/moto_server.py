"""Runs a moto process that answers like S3, with one empty bucket, and ends it by its id."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import httpx

from tests.support.servers.ports import free_port

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "moto-access", "moto-secret-nobody-is-told"
READY_SECONDS = 60.0
ROLE = "table-files"
ROLE_ARN = f"arn:aws:iam::123456789012:role/{ROLE}"
WITH_SESSIONS = Path(__file__).parents[1] / "processes" / "moto_with_sessions.py"


class MotoServer(NamedTuple):
    url: str

    @property
    def options(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.url,
            "s3.region": "us-east-1",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        }

    def listed(self) -> set[str]:
        listed = ElementTree.fromstring(httpx.get(f"{self.url}/{BUCKET}?list-type=2").text)
        return {str(found.text) for found in listed.iter() if found.tag.endswith("}Key")}


@contextmanager
def moto_with_sessions() -> Iterator[MotoServer]:
    """S3 and STS that check every signature and policy, also the inline policies of assumed roles."""
    port = free_port()
    command = [sys.executable, str(WITH_SESSIONS), str(port), ACCESS_KEY, SECRET_KEY, ROLE]
    environ = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "0"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ) as process:
        try:
            server = MotoServer(f"http://127.0.0.1:{port}")
            _wait(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def moto_server() -> Iterator[MotoServer]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = MotoServer(f"http://127.0.0.1:{port}")
            _make_bucket(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(10)


def _make_bucket(server: MotoServer, process: subprocess.Popen[bytes]) -> None:
    _wait(server, process)
    assert httpx.put(f"{server.url}/{BUCKET}", timeout=30).status_code == 200


def _wait(server: MotoServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        assert process.poll() is None, f"moto ended with {process.returncode}"
        try:
            httpx.get(f"{server.url}/moto-api/", timeout=5)
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "moto is not ready"
            time.sleep(0.05)
