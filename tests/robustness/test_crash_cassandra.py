"""The server process of Cassandra is killed -9 and frozen under load: what was acknowledged is there, what was not is unknown.

A kill proves nothing about fsync, since the system keeps what was handed to it: so the settings are asserted as well.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends.cassandra import open_cassandra
from headwater.persistence.rows import Table
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable
from tests.support.fixtures.contract_rows import an_object, mutable, patiently, pointer, scan_all
from tests.support.servers.servers import TestServer, fresh_server

KILLS = 5 if os.environ.get("HEADWATER_SOAK") else 1
LOAD_SECONDS = 1.5
WRITES_MAX = 100_000
REALM = "realm@1"


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with fresh_server("cassandra") as server:
        yield server


@pytest.fixture
def backend(server: TestServer) -> Iterator[Backend]:
    backend = open_cassandra(f"{server.url}?timeout=3")
    backend.create_schema()
    yield backend
    backend.close()


class Writer:
    """Writes one kind of row after another until a write fails; knows which were acknowledged, and how it ended."""

    def __init__(self, write: Callable[[int], object], first: int) -> None:
        self._write = write
        self.first = first
        self.acknowledged = first - 1
        """All from `first` up to this one."""
        self.fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for n in range(self.first, self.first + WRITES_MAX):
            try:
                self._write(n)
            except (StoreUnavailable, OutcomeUnknown) as fault:
                self.fault = fault
                return
            self.acknowledged = n


def writers(backend: Backend, kill: int) -> dict[str, Writer]:
    def move(n: int) -> None:
        assert backend.cas_pointer(REALM, f"moved-{kill}", pointer(n - 1), pointer(n, seq=n))

    def insert(n: int) -> None:
        assert backend.insert_mutable(REALM, mutable(f"{kill}-{n:06}"))

    def commit(n: int) -> None:
        ids = range(n * 1_000, n * 1_000 + 20)
        objects = [an_object(id, b"%d" % kill) for id in ids]
        assert backend.commit(REALM, f"committed-{kill}", pointer(n - 1), pointer(n), objects)

    for name in (f"moved-{kill}", f"committed-{kill}"):
        backend.add_name(REALM, name)
        assert backend.reserve_pointer(REALM, name, pointer(1))
    return {
        "moves": Writer(move, 2),
        "mutable": Writer(insert, 1),
        "commits": Writer(commit, 2),
        "names": Writer(lambda n: backend.add_name(REALM, f"name-{kill}-{n:06}"), 1),
        "objects": Writer(lambda n: backend.write_objects(f"objects-{kill}@1", [an_object(n)]), 1),
    }


@pytest.mark.parametrize("kill", range(KILLS))
def test_every_acknowledged_write_is_there_after_a_kill_of_the_server(server: TestServer, backend: Backend, kill: int) -> None:
    durability = backend.durability()
    assert durability.level is DurabilityLevel.DURABLE, durability.warnings
    assert durability.settings["commitlog_sync"] in ("batch", "group")
    assert durability.settings["durable_writes"] == "true"

    work = writers(backend, kill)
    for writer in work.values():
        writer.start()
    time.sleep(LOAD_SECONDS)
    killed_pid = server.pid
    server.kill9()
    for writer in work.values():
        writer.join()
    server.restart()
    assert server.pid != killed_pid
    for kind, writer in work.items():
        assert writer.fault is not None, f"{kind}: the server was killed, yet no write failed"
        assert writer.acknowledged > writer.first, f"{kind}: nothing was acknowledged before the kill"
    check_all_there(open_cassandra(server.url), work, kill)
    assert patiently(lambda: backend.list_names(REALM, limit=1)), "the backend that saw the crash continues"


def check_all_there(reader: Backend, work: dict[str, Writer], kill: int) -> None:
    moved = patiently(lambda: reader.read_pointer(REALM, f"moved-{kill}"))
    committed = patiently(lambda: reader.read_pointer(REALM, f"committed-{kill}"))
    assert moved is not None
    assert committed is not None
    # The one write that was on its way may have landed: that is what unknown means.
    assert moved.version - work["moves"].acknowledged in (0, 1)
    assert committed.version - work["commits"].acknowledged in (0, 1)
    for n in range(2, committed.version + 1):
        assert len(reader.fetch_objects(REALM, range(n * 1_000, n * 1_000 + 20))) == 20, "objects come before the pointer"
    there = {row.key for row in reader.list_mutable(REALM, "lease", limit=WRITES_MAX)}
    assert {f"{kill}-{n:06}" for n in range(1, work["mutable"].acknowledged + 1)} <= there
    names = set(reader.list_names(REALM, prefix=f"name-{kill}-", limit=WRITES_MAX))
    assert {f"name-{kill}-{n:06}" for n in range(1, work["names"].acknowledged + 1)} <= names
    ids = {row.id for row in scan_all(reader, Table.OBJECTS, f"objects-{kill}@1")}
    assert set(range(1, work["objects"].acknowledged + 1)) <= ids
    reader.close()


def test_a_write_to_a_frozen_server_is_unknown_and_may_land_when_it_thaws(server: TestServer, backend: Backend) -> None:
    """The request waits in the frozen server's socket: a read that saw nothing of it would prove nothing."""
    assert backend.reserve_pointer(REALM, "frozen", pointer(1))
    assert backend.cas_pointer(REALM, "frozen", pointer(1), pointer(2)), "prepares the statement and writes the hint"
    ours = pointer(3, head=b"ours" * 8)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(OutcomeUnknown, match="OperationTimedOut"):
            backend.cas_pointer(REALM, "frozen", pointer(2), ours)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    patiently(lambda: backend.cas_pointer(REALM, "frozen", pointer(2), ours))
    assert backend.read_pointer(REALM, "frozen", decide=True) == ours, "whichever of the two sendings it was"
    assert not backend.cas_pointer(REALM, "frozen", pointer(2), pointer(3, head=b"them" * 8)), "of two on one version, one wins"
