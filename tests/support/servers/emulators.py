"""Runs emulators of object stores, fake-gcs-server for GCS and Azurite for Azure, each with one empty bucket.

They are installed once by their own tools, Go and npm, into the cache that the dev servers' jars lie in.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pyarrow.fs

from tests.support.servers.installed_tools import installed, run_install
from tests.support.servers.ports import free_port

GCS_EMULATOR = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURE_EMULATOR = "azurite@3.37.0"
BUCKET = "lake"
READY_SECONDS = 60.0
GCS_TOKEN = "gcs-token-nobody-is-told"
NEVER_MS = "4102444800000"
AZURE_ACCOUNT = "headwater"
AZURE_KEY = "bm9ib2R5LWlzLXRvbGQtdGhpcy1henVyZS1rZXk="


class Emulator(NamedTuple):
    root: str
    plain: dict[str, str]
    """Options that clients may be told."""
    secret: dict[str, str]

    @property
    def options(self) -> dict[str, str]:
        return {**self.plain, **self.secret}


@contextmanager
def gcs_emulator() -> Iterator[Emulator]:
    """⚠ It takes any token: what a token may do cannot be tried with it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    flags = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-log-level", "error"]
    addresses = ["-public-host", f"127.0.0.1:{port}", "-external-url", url]
    program = installed("fake-gcs-server-1.56.1", _install_with_go) / "fake-gcs-server"
    with _running([str(program), *flags, *addresses], f"{url}/storage/v1/b?project=p"):
        httpx.post(f"{url}/storage/v1/b?project=p", json={"name": BUCKET}, timeout=30).raise_for_status()
        secret = {"gcs.oauth2.token": GCS_TOKEN, "gcs.oauth2.token-expires-at": NEVER_MS}
        yield Emulator(f"gs://{BUCKET}/warehouse", {"gcs.service.host": url}, secret)


@contextmanager
def azure_emulator() -> Iterator[Emulator]:
    """It checks every signature."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    program = installed("azurite-3.37.0", _install_with_npm) / "node_modules" / ".bin" / "azurite-blob"
    flags = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent", "--disableTelemetry"]
    with _running([str(program), *flags, "--skipApiVersionCheck"], f"http://{address}/", AZURITE_ACCOUNTS=_accounts()):
        kinds = {"storage-authority": address, "storage-scheme": "http"}
        plain = {f"adls.{api}-{name}": value for api in ("blob", "dfs") for name, value in kinds.items()}
        plain["adls.account-name"] = AZURE_ACCOUNT
        _azure_files(address).create_dir(BUCKET)
        yield Emulator(f"abfs://{BUCKET}/warehouse", plain, {"adls.account-key": AZURE_KEY})


def _accounts() -> str:
    return f"{AZURE_ACCOUNT}:{AZURE_KEY}"


def _azure_files(address: str) -> pyarrow.fs.AzureFileSystem:
    return pyarrow.fs.AzureFileSystem(
        AZURE_ACCOUNT,
        account_key=AZURE_KEY,
        blob_storage_authority=address,
        dfs_storage_authority=address,
        blob_storage_scheme="http",
        dfs_storage_scheme="http",
    )


@contextmanager
def _running(command: list[str], url: str, **environ: str) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **environ}) as process:
        try:
            deadline = time.monotonic() + READY_SECONDS
            while not _answers(url):
                assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{command[0]} is not ready"
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(10)


def _answers(url: str) -> bool:
    try:
        httpx.get(url, timeout=5)
    except httpx.TransportError:
        return False
    return True


def _install_with_go(folder: Path) -> None:
    run_install(["go", "install", GCS_EMULATOR], "Install Go: the emulator of GCS is built with it.", folder, GOBIN=str(folder))


def _install_with_npm(folder: Path) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(folder), AZURE_EMULATOR]
    run_install(command, "Install Node.js with npm: the emulator of Azure comes with it.", folder)
