"""One feed server on SQLite for all tests that need no server of their own; each test works on a branch of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

import headwater
from headwater.embedded import CatalogHandle
from headwater.schemas.entry_ids import EMPTY
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port


@pytest.fixture(scope="session")
def shared_feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    folder = tmp_path_factory.mktemp("feed")
    settings = {"request_bytes_max": 1_000_000, "stream_heartbeat_seconds": 2, "feed_cache_bytes": 4_000_000}
    settings["grpc_port"] = free_port()
    with feed_server(f"sqlite:///{folder}/lake.db", settings=settings) as server:
        yield server


@pytest.fixture(scope="session")
def shared_lake(shared_feed: FeedServer) -> Iterator[CatalogHandle]:
    """The same store, opened in this process too: a second writer beside the server."""
    with headwater.open(shared_feed.store_url) as engine:
        lake = engine.realm().catalog("lake")
        lake.create_tag("empty", EMPTY.hex())
        yield lake


_numbers = itertools.count(1)


@pytest.fixture
def new_branch(shared_feed: FeedServer, shared_lake: CatalogHandle) -> Iterator[Callable[[], FeedBranch]]:
    with shared_feed.client() as http:

        def make() -> FeedBranch:
            name = f"b{next(_numbers)}"
            handle = shared_lake.create_branch(name, "empty")
            return FeedBranch(name, handle.pointer, handle, http, shared_feed)

        yield make


@pytest.fixture
def branch(new_branch: Callable[[], FeedBranch]) -> FeedBranch:
    return new_branch()


@pytest.fixture
def lake(branch: FeedBranch) -> Iterator[IcebergLake]:
    """The same branch, as Iceberg's clients see it."""
    with iceberg_lake(branch.server.url, f"lake@{branch.name}") as served:
        yield served
