"""CPU that a worker spends on one request of each API, for this version and another one, measured in turns.

    python -m bench.http_cpu [--before CHECKOUT] [--requests 2000] [--turns 5]

Each version is a checkout with its own server and store. Turns alternate, and the least of each counts, so that what else runs
on the machine touches both alike. A token is asked for: that is how it is run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

HERE = Path(__file__).parents[1]
PATHS = {
    "root /livez": "/livez",
    "feed, nothing new": "/feed/v1/default/changes?pointer=cat/1/heads/main&after=latest",
    "feed, page": "/feed/v1/default/changes?pointer=cat/1/heads/main",
    "feed, pointers": "/feed/v1/default/pointers",
    "feed, snapshot": "/feed/v1/default/snapshot?pointer=cat/1/heads/main",
    "iceberg config": "/iceberg/v1/config?warehouse=lake",
    "iceberg namespaces": "/iceberg/v1/lake/namespaces",
    "nessie config": "/api/v2/config",
    "nessie references": "/api/v2/trees",
    "nessie reference": "/api/v2/trees/main",
    "nessie entries": "/api/v2/trees/main/entries",
    "nessie history": "/api/v2/trees/main/history",
    "manage catalogs": "/manage/v1/default/catalogs",
    "manage catalog": "/manage/v1/default/catalogs/lake",
    "manage principals": "/manage/v1/default/principals",
}
START_SECONDS = 60.0


class Version:
    """One checkout, serving."""

    def __init__(self, checkout: Path, folder: str) -> None:
        self._checkout = checkout
        self._store = f"sqlite:///{folder}/lake.db"
        limits = {"HEADWATER_RATE_LIMIT_PER_SECOND": "1000000", "HEADWATER_RATE_LIMIT_BURST": "1000000"}
        self._environ = {**os.environ, **limits, "PYTHONPATH": str(checkout)}
        Path(f"{folder}/files").mkdir(parents=True)
        self._run("store", "create")
        made = json.loads(self._run("realm", "create", "default", "--init", "--json"))
        self._run("catalog", "create", "lake", "--storage-root", f"file://{folder}/files")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            self._command("serve", "--port", str(self.port)), env=self._environ, cwd=checkout, stderr=subprocess.DEVNULL
        )
        self._wait_until_ready()
        self._token = self._sign_in(made)

    def cpu_micros(self, path: str, requests: int) -> float:
        """Of one request."""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:  # a new one: idle ones are closed
            for _ in range(50):
                _ask(connection, request)
            before = self._cpu_seconds()
            for _ in range(requests):
                _ask(connection, request)
            return (self._cpu_seconds() - before) / requests * 1e6

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def _cpu_seconds(self) -> float:
        """Of the worker, to the nanosecond: ticks are too coarse for so few requests."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(
            int((thread / "schedstat").read_text().split()[0]) / 1e9
            for child in children
            for thread in Path(f"/proc/{child}/task").iterdir()
        )

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments), check=True, capture_output=True, text=True, env=self._environ, cwd=self._checkout
        )
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "headwater", "--store", self._store, *arguments]

    def _sign_in(self, made: dict[str, str]) -> str:
        form = {"grant_type": "client_credentials", "client_id": made["client_id"], "client_secret": made["client_secret"]}
        url = f"http://127.0.0.1:{self.port}/manage/v1/default/oauth/tokens"
        with urllib.request.urlopen(url, urlencode(form).encode()) as answer:
            token: str = json.load(answer)["access_token"]
        return token

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz").close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def _ask(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    received, whole = b"", 0
    while not whole or len(received) < whole:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed a connection that was to be kept")
        received += data
        head, end, _ = received.partition(b"\r\n\r\n")
        if end and not whole:
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            whole = len(head) + len(end) + int(length)
    if received[9:12] != b"200":
        raise ConnectionError(received.decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    checkouts = [HERE] if chosen.before is None else [chosen.before, HERE]
    with tempfile.TemporaryDirectory(prefix="headwater-cpu-") as folder:
        versions = [Version(checkout, f"{folder}/{number}") for number, checkout in enumerate(checkouts)]
        try:
            _measure(versions, chosen.requests, chosen.turns)
        finally:
            for version in versions:
                version.close()


def _measure(versions: list[Version], requests: int, turns: int) -> None:
    names = ["before", "now"] if len(versions) > 1 else ["now"]
    print(f"CPU of one request in µs, the least of {turns} turns of {requests}; load {os.getloadavg()[0]:.1f}")
    for name, path in PATHS.items():
        least = [float("inf")] * len(versions)
        for _ in range(turns):
            least = [min(known, one.cpu_micros(path, requests)) for known, one in zip(least, versions, strict=True)]
        ratio = f"  {least[-1] / least[0]:.2f}" if len(least) > 1 else ""
        print(f"{name:22}", *(f"{said} {micros:7.1f}" for said, micros in zip(names, least, strict=True)), ratio, flush=True)


if __name__ == "__main__":
    main()
