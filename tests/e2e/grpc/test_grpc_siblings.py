"""A call over gRPC and its sibling over HTTP: equal Changes and equal errors; and a line of the access log for each call."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from headwater.schemas.rpc import feed_pb2
from headwater.schemas.rpc.services import all_methods
from headwater.service.observability.logs import ACCESS
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig

CONTENT = '{"properties":{"made-by":"test"}}'
OF_ONE_COMMIT = {"seq", "entry_id", "commit_id", "parent_id", "head_before", "time", "objects_added", "objects_released"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-siblings"), log_requests=True) as made:
        yield made


def _commit(port: GrpcRig, key: str, *metadata: tuple[str, str]) -> Any:
    operation = feed_pb2.Operation(op="put", key=[key], type="NAMESPACE", content=CONTENT)
    request = feed_pb2.CommitRequest(catalog="lake", operations=[operation], message="make namespaces")
    return port.stub("FeedService").Commit(request, metadata=[bearer(port.rig.token("alpha")), *metadata])


def _shown(port: GrpcRig, id: str) -> dict[str, Any]:
    """As the feed tells it, less what no two commits share."""
    found = port.rig.get(f"/feed/v1/alpha/commits/{id}", port.rig.token("alpha"))
    change: dict[str, Any] = found.raise_for_status().json()
    for operation in change["operations"]:
        del operation["key"], operation["content_id"]
    return {name: value for name, value in change.items() if name not in OF_ONE_COMMIT | {"request_id"}}


def test_a_commit_over_http_or_grpc_is_an_equal_change(port: GrpcRig) -> None:
    headers = {"x-correlation-id": "same"}
    body = {
        "catalog": "lake",
        "operations": [{"op": "put", "key": ["http"], "type": "NAMESPACE", "content": {"properties": {"made-by": "test"}}}],
        "message": "make namespaces",
    }
    token = port.rig.token("alpha")
    by_http = port.rig.ask("POST", "/feed/v1/alpha/commit", token=token, json=body, headers=headers).raise_for_status().json()
    by_grpc = _commit(port, "grpc", ("x-correlation-id", "same"))
    assert _shown(port, by_grpc.commit_id) == _shown(port, by_http["commit_id"])
    assert by_grpc.meta.seq == by_http["seq"] + 1
    assert "same" in by_grpc.change.headers.values()


def test_a_refusal_has_the_same_code_and_field_over_http_and_grpc(port: GrpcRig) -> None:
    missing = port.rig.commit("alpha", ("nowhere", "inner"))
    operation = feed_pb2.Operation(op="put", key=["nowhere", "inner"], type="NAMESPACE", content=CONTENT)
    with pytest.raises(grpc.RpcError) as refused:
        port.stub("FeedService").Commit(
            feed_pb2.CommitRequest(catalog="lake", operations=[operation]), metadata=[bearer(port.rig.token("alpha"))]
        )
    status = Status.FromString(dict(refused.value.trailing_metadata())["grpc-status-details-bin"])
    info, failed = error_details_pb2.ErrorInfo(), error_details_pb2.PreconditionFailure()
    assert any(detail.Unpack(info) for detail in status.details)
    assert any(detail.Unpack(failed) for detail in status.details)
    assert info.reason == missing.json()["code"]
    conflicts = missing.json()["facts"]["conflicts"]
    assert [one.type for one in failed.violations] == [one["kind"] for one in conflicts]


def test_every_call_and_every_stream_is_a_line_of_the_access_log(port: GrpcRig, caplog: pytest.LogCaptureFixture) -> None:
    _commit(port, "logged")
    method = next(one for one in all_methods() if one.name.endswith("FeedService/GetSnapshot"))
    request = feed_pb2.GetSnapshotRequest(source=feed_pb2.FeedSource(catalog="lake"))
    owner = bearer(port.rig.token("alpha"))
    ACCESS.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger=ACCESS.name):
            _commit(port, "logged-too", ("x-correlation-id", "in-log"), ("x-plan-id", "plan-of-log"))
            stream = port.stub("FeedService").GetSnapshot(request, metadata=[owner, ("x-correlation-id", "of-stream")])
            assert list(stream)
            port.status(method, request)
    finally:
        ACCESS.removeHandler(caplog.handler)
    lines = {(one.__dict__["route"].rpartition("/")[2], one.__dict__["status"]) for one in caplog.records if one.msg == "call"}
    assert lines == {("Commit", "OK"), ("GetSnapshot", "OK"), ("GetSnapshot", "UNAUTHENTICATED")}
    assert {"plan-of-log", None} == {one.__dict__["plan_id"] for one in caplog.records if one.msg == "call"}
    assert {"in-log", "of-stream"} <= {one.__dict__["correlation_id"] for one in caplog.records if one.msg == "call"}
