"""One real server of each kind per test run, with a fresh database or keyspace in it for each test that wants one.

A server starts when the first test asks for it and dies with the test run, even when that is killed -9. It is a container
where a Docker engine answers, a local process elsewhere. With HEADWATER_TEST_SERVERS=<dev_dir>, servers that `headwater dev up`
runs there are used instead, to save their start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from headwater.dev.jars import fetch_jars
from headwater.dev.server import Server, running
from headwater.dev.state import locked
from headwater.schemas.errors import HeadwaterError
from headwater.settings import load_settings
from tests.support.running.test_run import run_folder, run_owner
from tests.support.servers.containers import docker_answers, running_container

FreshUrl = Callable[[], str]
"""Each call makes a new, empty database and gives its URL."""


class TestServer(Protocol):
    """What tests may do with a server: address it, kill it, freeze it by its pid, start it again on the same port."""

    __test__ = False

    @property
    def url(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def kill9(self) -> None: ...
    def restart(self) -> None: ...


@contextmanager
def fresh_server(name: str) -> Iterator[TestServer]:
    """A server of the test's own: for tests that kill it, freeze it or spoil its data."""
    if docker_answers():
        with running_container(name) as container:
            yield container
        return
    with local_server(name) as server:
        yield server


@contextmanager
def local_server(name: str) -> Iterator[Server]:
    """Always a local process."""
    with tempfile.TemporaryDirectory(prefix="headwater-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user when we are root
        with running(name, Path(folder)) as server:
            yield server


@contextmanager
def shared_server_url(name: str) -> Iterator[str]:
    if shared := os.environ.get("HEADWATER_TEST_SERVERS"):
        server = Server(name, Path(shared))
        if server.state == "running":
            yield server.url
            return
    if docker_answers():
        with running_container(name) as container:
            yield container.url
        return
    yield _server_of_the_run(name).url


@contextmanager
def nessie_url() -> Iterator[str]:
    """Always a local process: tests make branches of their own."""
    if (shared := os.environ.get("HEADWATER_TEST_SERVERS")) and (server := Server("nessie", Path(shared))).state == "running":
        yield server.url
        return
    yield _server_of_the_run("nessie").url


@contextmanager
def hive_url() -> Iterator[str]:
    """Always a local process: tests make databases of their own."""
    yield _server_of_the_run("hive").url


def _server_of_the_run(name: str) -> Server:
    """Started by the first process of the run that asks for it; it ends with the run."""
    server = Server(name, run_folder() / f"shared-{name}", owner=run_owner())
    with locked(server.dev_dir) as lock:
        server.start(lock)
    return server


def fetch_jars_meanwhile() -> None:
    """In the background; a fault shows when a test asks for the server."""

    def fetch(name: str) -> None:
        with contextlib.suppress(HeadwaterError):
            fetch_jars(name, Path(load_settings().jar_cache_dir))

    servers = () if docker_answers() else ("cassandra", "kafka", "registry")
    for name in (*servers, "nessie-server", "hive", "spark"):
        threading.Thread(target=fetch, args=(name,), daemon=True).start()


def with_path(url: str, path: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{path}"))


def fresh_name() -> str:
    return f"test_{secrets.token_hex(6)}"


def create_postgres_database(server_url: str) -> str:
    import psycopg

    name = fresh_name()
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return with_path(server_url, name)


def create_cassandra_keyspace(server_url: str) -> str:
    """One node, so one replica."""
    from cassandra.cluster import Cluster

    name, address = fresh_name(), urlsplit(server_url)
    cluster = Cluster([address.hostname], port=address.port)
    try:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        cluster.connect().execute(f"CREATE KEYSPACE {name} WITH replication = {replication}", timeout=60)
    finally:
        cluster.shutdown()
    return with_path(server_url, name)
