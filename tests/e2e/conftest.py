"""One feed server on SQLite for all tests that need no server of their own; each test works on a branch of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest

import headwater
from headwater.embedded import CatalogHandle, ReferenceHandle
from headwater.schemas.entry_ids import EMPTY
from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake
from tests.support.servers.feed_server import FeedServer, feed_server


@pytest.fixture(scope="session")
def shared_feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    folder = tmp_path_factory.mktemp("feed")
    settings = {"request_bytes_max": 1_000_000, "stream_heartbeat_seconds": 2, "feed_cache_bytes": 4_000_000}
    with feed_server(f"sqlite:///{folder}/lake.db", settings=settings) as server:
        yield server


@pytest.fixture(scope="session")
def shared_lake(shared_feed: FeedServer) -> Iterator[CatalogHandle]:
    """The same store, opened in this process too: a second writer beside the server."""
    with headwater.open(shared_feed.store_url) as engine:
        lake = engine.realm().catalog("lake")
        lake.create_tag("empty", EMPTY.hex())
        yield lake


class FeedBranch(NamedTuple):
    """A branch of the test's own and a client of the server."""

    name: str
    pointer: str
    handle: ReferenceHandle
    http: httpx.Client
    server: FeedServer

    def commit(self, *keys: str, **fields: Any) -> dict[str, Any]:
        """One put for each key, over HTTP."""
        operations = [put(key) for key in keys]
        headers = fields.pop("http_headers", {})
        body = {"catalog": "lake", "branch": self.name, "operations": operations, **fields}
        answer = self.http.post("/commit", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def changes(self, after: object = "earliest", **parameters: Any) -> dict[str, Any]:
        answer = self.http.get("/changes", params={"pointer": self.pointer, "after": after, **parameters})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def refused(self, **parameters: Any) -> httpx.Response:
        return self.http.get("/changes", params={"pointer": self.pointer, **parameters})


def put(key: str, **content: Any) -> dict[str, Any]:
    """`a.b` is a table b in the namespace a, which need not exist if it is put along."""
    path = key.split(".")
    if len(path) == 1:
        return {"op": "put", "key": path, "type": "NAMESPACE", "content": {}}
    return {"op": "put", "key": path, "type": "ICEBERG_TABLE", "content": {"metadata_location": f"s3://{key}", **content}}


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
