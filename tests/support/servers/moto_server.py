"""Runs a moto process that answers like S3, with one empty bucket, and ends it by its id."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from xml.etree import ElementTree

import httpx

from tests.support.servers.ports import free_port

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "moto-access", "moto-secret-nobody-is-told"
READY_SECONDS = 30.0


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
    deadline = time.monotonic() + READY_SECONDS
    while True:
        assert process.poll() is None, f"moto ended with {process.returncode}"
        try:
            assert httpx.put(f"{server.url}/{BUCKET}", timeout=5).status_code == 200
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "moto is not ready"
            time.sleep(0.05)
