"""Namespaces that move with what is below them, and updates that expect a version of the branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from headwater.producer.access.rights import Right
from headwater.schemas.rpc import common_pb2, namespace_pb2, table_pb2
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-moves")) as made:
        yield made


def _name(*path: str) -> common_pb2.Name:
    return common_pb2.Name(catalog="lake", path=path)


def _move(port: GrpcRig, source: tuple[str, ...], target: tuple[str, ...], token: str = "", **fields: Any) -> Any:
    request = namespace_pb2.UpdateNamespaceRequest(
        target=common_pb2.ContentRef(name=_name(*source)),
        namespace=namespace_pb2.Namespace(name=_name(*target)),
        update_mask=FieldMask(paths=["name"]),
        **fields,
    )
    return port.stub("NamespaceService").UpdateNamespace(request, metadata=[bearer(token or port.rig.token("alpha"))])


def _filled(port: GrpcRig, name: str) -> Any:
    """A namespace with a namespace and a table below; the table's id."""
    port.rig.commit("alpha", (name,), (name, "inner")).raise_for_status()
    request = table_pb2.CreateTableRequest(name=_name(name, "inner", "t"), schema=SCHEMA)
    made = port.stub("TableService").CreateTable(request, metadata=[bearer(port.rig.token("alpha"))])
    return made.table.resource_id


def _keys(port: GrpcRig) -> set[tuple[str, ...]]:
    token = port.rig.token("alpha")
    page = port.rig.get("/feed/v1/alpha/snapshot?pointer=cat/1/heads/main&limit=1000", token).raise_for_status().json()
    return {tuple(entry["key"]) for entry in page["entries"]}


def test_a_namespace_moves_with_all_that_is_below_it_in_one_commit(port: GrpcRig) -> None:
    id = _filled(port, "old")
    before = _keys(port)
    moved = _move(port, ("old",), ("new",))
    assert list(moved.namespace.name.path) == ["new"] and moved.meta.changed
    assert _keys(port) == {("new", *key[1:]) if key[0] == "old" else key for key in before}
    request = table_pb2.GetTableRequest(table=common_pb2.ContentRef(id=id))
    found = port.stub("TableService").GetTable(request, metadata=[bearer(port.rig.token("alpha"))])
    assert list(found.table.name.path) == ["new", "inner", "t"], "the id stays, and leads to the new place"
    change = port.rig.get(f"/feed/v1/alpha/commits/{moved.meta.entry_id}", port.rig.token("alpha")).json()
    assert {(one["op"], *one["key"]) for one in change["operations"]} == {
        ("rename", "new"),
        ("rename", "new", "inner"),
        ("rename", "new", "inner", "t"),
    }


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (("fixed",), grpc.StatusCode.INVALID_ARGUMENT),
        (("fixed", "inner", "deeper"), grpc.StatusCode.INVALID_ARGUMENT),
        (("nowhere", "fixed"), grpc.StatusCode.NOT_FOUND),
        (("taken",), grpc.StatusCode.ALREADY_EXISTS),
    ],
)
def test_a_move_that_cannot_be_meant_changes_nothing(port: GrpcRig, target: tuple[str, ...], code: grpc.StatusCode) -> None:
    if ("fixed",) not in _keys(port):
        _filled(port, "fixed")
        port.rig.commit("alpha", ("taken",)).raise_for_status()
    before = _keys(port)
    with pytest.raises(grpc.RpcError) as refused:
        _move(port, ("fixed",), target)
    assert refused.value.code() is code
    assert _keys(port) == before


def test_a_move_needs_the_rights_over_both_places(port: GrpcRig) -> None:
    _filled(port, "guarded")
    drop, write, create = Right.NAMESPACE_DROP, Right.COMMIT_WRITE, Right.NAMESPACE_CREATE
    token = port.rig.principal("alpha", "mover", drop, write, path=("guarded",))
    with pytest.raises(grpc.RpcError) as refused:
        _move(port, ("guarded",), ("elsewhere",), token)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    for right in (drop, write, create):
        port.rig.grant("alpha", "mover", right)
    assert _move(port, ("guarded",), ("elsewhere",), port.rig.token("alpha", "mover")).meta.changed


def test_a_version_of_the_branch_that_is_over_refuses_every_kind_of_update(port: GrpcRig) -> None:
    id = _filled(port, "versioned")
    stale = common_pb2.Precondition(expected_version="00" * 32)
    token = bearer(port.rig.token("alpha"))
    ref = common_pb2.ContentRef(id=id)
    before = _keys(port)
    tables = port.stub("TableService")
    update = table_pb2.UpdateTableRequest(
        target=ref,
        table=table_pb2.Table(properties={"a": "b"}),
        update_mask=FieldMask(paths=["properties"]),
        precondition=stale,
    )
    calls = [
        lambda: _move(port, ("versioned",), ("moved",), precondition=stale),
        lambda: tables.UpdateTable(update, metadata=[token]),
        lambda: tables.DeleteTable(table_pb2.DeleteTableRequest(table=ref, precondition=stale), metadata=[token]),
    ]
    for call in calls:
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert _keys(port) == before
    made = port.rig.commit("alpha", ("newest",)).raise_for_status().json()
    current = common_pb2.Precondition(expected_version=made["commit_id"])
    tables.DeleteTable(table_pb2.DeleteTableRequest(table=ref, precondition=current), metadata=[token])
    assert ("versioned", "inner", "t") not in _keys(port)
