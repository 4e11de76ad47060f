"""A PostgreSQL that can be reached and must not be used as it is, or not now: each is told apart, in one line."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.schemas.errors import (
    InvalidInput,
    StoreAccessDenied,
    StoreNotCreated,
    StoreRefused,
    StoreRestored,
    StoreUnavailable,
    StoreVersionMismatch,
)
from tests.support.fixtures.contract_rows import patiently
from tests.support.servers.servers import with_path

REALM = "default@1"


@pytest.fixture
def url(fresh_postgres: Callable[[], str]) -> str:
    return fresh_postgres()


@pytest.fixture
def backend(url: str) -> Iterator[Backend]:
    opened = open_backend(url)
    opened.create_schema()
    yield opened
    opened.close()


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def as_user(url: str, user: str, password: str) -> str:
    server = urlsplit(url)
    return server._replace(netloc=f"{user}:{password}@{server.hostname}:{server.port}").geturl()


def refusal_of(url: str, expected: type[StoreRefused]) -> str:
    backend = open_backend(url)
    with pytest.raises(expected) as caught:
        backend.check_schema()
    backend.close()
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_password_or_user_is_an_access_denied_without_the_password(url: str) -> None:
    assert "wr0ng" not in refusal_of(as_user(url, urlsplit(url).username or "", "wr0ng"), StoreAccessDenied)
    assert "wr0ng" not in refusal_of(as_user(url, "nobody_" + secrets.token_hex(4), "wr0ng"), StoreAccessDenied)


def test_a_missing_database_is_named(url: str) -> None:
    assert "no_such_place" in refusal_of(with_path(url, "no_such_place"), StoreRefused)


def test_a_user_without_rights_is_denied(url: str, backend: Backend) -> None:
    user = f"guest_{secrets.token_hex(4)}"
    execute(url, f"CREATE USER {user} PASSWORD 'guest'")
    refusal_of(as_user(url, user, "guest"), StoreAccessDenied)


def test_a_database_in_another_encoding_is_refused(url: str) -> None:
    name = f"latin_{secrets.token_hex(4)}"
    execute(url, f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    backend = open_backend(with_path(url, name))
    with pytest.raises(StoreRefused, match="LATIN1"):
        backend.create_schema()
    with pytest.raises(StoreNotCreated):
        backend.check_schema()
    backend.close()


def test_a_store_without_a_schema_is_reported_at_every_call(url: str) -> None:
    backend = open_backend(url)
    for use in (backend.check_schema, lambda: backend.add_name(REALM, "main"), lambda: backend.fetch_objects(REALM, [1])):
        with pytest.raises(StoreNotCreated, match="store create"):
            use()
    backend.close()


@pytest.mark.parametrize(("version", "remedy"), [(3, "Upgrade"), (0, "export")])
def test_a_store_of_another_version_is_refused_with_both_versions(
    url: str, backend: Backend, version: int, remedy: str
) -> None:
    execute(url, f"UPDATE headwater_schema SET version = {version}")
    for touch in (backend.check_schema, backend.create_schema):
        with pytest.raises(StoreVersionMismatch, match=f"version {version}.*version 2.*{remedy}"):
            touch()


def test_weaker_settings_are_reported_as_weak(url: str, backend: Backend) -> None:
    assert backend.durability().level is DurabilityLevel.DURABLE
    weak = open_backend(f"{url}?options=-csynchronous_commit%3Doff")
    durability = weak.durability()
    assert durability.level is DurabilityLevel.WEAK
    assert durability.settings["synchronous_commit"] == "off"
    assert "synchronous_commit is off" in durability.warnings[0]
    weak.close()


def test_a_value_that_no_column_holds_is_bad_input(backend: Backend) -> None:
    for id in (2**63, -(2**70)):
        with pytest.raises(InvalidInput):
            backend.write_objects(REALM, [ObjectRow(id, "note", 1, b"")])
        with pytest.raises(InvalidInput):
            backend.fetch_objects(REALM, [id])
    with pytest.raises(InvalidInput):
        backend.write_objects(REALM, [ObjectRow(1, "no\0te", 1, b"")])
    with pytest.raises(InvalidInput):
        backend.write_objects(REALM, [ObjectRow(1, "note", 1, b"", part=2**40)])
    for name in ("a\0b", "\ud800"):
        with pytest.raises(InvalidInput):
            backend.read_pointer(REALM, name)
    assert backend.fetch_objects(REALM, [1]) == {}


def test_a_statement_that_takes_too_long_is_aborted_and_changes_nothing(url: str, backend: Backend) -> None:
    assert backend.reserve_pointer(REALM, "main", PointerRow(created_at=1))
    hasty = open_backend(f"{url}?statement_timeout_seconds=0.2")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM headwater_pointers FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            hasty.cas_pointer(REALM, "main", PointerRow(created_at=1), PointerRow(version=2, created_at=1))
    assert backend.read_pointer(REALM, "main", decide=True) == PointerRow(created_at=1)
    hasty.close()


def test_a_pool_that_stays_exhausted_is_unavailable(url: str, backend: Backend) -> None:
    narrow = open_backend(f"{url}?pool_size=1&pool_timeout_seconds=0.1")
    with narrow._connections.connection(writing=False), pytest.raises(StoreUnavailable, match="busy"):  # type: ignore[attr-defined]
        narrow.check_schema()
    narrow.check_schema()
    narrow.close()


def test_a_closed_store_says_so(url: str) -> None:
    backend = open_backend(url)
    backend.create_schema()
    backend.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        backend.check_schema()


def test_a_forked_child_opens_connections_of_its_own(backend: Backend) -> None:
    backend.add_name(REALM, "parent")
    child = os.fork()
    if child == 0:
        try:
            backend.add_name(REALM, "child")
            os._exit(0 if backend.list_names(REALM) == ["child", "parent"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    backend.add_name(REALM, "later")
    assert backend.list_names(REALM) == ["child", "later", "parent"]


# ── sessions that are no longer good ────────────────────────────────────────────────────────────────────────


def end_sessions(url: str) -> None:
    name = urlsplit(url).path.strip("/")
    execute(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()")


def test_sessions_that_began_while_the_server_was_read_only_are_discarded(url: str, backend: Backend) -> None:
    """A switchover, or a proxy that still leads to the old primary: each new session can write, the old ones never."""
    name = urlsplit(url).path.strip("/")
    first, second = PointerRow(created_at=1), PointerRow(version=2, created_at=1)
    assert backend.reserve_pointer(REALM, "main", first)
    execute(url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    end_sessions(url)
    patiently(lambda: backend.read_pointer(REALM, "main"))  # meets the end of its session, or finds it ended
    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        backend.cas_pointer(REALM, "main", first, second)
    assert refused.value.retriable and refused.value.facts["sqlstate"] == "25006"
    with pytest.raises(StoreUnavailable, match="read-only"):
        backend.read_pointer(REALM, "main", decide=True)
    assert backend.read_pointer(REALM, "main") == first, "reading continues"
    execute(url, "SET default_transaction_read_only = off", f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    with pytest.raises(StoreUnavailable, match="read-only"):
        backend.cas_pointer(REALM, "main", first, second)  # on the session that could read
    assert backend.cas_pointer(REALM, "main", first, second)


def test_a_session_that_lost_its_prepared_statements_is_discarded(url: str) -> None:
    """As behind a pooler that changes sessions, or after DISCARD ALL."""
    lone = open_backend(f"{url}?pool_size=1")
    lone.create_schema()
    assert lone.reserve_pointer(REALM, "main", PointerRow(created_at=1))
    for _ in range(10):  # psycopg prepares what comes again
        assert lone.read_pointer(REALM, "main") is not None
    connections = lone._connections  # type: ignore[attr-defined]
    with connections.connection(writing=False) as connection:
        connection.execute(b"DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")  # the driver knows the plain one
    with pytest.raises(StoreUnavailable) as refused:
        lone.read_pointer(REALM, "main")
    assert refused.value.facts["sqlstate"] == "26000"
    assert lone.read_pointer(REALM, "main") is not None
    lone.close()


def test_a_database_that_accepts_no_connections_is_unavailable(
    url: str, backend: Backend, fresh_postgres: Callable[[], str]
) -> None:
    """A restore shuts others out like this. The server says so after it has taken the password."""
    name, elsewhere = urlsplit(url).path.strip("/"), fresh_postgres()
    execute(elsewhere, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    execute(elsewhere, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with pytest.raises(StoreUnavailable):
        backend.read_pointer(REALM, "main")  # may meet the end of its session
    with pytest.raises(StoreUnavailable, match="takes no connections now"):
        backend.read_pointer(REALM, "main")
    execute(elsewhere, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    assert backend.read_pointer(REALM, "main") is None


def test_a_database_that_was_recreated_under_its_name_is_noticed_before_anything_is_written(
    url: str, backend: Backend, fresh_postgres: Callable[[], str]
) -> None:
    name, elsewhere = urlsplit(url).path.strip("/"), fresh_postgres()
    first, second = PointerRow(created_at=1), PointerRow(version=2, created_at=1)
    assert backend.reserve_pointer(REALM, "main", first)
    before = backend.data_identity()
    execute(
        elsewhere,
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        f'CREATE DATABASE "{name}_backup" TEMPLATE "{name}"',
        f'DROP DATABASE "{name}" WITH (FORCE)',
        f'ALTER DATABASE "{name}_backup" RENAME TO "{name}"',
    )
    with pytest.raises(StoreRestored):
        backend.cas_pointer(REALM, "main", first, second)
    assert backend.read_pointer(REALM, "main") == first
    assert backend.data_identity() not in ("", before)
    assert backend.cas_pointer(REALM, "main", first, second)
