"""Each real server starts, answers in its own protocol, and keeps what it acknowledged over kill -9."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import FreshUrl, fresh_server


def test_postgres_gives_each_caller_an_empty_database(fresh_postgres: FreshUrl) -> None:
    first, second = fresh_postgres(), fresh_postgres()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE t (n int)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_postgres_refuses_a_wrong_password(postgres_url: str) -> None:
    user_and_password = postgres_url.split("//")[1].split("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_url.replace(user_and_password, "headwater:wrong"))


def test_postgres_runs_with_durable_settings(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}".encode()).fetchone() == ("on",)


def test_postgres_keeps_rows_over_kill_9_on_the_same_port() -> None:
    with fresh_server("postgres") as server:
        url, pid = server.url, server.pid
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE t (n int)")
            connection.execute("INSERT INTO t VALUES (7)")
        server.kill9()
        assert server.state == "died"
        server.restart()
        assert (server.url, server.pid != pid) == (url, True)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM t").fetchone() == (7,)
