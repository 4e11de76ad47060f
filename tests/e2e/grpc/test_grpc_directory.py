"""Ids over gRPC: names to ids and back on any reference, also while the directory of the catalog is being read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from headwater.schemas.rpc import common_pb2, directory_pb2, feed_pb2, namespace_pb2, reference_pb2
from headwater.service.directory.catalog_directory import CatalogDirectory
from headwater.service.directory.directories import Directories
from headwater.service.grpc import runtime
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig

WAIT_SECONDS = 60


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrpcRig]:
    monkeypatch.setattr(runtime, "Directories", partial(Directories, ready_seconds=0.05))
    with grpc_rig(tmp_path) as made:
        made.rig.commit("alpha", ("db",), ("db", "inner")).raise_for_status()
        yield made


def _resolved(port: GrpcRig, *path: str, reference: str = "") -> common_pb2.ResourceId:
    request = directory_pb2.ResolveNamespaceRequest(name=common_pb2.Name(catalog="lake", path=path), reference=reference)
    found: common_pb2.ResourceId = (
        port.stub("DirectoryService").ResolveNamespace(request, metadata=[bearer(port.rig.token("alpha"))]).resource_id
    )
    return found


def _looked_up(port: GrpcRig, id: common_pb2.ResourceId, reference: str = "") -> Any:
    request = directory_pb2.LookupNamespaceRequest(resource_id=id, reference=reference)
    return port.stub("DirectoryService").LookupNamespace(request, metadata=[bearer(port.rig.token("alpha"))])


def _rename(port: GrpcRig, from_key: list[str], key: list[str]) -> str:
    operation = feed_pb2.Operation(op="rename", key=key, from_key=from_key)
    request = feed_pb2.CommitRequest(catalog="lake", operations=[operation])
    return str(port.stub("FeedService").Commit(request, metadata=[bearer(port.rig.token("alpha"))]).commit_id)


def test_a_call_by_id_must_be_retried_while_the_directory_is_loading(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> None:
    may_read, cover = threading.Event(), CatalogDirectory.cover

    def slow(self: CatalogDirectory, at: Any) -> None:
        assert may_read.wait(WAIT_SECONDS)
        cover(self, at)

    monkeypatch.setattr(CatalogDirectory, "cover", slow)
    id = _resolved(port, "db", "inner")
    with pytest.raises(grpc.RpcError) as refused:
        _looked_up(port, id)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    status = Status.FromString(dict(refused.value.trailing_metadata())["grpc-status-details-bin"])
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    assert _resolved(port, "db", "inner") == id, "names always work"
    may_read.set()
    for _ in range(WAIT_SECONDS * 20):
        try:
            assert list(_looked_up(port, id).name.path) == ["db", "inner"]
            return
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE
    pytest.fail("the directory was never ready")


def test_an_id_is_looked_up_at_any_reference_and_commit(port: GrpcRig) -> None:
    id, owner = _resolved(port, "db", "inner"), bearer(port.rig.token("alpha"))
    create = reference_pb2.CreateReferenceRequest(catalog="lake", name="dev", type="branch")
    port.stub("ReferenceService").CreateReference(create, metadata=[owner])
    moved = _rename(port, ["db", "inner"], ["moved"])
    assert list(_looked_up(port, id).name.path) == ["moved"]
    assert list(_looked_up(port, id, moved).name.path) == ["moved"]
    assert list(_looked_up(port, id, "dev").name.path) == ["db", "inner"]
    assert list(_looked_up(port, id, f"{moved}~1").name.path) == ["db", "inner"]
    assert _resolved(port, "moved") == id


def test_a_name_is_looked_up_as_it_is_sent_and_then_in_canonical_form(port: GrpcRig) -> None:
    """Other APIs create names as they are sent, so both forms may stand side by side."""
    owner = bearer(port.rig.token("alpha"))
    namespaces = port.stub("NamespaceService")
    decomposed, composed = " cafe\u0301  bar", "caf\u00e9 bar"

    def name(level: str) -> common_pb2.Name:
        return common_pb2.Name(catalog="lake", path=[level])

    def found(level: str) -> list[str]:
        request = namespace_pb2.GetNamespaceRequest(namespace=common_pb2.ContentRef(name=name(level)))
        return list(namespaces.GetNamespace(request, metadata=[owner]).namespace.name.path)

    created = namespaces.CreateNamespace(namespace_pb2.CreateNamespaceRequest(name=name(decomposed)), metadata=[owner])
    assert list(created.namespace.name.path) == [composed]
    assert found(composed) == found(decomposed) == [composed]
    assert _resolved(port, decomposed) == created.namespace.resource_id
    port.rig.commit("alpha", (decomposed,)).raise_for_status()
    assert (found(composed), found(decomposed)) == ([composed], [decomposed])
    assert _resolved(port, decomposed) != created.namespace.resource_id
    nobody = bearer(port.rig.principal("alpha", "nobody"))
    for level in (decomposed, " absent"):
        request = namespace_pb2.GetNamespaceRequest(namespace=common_pb2.ContentRef(name=name(level)))
        with pytest.raises(grpc.RpcError) as refused:
            namespaces.GetNamespace(request, metadata=[nobody])
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(grpc.RpcError) as refused:
        found(" absent")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
