"""kill -9 of PostgreSQL under load: every acknowledged commit is there after its restart, and what was in doubt is decided."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from headwater.dev.server import Server
from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends import open_backend
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, StoreUnavailable
from tests.support.processes.acknowledged_writes import assert_all_there, pointer_at, prepare, write_until_it_fails
from tests.support.servers.servers import fresh_server

ROUNDS = 15 if os.environ.get("HEADWATER_SOAK") else 2
WRITERS = 4
REALM = "crash@1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fresh_server("postgres") as own:
        yield own


@pytest.fixture
def backend(server: Server) -> Iterator[Backend]:
    opened = open_backend(server.url)
    opened.create_schema()
    yield opened
    opened.close()


def test_every_acknowledged_commit_survives_a_kill_of_the_server(server: Server, backend: Backend) -> None:
    prepare(backend, REALM, WRITERS)
    acknowledged = dict.fromkeys(range(WRITERS), 1)
    for _ in range(ROUNDS):
        before = sum(acknowledged.values())
        endings = _write_and_kill(server, backend, acknowledged)
        assert len(endings) == WRITERS
        assert all(isinstance(ending, OutcomeUnknown | StoreUnavailable) for ending in endings), endings
        assert sum(acknowledged.values()) > before + WRITERS, "the server was killed before anything was written"
        with pytest.raises(StoreUnavailable):
            backend.read_pointer(REALM, "w0")
        server.restart()
        assert_all_there(backend, REALM, acknowledged)
        for writer in acknowledged:
            found = backend.read_pointer(REALM, f"w{writer}")
            assert found is not None
            acknowledged[writer] = found.version


def test_an_idle_connection_outlives_no_restart_but_costs_no_unknown_outcome(server: Server, backend: Backend) -> None:
    """The pool finds out that the server has gone before it sends anything."""
    backend.add_name(REALM, "idle")
    assert backend.reserve_pointer(REALM, "idle", pointer_at(0, 1))
    server.kill9()
    server.restart()
    assert backend.cas_pointer(REALM, "idle", pointer_at(0, 1), pointer_at(0, 2))


def test_the_settings_of_the_server_promise_durability_beyond_a_kill(backend: Backend) -> None:
    durability = backend.durability()
    assert durability.level is DurabilityLevel.DURABLE
    assert durability.settings == {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


def _write_and_kill(server: Server, backend: Backend, acknowledged: dict[int, int]) -> list[HeadwaterError]:
    endings: list[HeadwaterError] = []

    def work(writer: int) -> None:
        endings.append(write_until_it_fails(backend, REALM, writer, acknowledged.__setitem__))

    threads = [threading.Thread(target=work, args=(writer,)) for writer in acknowledged]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    server.kill9()
    for thread in threads:
        thread.join(60)
    return endings
