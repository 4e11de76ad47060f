"""Answers of PostgreSQL get lost on the wire: landed or not, the write is reported as unknown, and a deciding read tells."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable
from tests.support.faults.tcp_proxy import Fault, Outcome, TcpProxy

CREATED_AT = 1_700_000_000_000_000
BOTH = pytest.mark.parametrize("outcome", list(Outcome), ids=lambda outcome: outcome.name.lower())


@pytest.fixture(scope="module")
def store_url(fresh_postgres: Callable[[], str]) -> str:
    url = fresh_postgres()
    backend = open_backend(url)
    backend.create_schema()
    backend.close()
    return url


@pytest.fixture
def direct(store_url: str) -> Iterator[Backend]:
    """The same store, past the proxy: what it says is the truth."""
    backend = open_backend(store_url)
    yield backend
    backend.close()


@pytest.fixture
def proxy(store_url: str) -> Iterator[TcpProxy]:
    server = urlsplit(store_url)
    assert server.hostname and server.port
    with TcpProxy(server.hostname, server.port) as made:
        yield made


@pytest.fixture
def proxied_url(store_url: str, proxy: TcpProxy) -> str:
    server = urlsplit(store_url)
    return store_url.replace(f"{server.hostname}:{server.port}", f"{proxy.host}:{proxy.port}")


@pytest.fixture
def proxied(proxied_url: str) -> Iterator[Backend]:
    backend = open_backend(proxied_url)
    yield backend
    backend.close()


@pytest.fixture
def realm() -> str:
    return f"unknown-{secrets.token_hex(6)}@1"


def pointer(version: int, head: bytes = b"") -> PointerRow:
    return PointerRow(head=head or b"%032d" % version, version=version, created_at=CREATED_AT)


def lose(proxy: TcpProxy, marker: bytes, outcome: Outcome, write: Callable[[], object]) -> None:
    """The write is sent, its fate is hidden: that is all that its caller may be told."""
    fault = proxy.arm(Fault(marker, outcome))
    with pytest.raises(OutcomeUnknown):
        write()
    assert fault.fired and fault.wait_settled()


@BOTH
@pytest.mark.parametrize("warm", [False, True], ids=["first-statement", "prepared-statement"])
def test_a_lost_commit_is_unknown_and_a_deciding_read_finds_its_outcome(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome, warm: bool
) -> None:
    assert direct.reserve_pointer(realm, "main", pointer(1))
    version = 1
    for _ in range(8 if warm else 0):
        assert proxied.commit(
            realm, "main", pointer(version), pointer(version + 1), [ObjectRow(version, "note", CREATED_AT, b"-")]
        )
        version += 1
    marker = secrets.token_bytes(32)
    after, rows = pointer(version + 1, marker), [ObjectRow(900, "note", CREATED_AT, b"with it")]
    lose(proxy, marker, outcome, lambda: proxied.commit(realm, "main", pointer(version), after, rows))

    landed = outcome is Outcome.LANDED
    found = proxied.read_pointer(realm, "main", decide=True)
    assert found == direct.read_pointer(realm, "main")
    assert (found == after) is landed
    assert bool(direct.fetch_objects(realm, [900])) is landed, "pointer and objects went different ways"
    # The identical call may be sent again: it lands if it had not, and else changes nothing.
    assert proxied.commit(realm, "main", pointer(version), after, rows) is not landed
    assert direct.read_pointer(realm, "main") == after
    assert direct.fetch_objects(realm, [900]) == {900: rows}


@BOTH
def test_a_lost_cas_is_unknown(proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome) -> None:
    assert direct.reserve_pointer(realm, "main", pointer(1))
    marker = secrets.token_bytes(32)
    lose(proxy, marker, outcome, lambda: proxied.cas_pointer(realm, "main", pointer(1), pointer(2, marker)))
    found = proxied.read_pointer(realm, "main", decide=True)
    assert found is not None
    assert (found.version == 2) is (outcome is Outcome.LANDED)


@BOTH
def test_a_lost_reservation_is_unknown(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome
) -> None:
    marker = secrets.token_bytes(32)
    lose(proxy, marker, outcome, lambda: proxied.reserve_pointer(realm, "main", pointer(1, marker)))
    assert (direct.read_pointer(realm, "main") is not None) is (outcome is Outcome.LANDED)


@BOTH
def test_a_lost_update_of_a_mutable_row_is_unknown(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome
) -> None:
    first = MutableRow(type="lease", key="k", created_at=CREATED_AT)
    assert direct.insert_mutable(realm, first)
    marker = secrets.token_bytes(32)
    second = MutableRow(type="lease", key="k", version=2, created_at=CREATED_AT, payload=marker)
    lose(proxy, marker, outcome, lambda: proxied.update_mutable(realm, first, second))
    assert direct.read_mutable(realm, "lease", "k") == (second if outcome is Outcome.LANDED else first)


@BOTH
def test_a_lost_write_of_objects_is_unknown(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome
) -> None:
    marker = secrets.token_bytes(32)
    # Larger than what the proxy forwards at once: a request that is cut in the middle must not count as landed.
    rows = [ObjectRow(n, "note", CREATED_AT, (marker if n == 1 else b"x") + b"y" * 100_000) for n in (1, 2, 3)]
    lose(proxy, marker, outcome, lambda: proxied.write_objects(realm, rows))
    assert set(direct.fetch_objects(realm, [1, 2, 3])) == ({1, 2, 3} if outcome is Outcome.LANDED else set())


@BOTH
def test_silence_is_unknown_too_once_the_answer_is_overdue(
    proxy: TcpProxy, proxied_url: str, direct: Backend, realm: str, outcome: Outcome
) -> None:
    """The connection stays open and nothing ever comes: a call must not wait forever."""
    backend = open_backend(f"{proxied_url}?answer_timeout_seconds=0.6")
    assert direct.reserve_pointer(realm, "main", pointer(1))
    marker = secrets.token_bytes(32)
    fault = proxy.arm(Fault(marker, outcome, hold_open=True))
    with pytest.raises(OutcomeUnknown, match="no answer"):
        backend.commit(realm, "main", pointer(1), pointer(2, marker), [ObjectRow(1, "note", CREATED_AT, b"x")])
    assert fault.fired and fault.wait_settled()
    found = backend.read_pointer(realm, "main", decide=True)
    assert found is not None
    assert (found.version == 2) is (outcome is Outcome.LANDED)
    backend.close()


def test_a_lost_read_is_not_an_unknown_outcome(proxy: TcpProxy, proxied: Backend, realm: str) -> None:
    fault = proxy.arm(Fault(realm.encode(), Outcome.LANDED))
    with pytest.raises(StoreUnavailable):
        proxied.read_pointer(realm, "main")
    assert fault.fired


def test_a_connection_lost_while_idle_causes_no_error(proxy: TcpProxy, proxied: Backend, realm: str) -> None:
    assert proxied.reserve_pointer(realm, "main", pointer(1))
    assert proxy.cut_all() == 1
    time.sleep(0.1)
    assert proxied.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert proxy.connections_total == 2


def test_a_server_that_is_not_there_has_surely_changed_nothing(proxy: TcpProxy, proxied: Backend, realm: str) -> None:
    proxied.add_name(realm, "main")
    proxy.close()
    with pytest.raises(StoreUnavailable):
        proxied.add_name(realm, "other")


def test_a_statement_that_the_server_gave_up_was_surely_not_applied(store_url: str, direct: Backend, realm: str) -> None:
    """An answer of severity ERROR proves the rollback, so a lock that is held too long is not an unknown outcome."""
    backend = open_backend(f"{store_url}?lock_timeout_seconds=0.2")
    assert direct.reserve_pointer(realm, "main", pointer(1))
    with psycopg.connect(store_url) as holder:
        holder.execute("SELECT FROM headwater_pointers WHERE realm = %s FOR UPDATE", (realm,))
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    assert direct.read_pointer(realm, "main", decide=True) == direct.read_pointer(realm, "main")
    assert backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    backend.close()


def test_a_session_that_the_server_ends_in_the_middle_is_unknown(store_url: str, direct: Backend, realm: str) -> None:
    """A FATAL answer says that the session is gone, not what became of its statement."""
    backend = open_backend(f"{store_url}?application_name=victim")
    assert direct.reserve_pointer(realm, "main", pointer(1))
    raised: list[BaseException] = []

    def write() -> None:
        try:
            backend.cas_pointer(realm, "main", pointer(1), pointer(2))
        except OutcomeUnknown as error:
            raised.append(error)

    with psycopg.connect(store_url) as holder, psycopg.connect(store_url, autocommit=True) as watcher:
        holder.execute("SELECT FROM headwater_pointers WHERE realm = %s FOR UPDATE", (realm,))
        writer = threading.Thread(target=write)
        writer.start()
        assert _ended(watcher, "victim"), "the statement was never seen waiting"
        writer.join(20)
    assert [type(error) for error in raised] == [OutcomeUnknown]
    backend.close()


def test_a_deciding_read_waits_for_a_write_in_flight_where_a_plain_one_does_not(
    store_url: str, direct: Backend, realm: str
) -> None:
    before = pointer(1)
    assert direct.reserve_pointer(realm, "main", before)
    decided: list[PointerRow | None] = []
    reader = threading.Thread(target=lambda: decided.append(direct.read_pointer(realm, "main", decide=True)))
    with psycopg.connect(store_url, autocommit=True) as watcher:
        with psycopg.connect(store_url) as writer:
            writer.execute("UPDATE headwater_pointers SET version = 2 WHERE realm = %s", (realm,))
            reader.start()
            assert _seen_waiting(watcher, "headwater")
            assert direct.read_pointer(realm, "main") == before
            assert not decided
        reader.join(20)
    assert [row.version for row in decided if row is not None] == [2]


def _seen_waiting(watcher: psycopg.Connection[tuple[object, ...]], application: str) -> bool:
    return _until(watcher, "SELECT count(*)", application)


def _ended(watcher: psycopg.Connection[tuple[object, ...]], application: str) -> bool:
    return _until(watcher, "SELECT count(pg_terminate_backend(pid))", application)


def _until(watcher: psycopg.Connection[tuple[object, ...]], what: str, application: str) -> bool:
    """Done to a session of that application that waits for a lock, within ten seconds."""
    query = f"{what} FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if watcher.execute(query.encode(), (application,)).fetchone() != (0,):
            return True
        time.sleep(0.02)
    return False
