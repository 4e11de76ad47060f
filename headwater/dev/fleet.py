"""Starts and stops local servers side by side. One caller at a time per dev folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from headwater.dev.kind import Report, silent
from headwater.dev.kinds import KINDS
from headwater.dev.server import Server, State
from headwater.dev.state import locked, read_record


class ServerStatus(msgspec.Struct, frozen=True):
    """The address without the password, which only the URL contains."""

    name: str
    state: State
    address: str | None
    pid: int | None
    data_dir: str | None


def up(
    names: Sequence[str], dev_dir: Path, jar_cache: Path, report_for: Callable[[str], Report] = lambda _: silent
) -> list[ServerStatus]:
    """All of them answer when this returns. If one fails, the others keep running, and its error is raised."""
    servers = [Server(name, dev_dir, jar_cache=jar_cache) for name in dict.fromkeys(names)]
    with locked(dev_dir) as lock, ThreadPoolExecutor(max_workers=len(KINDS)) as pool:
        starts = [pool.submit(server.start, lock, report_for(server.name)) for server in servers]
        try:
            errors = [error for start in starts if (error := start.exception()) is not None]
        except KeyboardInterrupt:
            for server in servers:
                server.given_up.set()
            raise
    if errors:
        raise errors[0]
    return [status_of(server) for server in servers]


def status(dev_dir: Path, names: Sequence[str] = ()) -> list[ServerStatus]:
    """Needs no lock, so it answers while servers are starting."""
    servers = (Server(name, dev_dir) for name in names or KINDS)
    return [status_of(server) for server in servers]


def status_of(server: Server) -> ServerStatus:
    record, process = read_record(server.folder), server.process
    if record is None:
        return ServerStatus(server.name, "absent", None, None, None)
    return ServerStatus(server.name, server.state, record.address, process.pid if process else None, record.data_dir)


def down(names: Sequence[str], dev_dir: Path, *, delete: bool = False) -> list[ServerStatus]:
    """Stops what is running, including servers that an earlier, killed caller started; `delete` removes the data too."""
    if not dev_dir.exists():
        return []
    servers = [Server(name, dev_dir) for name in names or KINDS]
    with locked(dev_dir), ThreadPoolExecutor(max_workers=len(KINDS)) as pool:
        list(pool.map(Server.delete if delete else Server.stop, servers))
    return [status_of(server) for server in servers]
