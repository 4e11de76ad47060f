"""CreateTable with `upstream`: a table of a connector's source is observed at once, by the connector alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest

from headwater.schemas.rpc import common_pb2, table_pb2
from headwater.schemas.rpc.services import Stub
from tests.support.fixtures.bridged_lakes import SourceLake
from tests.support.fixtures.grpc_rig import SCHEMA
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port

CODES = grpc.StatusCode


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FeedServer, Any]]:
    """A server whose own catalog `lake` is the source of its catalog `copy`. Nothing else reconciles."""
    port = free_port()
    settings = {"connector_hosts": "127.0.0.1", "grpc_port": str(port), "reconcile_slots": "0"}
    store = f"sqlite:///{tmp_path_factory.mktemp('upstream')}/source.db"
    with feed_server(store, settings=settings) as server, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        with httpx.Client(base_url=f"{server.url}/manage/v1/default", timeout=60) as http:
            assert http.post("/catalogs", json={"name": "copy"}).status_code == 201
            for name, source, uri, more in (
                ("rest", "iceberg-rest", "/iceberg", {"properties": {"warehouse": "lake"}}),
                ("logged", "nessie", "/api/v2", {}),
                ("away", "iceberg-rest", ":1/none", {"properties": {"warehouse": "lake"}}),
                ("asleep", "iceberg-rest", "/iceberg", {"paused": True}),
            ):
                address = server.url if uri.startswith("/") else "http://127.0.0.1"
                body = {"name": name, "source": source, "uri": f"{address}{uri}", "roots": ["file:///"], "catalog": "copy"}
                made = http.post("/connectors", json=body | {"path": [name]} | more)
                assert made.status_code == 201, made.text
        yield server, Stub(channel, "TableService")


@pytest.fixture
def source(served: tuple[FeedServer, Any]) -> Iterator[SourceLake]:
    lake = SourceLake(served[0].url)
    yield lake
    lake.close()


def observe(tables: Any, *path: str, upstream: str, **more: Any) -> Any:
    name = common_pb2.Name(catalog=more.pop("catalog", "copy"), path=path)
    return tables.CreateTable(table_pb2.CreateTableRequest(name=name, upstream=upstream, **more))


def code_of(tables: Any, *path: str, **more: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refused:
        observe(tables, *path, **more)
    code: grpc.StatusCode = refused.value.code()
    return code


def commits(server: FeedServer, connector: str) -> list[str]:
    pointer = next(
        one["name"]
        for one in httpx.get(f"{server.feed}/pointers", timeout=30).json()["pointers"]
        if one["name"] == "cat/2/heads/main"
    )
    changes = httpx.get(f"{server.feed}/changes", params={"pointer": pointer}, timeout=30).json()["changes"]
    return [one["message"] for one in changes if one["author"] == f"connector:{connector}"]


@pytest.mark.parametrize("connector", ["rest", "logged"])
def test_a_table_of_a_source_is_there_at_once_and_again_as_it_is_now(
    served: tuple[FeedServer, Any], source: SourceLake, connector: str
) -> None:
    server, tables = served
    source.namespace(f"up_{connector}")
    source.create(f"up_{connector}", "t")
    first = observe(tables, connector, f"up_{connector}", "t", upstream=connector)
    assert list(first.table.name.path) == [connector, f"up_{connector}", "t"] and first.meta.changed
    assert first.table.metadata_location and first.meta.pointer == "cat/2/heads/main"
    before = commits(server, connector)
    again = observe(tables, connector, f"up_{connector}", "t", upstream=connector)
    assert not again.meta.changed and commits(server, connector) == before
    source.update(f"up_{connector}", "t", "newer")
    newer = observe(tables, connector, f"up_{connector}", "t", upstream=connector)
    assert newer.meta.changed and newer.table.metadata_location != first.table.metadata_location
    assert newer.table.resource_id == first.table.resource_id


def test_a_table_that_cannot_be_observed_is_a_typed_refusal_and_writes_nothing(
    served: tuple[FeedServer, Any], source: SourceLake
) -> None:
    server, tables = served
    source.namespace("refused")
    source.create("refused", "t")
    before = {name: commits(server, name) for name in ("rest", "away", "asleep")}
    assert code_of(tables, "rest", "refused", "absent", upstream="rest") is CODES.NOT_FOUND
    assert code_of(tables, "rest", "refused", "t", upstream="absent") is CODES.NOT_FOUND
    assert code_of(tables, "beside", "refused", "t", upstream="rest") is CODES.INVALID_ARGUMENT
    assert code_of(tables, "rest", "refused", "t", upstream="rest", catalog="lake") is CODES.INVALID_ARGUMENT
    assert code_of(tables, "rest", "refused", "t", upstream="rest", schema=SCHEMA) is CODES.INVALID_ARGUMENT
    assert code_of(tables, "asleep", "refused", "t", upstream="asleep") is CODES.FAILED_PRECONDITION
    assert code_of(tables, "away", "refused", "t", upstream="away") is CODES.UNAVAILABLE
    assert {name: commits(server, name) for name in before} == before
