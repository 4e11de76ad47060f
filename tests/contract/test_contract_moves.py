"""Which pointers moved: nothing is missed, however late a write lands and whatever clocks say; cost grows with the moves."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg
import pytest

from headwater.persistence.backend import Backend, MoveToken
from headwater.persistence.backends import open_backend
from headwater.persistence.backends.cassandra import cassandra_backend, move_journal
from headwater.persistence.backends.cassandra.cassandra_backend import CassandraBackend
from headwater.persistence.rows import PointerRow
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.contract_rows import in_threads, pointer

OTHER_MOVES = 300
"""More than any backend names too many."""


def reserve(backend: Backend, realm: str, *names: str) -> None:
    for name in names:
        backend.add_name(realm, name)
        assert backend.reserve_pointer(realm, name, pointer(1))


def start(backend: Backend, realm: str) -> MoveToken:
    return backend.moves_since(realm, None).token


class Watcher:
    """Knows rows by asking for moves alone, as every reader does."""

    def __init__(self, backend: Backend, realm: str) -> None:
        self._backend, self._realm, self._token = backend, realm, start(backend, realm)
        self.rows: dict[str, PointerRow] = {}

    def poll(self) -> set[str]:
        moves = self._backend.moves_since(self._realm, self._token)
        self.rows |= self._backend.read_pointers(self._realm, list(moves.versions))
        for name, version in moves.versions.items():
            assert version is None or self.rows[name].version >= version
        self._token = moves.token
        return set(moves.versions)


# ── what is named ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_way_to_write_a_pointer_is_named(backend: Backend, other_backend: Backend, realm: str) -> None:
    reserve(backend, realm, "p1", "p2")
    token = start(other_backend, realm)
    assert backend.cas_pointer(realm, "p1", pointer(1), pointer(2))
    assert backend.commit(realm, "p2", pointer(1), pointer(2), [])
    reserve(backend, realm, "new")
    assert {"p1", "p2", "new"} <= set(other_backend.moves_since(realm, token).versions)


def test_a_question_without_a_token_names_nothing(backend: Backend, realm: str, other_realm: str) -> None:
    reserve(backend, realm, "main")
    assert backend.moves_since(realm, None).versions == {}
    assert backend.moves_since(other_realm, start(backend, other_realm)).versions == {}


def test_a_realm_does_not_name_the_pointers_of_another(backend: Backend, realm: str, other_realm: str) -> None:
    token = start(backend, realm)
    reserve(backend, other_realm, "main")
    assert backend.moves_since(realm, token).versions == {}


def test_a_hot_pointer_is_named_for_each_of_its_moves(backend: Backend, other_backend: Backend, realm: str) -> None:
    reserve(backend, realm, "hot")
    watcher = Watcher(other_backend, realm)
    for version in range(1, 13):
        assert backend.cas_pointer(realm, "hot", pointer(version), pointer(version + 1))
        watcher.poll()
        assert watcher.rows["hot"].version == version + 1


def test_a_token_may_be_used_again(backend: Backend, realm: str) -> None:
    """Whoever could not read the rows that were named asks with the token from before."""
    reserve(backend, realm, "main")
    token = start(backend, realm)
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    for _ in range(3):
        assert "main" in backend.moves_since(realm, token).versions


def test_the_moves_after_a_pointer_was_deleted_are_named(backend: Backend, realm: str) -> None:
    """The one that moved last is purged: numbers must not be given out twice."""
    reserve(backend, realm, "stays", "last")
    watcher = Watcher(backend, realm)
    assert backend.cas_pointer(realm, "last", pointer(1), pointer(2))
    watcher.poll()
    assert backend.delete_pointer(realm, "last", pointer(2))
    assert backend.cas_pointer(realm, "stays", pointer(1), pointer(2))
    reserve(backend, realm, "new")
    watcher.poll()
    assert (watcher.rows["stays"].version, watcher.rows["new"].version) == (2, 1)


# ── late writers and wrong clocks ───────────────────────────────────────────────────────────────────────────


@contextmanager
def _locked_sqlite(url: str, realm: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """Another process holds the write lock of the file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield lambda: True
        connection.execute("ROLLBACK")


@contextmanager
def _locked_postgresql(url: str, realm: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """Another session holds the lock of the row: the CAS has begun its transaction, and waits."""

    def is_waiting() -> bool:
        found = probe.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return found is not None and found[0] > 0

    with psycopg.connect(url) as connection, psycopg.connect(url, autocommit=True) as probe:
        connection.execute("SELECT 1 FROM headwater_pointers WHERE realm = %s AND name = 'late' FOR UPDATE", (realm,))
        yield is_waiting
        connection.rollback()


@contextmanager
def _paused_cassandra(url: str, realm: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """The writer stands still just before it sends its LWT, for longer than anything is announced."""
    reached, go_on = threading.Event(), threading.Event()
    really = cassandra_backend.pointers.cas_pointer

    def late(calls: object, realm: str, name: str, *rest: object) -> bool:
        if name == "late":
            reached.set()
            assert go_on.wait(60), "a paused writer was forgotten"
        return really(calls, realm, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(cassandra_backend.pointers, "cas_pointer", late)
    yield reached.is_set
    go_on.set()


Hold = Callable[[str, str, pytest.MonkeyPatch], AbstractContextManager[Callable[[], bool]]]
HOLDS: dict[str, Hold] = {"sqlite": _locked_sqlite, "postgresql": _locked_postgresql, "cassandra": _paused_cassandra}


def test_a_write_that_began_before_any_number_of_polls_and_lands_after_them_is_reported(
    kind: str, store_url: str, backend: Backend, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind not in HOLDS:
        pytest.skip("memory has no writers that wait")
    reserve(backend, realm, "late", "busy")
    with closing(open_backend(store_url)) as writer, ThreadPoolExecutor(1) as thread:
        watcher = Watcher(backend, realm)
        with HOLDS[kind](store_url, realm, monkeypatch) as is_waiting:
            landing = thread.submit(writer.cas_pointer, realm, "late", pointer(1), pointer(2))
            deadline = time.monotonic() + 60
            while not is_waiting():
                assert time.monotonic() < deadline, "the writer never began"
            _others_move_meanwhile(kind, backend, writer, realm)
            for _ in range(5):
                watcher.poll()
            assert not landing.done() and watcher.rows.get("late", pointer(1)).version == 1
        assert landing.result(60)
        watcher.poll()
        assert watcher.rows["late"].version == 2


def _others_move_meanwhile(kind: str, backend: Backend, writer: Backend, realm: str) -> None:
    if kind == "sqlite":
        return  # where nobody can
    for version in range(1, OTHER_MOVES if kind == "postgresql" else 5):
        assert backend.cas_pointer(realm, "busy", pointer(version), pointer(version + 1))
    for one in (backend, writer):
        if isinstance(one, CassandraBackend):
            one._moves.close_unused()  # what is in use stays open all the same


def test_a_move_by_a_writer_whose_clock_is_hours_slow_is_reported(
    kind: str, store_url: str, backend: Backend, realm: str
) -> None:
    reserve(backend, realm, "main", "fresh")
    watcher = Watcher(backend, realm)
    behind = ManualClock(time.time_ns() // 1_000 - 5 * 3_600_000_000)
    writer = CassandraBackend.open(store_url, behind) if kind == "cassandra" else open_backend(store_url)
    with closing(writer):
        if kind != "cassandra":
            writer._clock = behind  # type: ignore[attr-defined]
        for version in range(1, 4):
            assert backend.cas_pointer(realm, "fresh", pointer(version), pointer(version + 1))
            watcher.poll()
            assert writer.cas_pointer(realm, "main", pointer(version), pointer(version + 1))
            watcher.poll()
            assert watcher.rows["main"].version == version + 1


def test_a_reader_of_moves_ends_with_every_current_row(backend: Backend, other_backend: Backend, realm: str) -> None:
    names = [f"p{n}" for n in range(12)]
    reserve(backend, realm, *names)
    watcher = Watcher(other_backend, realm)
    over = threading.Event()

    def move(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            name = chance.choice(names)
            row = backend.read_pointer(realm, name)
            assert row is not None
            backend.cas_pointer(realm, name, row, pointer(row.version + 1))

    def watch() -> None:
        while not over.is_set():
            watcher.poll()

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        in_threads([lambda seed=seed: move(seed) for seed in range(4)])  # type: ignore[misc]
        over.set()
        watching.result(60)
    watcher.poll()
    now = backend.read_pointers(realm, names)
    assert {name: row.version for name, row in watcher.rows.items()} == {
        name: row.version for name, row in now.items() if row.version > 1
    } | {name: row.version for name, row in watcher.rows.items() if row.version == 1}


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────


def test_idle_pointers_are_not_named(
    kind: str, backend: Backend, other_backend: Backend, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number does not matter: what is named are the moves, and a bounded number of recent ones."""
    idle = [f"idle-{n}" for n in range(30 if kind == "cassandra" else 900)]
    in_threads([lambda some=idle[n::4]: reserve(backend, realm, *some) for n in range(4)])  # type: ignore[misc]
    reserve(backend, realm, "busy")
    if isinstance(backend, CassandraBackend):
        monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.0)
        backend._moves.close_unused()
        monkeypatch.undo()
    token = start(other_backend, realm)
    for version in range(1, 6):
        assert backend.cas_pointer(realm, "busy", pointer(version), pointer(version + 1))
    named = other_backend.moves_since(realm, token).versions
    assert "busy" in named
    assert len(named) <= {"memory": 1, "sqlite": 64, "postgresql": 300, "cassandra": 1}[kind]
