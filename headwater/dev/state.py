"""What is kept about a server in its folder: ports and password (mode 0600), its process, its lock.

<dev_dir>/lock                      held while servers are started or stopped
<dev_dir>/<server>/server.json      made once: ports, password, where the data lie
<dev_dir>/<server>/process.json     pid and start time of the running process; stale after a crash, never believed alone
<dev_dir>/<server>/server.log
"""

from __future__ import annotations

import fcntl
import http.client
import os
import random
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headwater.schemas.errors import ServerFailed

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below the range of ephemeral client ports, so that a restarted server finds its port free."""


class ServerRecord(msgspec.Struct, frozen=True):
    """What does not change between restarts."""

    name: str
    folder: str
    data_dir: str
    ports: dict[str, int]
    password: str

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.ports['main']}"

    def answers(self, path: str) -> bool:
        """Whether its HTTP API is up."""
        connection = http.client.HTTPConnection(LOOPBACK, self.ports["main"], timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def read_record(folder: Path) -> ServerRecord | None:
    try:
        return msgspec.json.decode((folder / "server.json").read_bytes(), type=ServerRecord)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ServerFailed(f"{folder / 'server.json'} cannot be read: {error}.", remedy=f"Remove {folder}.") from error


def make_record(name: str, folder: Path, port_names: tuple[str, ...], choose_data_dir: Callable[[Path], Path]) -> ServerRecord:
    folder.mkdir(parents=True, exist_ok=True)
    numbers = free_ports(len(port_names))
    record = ServerRecord(
        name, str(folder), str(choose_data_dir(folder)), dict(zip(port_names, numbers, strict=True)), secrets.token_urlsafe(24)
    )
    write_private(folder / "server.json", msgspec.json.encode(record))
    return record


def write_private(file: Path, content: bytes) -> None:
    """Complete or absent, and readable only by us from the first byte on."""
    unfinished = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    unfinished.replace(file)


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill that becomes `folder` only when the block has succeeded; leftovers of killed callers are removed."""
    for leftover in folder.parent.glob(f"{folder.name}.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished = folder.with_name(f"{folder.name}.new-{secrets.token_hex(4)}")
    unfinished.mkdir(parents=True, mode=0o700)
    yield unfinished
    unfinished.rename(folder)


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """One caller at a time; the system releases the lock of a caller that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def free_ports(count: int) -> list[int]:
    """Chosen at random, so that concurrent test runs do not collide."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise ServerFailed(f"No {count} free ports between {PORTS.start} and {PORTS.stop} on {LOOPBACK}.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
