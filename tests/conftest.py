"""Fixtures that every test may ask for: real servers, one of each per test run, started when first asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support.running.run_times import RunTimes
from tests.support.running.scheduling import FileScheduling, order_for_workers
from tests.support.running.test_run import begin_run, end_run
from tests.support.running.told_lines import ToldLines
from tests.support.servers.servers import (
    FreshUrl,
    create_cassandra_keyspace,
    create_postgres_database,
    fetch_jars_meanwhile,
    shared_server_url,
)
from tests.support.servers.trust import share_trust

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more of the machine than of the code. `make test` tries the same examples every time, so that a
# red run can be repeated; `make soak` tries new ones.
hypothesis.settings.register_profile("test", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile("soak" if os.environ.get("HEADWATER_SOAK") else "test")


def pytest_configure(config: pytest.Config) -> None:
    begin_run()
    share_trust()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunTimes())
        config.pluginmanager.register(ToldLines())


def pytest_unconfigure(config: pytest.Config) -> None:
    end_run()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order_for_workers(items, is_worker=hasattr(config, "workerinput"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """On a machine without the jars, they arrive while the first tests run."""
    runs_here = not session.config.option.collectonly and session.config.getoption("dist", "no") == "no"
    if runs_here and len({item.path for item in session.items}) > 1:
        fetch_jars_meanwhile()


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The maintenance database of the shared PostgreSQL, as superuser; the password is in the URL."""
    with shared_server_url("postgres") as url:
        yield url


@pytest.fixture(scope="session")
def fresh_postgres(postgres_server_url: str) -> FreshUrl:
    """`fresh_postgres()` makes an empty database in the shared server and gives its URL."""
    return lambda: create_postgres_database(postgres_server_url)


@pytest.fixture(scope="session")
def postgres_url(fresh_postgres: FreshUrl) -> str:
    """One database for the whole run; tests that need an empty one call `fresh_postgres`."""
    return fresh_postgres()


@pytest.fixture(scope="session")
def cassandra_server_url() -> Iterator[str]:
    """The shared Cassandra; the keyspace in this URL does not exist."""
    with shared_server_url("cassandra") as url:
        yield url


@pytest.fixture(scope="session")
def fresh_cassandra(cassandra_server_url: str) -> FreshUrl:
    """`fresh_cassandra()` makes an empty keyspace in the shared server and gives its URL."""
    return lambda: create_cassandra_keyspace(cassandra_server_url)


@pytest.fixture(scope="session")
def cassandra_url(fresh_cassandra: FreshUrl) -> str:
    """One keyspace for the whole run, `cassandra://127.0.0.1:PORT/keyspace`; others by `fresh_cassandra`."""
    return fresh_cassandra()


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """`127.0.0.1:PORT` of the shared Kafka; it creates no topic by itself, so name and create your own."""
    with shared_server_url("kafka") as url:
        yield url


@pytest.fixture(scope="session")
def registry_url() -> Iterator[str]:
    """The Confluent-compatible API of the shared schema registry; name your own subjects."""
    with shared_server_url("registry") as url:
        yield url


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """The one session of this process, with two cores; it ends with the process."""
    from tests.support.servers.spark_session import shared_spark

    # PySpark leaves sockets to its JVM for the garbage collector, whenever that comes.
    request.config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
    return shared_spark()
