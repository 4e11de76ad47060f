"""Connectors over gRPC: the records and jobs of the management API, with the same refusals."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from headwater.schemas.rpc import common_pb2, connector_pb2
from headwater.schemas.rpc.connector_pb2 import Connector
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-connectors")) as made:
        yield made


def connector(**fields: object) -> Connector:
    known = {
        "name": "sales",
        "source": "nessie",
        "uri": "https://nessie.example.com/api/v2",
        "roots": ["s3://sales/"],
        "catalog": "lake",
        "path": ["sales"],
        "status": connector_pb2.CONNECTOR_STATUS_PAUSED,
    }
    return Connector(**{**known, **fields})  # type: ignore[arg-type]


def test_a_connector_lives_by_either_way(port: GrpcRig) -> None:
    owner, stub = bearer(port.rig.token("alpha")), port.stub("ConnectorService")
    request = connector_pb2.CreateConnectorRequest(connector=connector(), idempotency=common_pb2.Idempotency(key="make"))
    written = stub.CreateConnector(request, metadata=[owner])
    again = stub.CreateConnector(request, metadata=[owner])
    assert again.meta.replayed and again.meta.seq == written.meta.seq
    by_http = port.rig.get("/manage/v1/alpha/connectors/sales", port.rig.token("alpha")).json()
    assert (by_http["status"], by_http["version"]) == ("PAUSED", written.connector.version)
    found = stub.GetConnector(connector_pb2.GetConnectorRequest(name="sales"), metadata=[owner]).connector
    assert (found.interval_seconds, found.branch, found.status) == (30, "main", connector_pb2.CONNECTOR_STATUS_PAUSED)
    listed = stub.ListConnectors(connector_pb2.ListConnectorsRequest(), metadata=[owner])
    assert [one.name for one in listed.connectors] == ["sales"] and not listed.page.next_token

    def update(*paths: str, version: str | None = None, **fields: object) -> Connector:
        asked = connector_pb2.UpdateConnectorRequest(
            name="sales",
            update_mask=FieldMask(paths=paths),
            connector=Connector(**fields),  # type: ignore[arg-type]
        )
        if version is not None:
            asked.precondition.expected_version = version
        changed: Connector = stub.UpdateConnector(asked, metadata=[owner]).connector
        return changed

    changed = update("interval_seconds", "description", interval_seconds=7, version=found.version)
    assert (changed.interval_seconds, changed.description, list(changed.path)) == (7, "", ["sales"])
    with pytest.raises(grpc.RpcError) as stale:
        update("description", version=found.version)
    assert stale.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(grpc.RpcError) as unknown:
        update("uri", uri="https://elsewhere.example.com")
    assert unknown.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    with pytest.raises(grpc.RpcError) as paused:
        stub.TriggerReconcile(connector_pb2.TriggerReconcileRequest(connector="sales"), metadata=[owner])
    assert paused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    update("status", status=connector_pb2.CONNECTOR_STATUS_ACTIVE)
    trigger = connector_pb2.TriggerReconcileRequest(connector="sales", full_rescan=True)
    job = stub.TriggerReconcile(trigger, metadata=[owner]).job
    assert (job.state, job.full_rescan) == ("QUEUED", True)
    jobs = stub.ListReconcileJobs(connector_pb2.ListReconcileJobsRequest(connector="sales"), metadata=[owner]).jobs
    assert [one.id for one in jobs] == [job.id]
    cancelled = stub.CancelReconcileJob(
        connector_pb2.CancelReconcileJobRequest(connector="sales", job=job.id), metadata=[owner]
    ).job
    assert cancelled.state == "CANCELLED"
    asked = connector_pb2.GetReconcileJobRequest(connector="sales", job=job.id)
    assert stub.GetReconcileJob(asked, metadata=[owner]).job.state == "CANCELLED"
    scoped = connector_pb2.TriggerReconcileRequest(connector="sales", scope=[connector_pb2.ScopePath(path=["sales", "shop"])])
    with pytest.raises(grpc.RpcError) as in_order:
        stub.TriggerReconcile(scoped, metadata=[owner])
    assert in_order.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "takes no scope" in in_order.value.details()
    polled = connector(name="polled", source="iceberg-rest", path=["polled"], status=connector_pb2.CONNECTOR_STATUS_ACTIVE)
    stub.CreateConnector(connector_pb2.CreateConnectorRequest(connector=polled), metadata=[owner])
    paths = [connector_pb2.ScopePath(path=["polled", *path]) for path in (["b"], ["a", "t"], ["a"])]
    scoped = connector_pb2.TriggerReconcileRequest(connector="polled", scope=paths)
    assert [list(one.path) for one in stub.TriggerReconcile(scoped, metadata=[owner]).job.scope] == [
        ["polled", "a"],
        ["polled", "b"],
    ]
    scoped.scope[0].path[:] = ["sales", "b"]
    with pytest.raises(grpc.RpcError) as beyond:
        stub.TriggerReconcile(scoped, metadata=[owner])
    assert beyond.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "not below" in beyond.value.details()
    stub.DeleteConnector(connector_pb2.DeleteConnectorRequest(name="polled"), metadata=[owner])
    assert stub.DeleteConnector(connector_pb2.DeleteConnectorRequest(name="sales"), metadata=[owner]).meta.changed
    with pytest.raises(grpc.RpcError) as gone:
        stub.GetConnector(connector_pb2.GetConnectorRequest(name="sales"), metadata=[owner])
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"source": "ftp"}, "source"),
        ({"uri": "http://127.0.0.1:1/api/v2"}, "not a public address"),
        ({"uri": "http://[::ffff:169.254.169.254]/api/v2"}, "not a public address"),
        ({"uri": "http://user:secret@example.com/"}, "uri"),
        ({"secret_ref": "../other/secret"}, "secret"),
        ({"roots": []}, "roots"),
        ({"properties": {"nothing": "x"}}, "nothing"),
        ({"interval_seconds": -1}, "interval"),
    ],
)
def test_bad_connectors_are_refused_and_nothing_is_written(port: GrpcRig, fields: dict[str, object], field: str) -> None:
    owner, stub = bearer(port.rig.token("alpha")), port.stub("ConnectorService")
    with pytest.raises(grpc.RpcError) as refused:
        stub.CreateConnector(
            connector_pb2.CreateConnectorRequest(connector=connector(**{"name": "bad", **fields})), metadata=[owner]
        )
    expected = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}  # the latter for private addresses
    assert refused.value.code() in expected, refused.value.details()
    assert field in refused.value.details()
    assert not stub.ListConnectors(connector_pb2.ListConnectorsRequest(), metadata=[owner]).connectors
