"""No answer is larger than a message may be: pages are cut, what was done is told by its `meta`, and all else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from headwater.schemas.rpc import common_pb2, namespace_pb2, table_pb2
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, detail_of, grpc_rig, method_named

MESSAGE_BYTES = 100_000
NAMESPACES = 9
LIST, CREATE = method_named("NamespaceService/ListNamespaces"), method_named("NamespaceService/CreateNamespace")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-sizes"), grpc_message_bytes_max=MESSAGE_BYTES) as made:
        for number in range(NAMESPACES):
            _put(made, f"n{number}", "x" * (30_000 if number % 2 else 10)).raise_for_status()
        yield made


@pytest.fixture(scope="module")
def owner(port: GrpcRig) -> tuple[str, str]:
    return bearer(port.rig.token("alpha"))


def _put(port: GrpcRig, level: str, much: str) -> Any:
    """Over HTTP, which takes more."""
    operation = {"op": "put", "key": [level], "type": "NAMESPACE", "content": {"properties": {"much": much}}}
    body = {"catalog": "lake", "operations": [operation]}
    return port.rig.ask("POST", "/feed/v1/alpha/commit", token=port.rig.token("alpha"), json=body)


@pytest.mark.parametrize("size", [0, NAMESPACES, 3, 1])
def test_a_page_has_as_many_entries_as_fit_and_the_next_one_continues_after_them(
    port: GrpcRig, owner: tuple[str, str], size: int
) -> None:
    found, token, pages = list[str](), "", 0
    while not pages or token:
        request = namespace_pb2.ListNamespacesRequest(catalog="lake", page=common_pb2.PageRequest(size=size, token=token))
        answer = port.call(LIST, request, owner)
        assert answer.ByteSize() <= MESSAGE_BYTES
        found += [one.name.path[0] for one in answer.namespaces]
        token, pages = answer.page.next_token, pages + 1
    assert found == [f"n{number}" for number in range(NAMESPACES)]
    assert pages >= 2


def test_an_entry_that_is_too_large_by_itself_is_a_typed_refusal(port: GrpcRig, owner: tuple[str, str]) -> None:
    """Of properties that take no more than a value may, and more than this server's messages."""
    key = "large"
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    made = port.rig.ask(
        "POST",
        "/iceberg/v1/lake/namespaces/n0/tables",
        token=port.rig.token("alpha"),
        json={"name": key, "schema": schema, "properties": {"much": "x" * 2 * MESSAGE_BYTES}},
    )
    made.raise_for_status()
    table = common_pb2.ContentRef(name=common_pb2.Name(catalog="lake", path=["n0", key]))
    with pytest.raises(grpc.RpcError) as refused:
        port.call(method_named("TableService/GetTable"), table_pb2.GetTableRequest(table=table), owner)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert detail_of(refused.value, error_details_pb2.ErrorInfo).reason == "REQUEST_TOO_LARGE"


def test_a_mutation_with_an_oversized_answer_is_done_and_reports_it(port: GrpcRig, owner: tuple[str, str]) -> None:
    name = common_pb2.Name(catalog="lake", path=["n0", "wide"])
    request = table_pb2.CreateTableRequest(name=name, schema=SCHEMA, idempotency=common_pb2.Idempotency(key="wide-1"))
    request.properties["much"] = "x" * (MESSAGE_BYTES - request.ByteSize() - 50)  # the answer has ids and places beside it
    assert request.ByteSize() < MESSAGE_BYTES
    answers = [port.call(method_named("TableService/CreateTable"), request, owner) for _ in range(2)]
    assert [one.HasField("table") for one in answers] == [False, False]
    assert [one.meta.replayed for one in answers] == [False, True]
    assert answers[0].meta.entry_id == answers[1].meta.entry_id != ""
