"""Every mutation that both APIs have, by HTTP in one realm and by gRPC in another: equal Changes, errors and rights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from headwater.producer.access.rights import Right
from headwater.schemas import errors
from headwater.schemas.rpc import (
    catalog_pb2,
    common_pb2,
    feed_pb2,
    namespace_pb2,
    reference_pb2,
    snapshot_pb2,
    statistics_pb2,
    table_pb2,
    view_pb2,
)
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.errors.translations import error_kinds
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, detail_of, grpc_rig

HTTP, GRPC = "alpha", "beta"
ELSEWHERE = {
    "CreateConnector": "test_grpc_connectors",
    "UpdateConnector": "test_grpc_connectors",
    "DeleteConnector": "test_grpc_connectors",
    "TriggerReconcile": "test_grpc_connectors",
    "CancelReconcileJob": "test_grpc_connectors",
    "PutColumnStats": "one publication, as PutTableStats",
    "PutFileColumnStats": "one publication, as PutTableStats",
    "CreateTenant": "a realm has no log of its own in the realm that asks",
    "UpdateTenant": "as CreateTenant",
    "DeleteTenant": "as CreateTenant",
    "CreateSubscription": "a row that belongs to its caller: no log, and no right that another caller could lack",
    "DeleteSubscription": "as CreateSubscription",
    "Acknowledge": "as CreateSubscription",
    "Rewind": "as CreateSubscription",
}
A_RESOURCE_OF_ITS_OWN = {"DeleteSnapshot": ("400", "404")}
"""What is one of the updates of a table over HTTP: a snapshot that is not there is a bad update, and over gRPC not there."""
TABLE, NAMESPACE = "/iceberg/v1/lake/namespaces/db/tables", "/iceberg/v1/lake/namespaces"
MANAGE, LAKE = "/manage/v1/alpha", "/manage/v1/alpha/catalogs/lake"
SNAPSHOT = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": 2_000_000_000_000,
    "manifest-list": "file:///nowhere/list.avro",
    "summary": {"operation": "append"},
    "schema-id": 0,
}
VIEW_VERSION = {
    "version-id": 1,
    "timestamp-ms": 2_000_000_000_000,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": ["db"],
}
SET = "set-properties"


class Step(NamedTuple):
    method: str
    """Of gRPC; of HTTP are the verb, the path and the body."""
    message: Message | Callable[[Commits], Message]
    verb: str
    path: str
    body: Any = None


class Commits:
    """Of one realm: what earlier steps committed, by the name of the branch."""

    def __init__(self, port: GrpcRig, realm: str) -> None:
        self._port, self._realm = port, realm

    def head(self, branch: str) -> str:
        path = f"/manage/v1/{self._realm}/catalogs/lake/references/branch/{branch}"
        id: str = self._port.rig.get(path, self._port.rig.token(self._realm)).raise_for_status().json()["commit_id"]
        return id


def _name(*path: str) -> common_pb2.Name:
    return common_pb2.Name(catalog="lake", path=path)


def _ref(*path: str) -> common_pb2.ContentRef:
    return common_pb2.ContentRef(name=_name(*path))


def _mask(*paths: str) -> FieldMask:
    return FieldMask(paths=paths)


def _updates(*updates: dict[str, Any]) -> dict[str, Any]:
    return {"requirements": [], "updates": list(updates)}


PROPERTIES = {"owner": "ada"}
STEPS = (
    Step(
        "CreateCatalog",
        catalog_pb2.CreateCatalogRequest(name="pond", properties=PROPERTIES),
        "POST",
        f"{MANAGE}/catalogs",
        {"name": "pond", "properties": PROPERTIES},
    ),
    Step(
        "UpdateCatalog",
        catalog_pb2.UpdateCatalogRequest(
            name="pond", catalog=catalog_pb2.Catalog(properties={"a": "1"}), update_mask=_mask("properties")
        ),
        "PATCH",
        f"{MANAGE}/catalogs/pond",
        {"properties": {"a": "1"}},
    ),
    Step("DeleteCatalog", catalog_pb2.DeleteCatalogRequest(name="pond"), "DELETE", f"{MANAGE}/catalogs/pond"),
    Step(
        "CreateNamespace",
        namespace_pb2.CreateNamespaceRequest(name=_name("db"), properties={"a": "1"}),
        "POST",
        f"{LAKE}/namespaces",
        {"path": ["db"], "properties": {"a": "1"}},
    ),
    Step(
        "CreateNamespace",
        namespace_pb2.CreateNamespaceRequest(name=_name("gone", "inner")),
        "POST",
        f"{LAKE}/namespaces",
        {"path": ["gone", "inner"]},
    ),
    Step(
        "UpdateNamespace",
        namespace_pb2.UpdateNamespaceRequest(
            target=_ref("db"), namespace=namespace_pb2.Namespace(properties={"b": "2"}), update_mask=_mask("properties")
        ),
        "POST",
        f"{NAMESPACE}/db/properties",
        {"removals": ["a"], "updates": {"b": "2"}},
    ),
    Step(
        "CreateTable",
        table_pb2.CreateTableRequest(name=_name("db", "t"), schema=SCHEMA, properties=PROPERTIES),
        "POST",
        TABLE,
        {"name": "t", "schema": json.loads(SCHEMA), "properties": PROPERTIES},
    ),
    Step(
        "UpdateTable",
        table_pb2.UpdateTableRequest(
            target=_ref("db", "t"), table=table_pb2.Table(properties={"owner": "grace"}), update_mask=_mask("properties")
        ),
        "POST",
        f"{TABLE}/t",
        _updates({"action": SET, "updates": {"owner": "grace"}}),
    ),
    Step(
        "CreateSnapshot",
        snapshot_pb2.CreateSnapshotRequest(
            table=_ref("db", "t"),
            snapshot=snapshot_pb2.Snapshot(
                snapshot_id=7,
                sequence_number=1,
                timestamp_ms=2_000_000_000_000,
                manifest_list="file:///nowhere/list.avro",
                summary={"operation": "append"},
                schema_id=0,
            ),
        ),
        "POST",
        f"{TABLE}/t",
        _updates(
            {"action": "add-snapshot", "snapshot": SNAPSHOT},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
        ),
    ),
    Step(
        "PutTableStats",
        statistics_pb2.PutTableStatsRequest(
            snapshot=statistics_pb2.SnapshotRef(table=_ref("db", "t"), snapshot_id=7),
            table=statistics_pb2.TableStats(row_count=10),
        ),
        "PUT",
        f"{LAKE}/namespaces/db/tables/t/snapshots/7/statistics",
        {"table": {"row_count": 10}},
    ),
    Step(
        "DeleteStats",
        statistics_pb2.DeleteStatsRequest(snapshot=statistics_pb2.SnapshotRef(table=_ref("db", "t"), snapshot_id=7)),
        "DELETE",
        f"{LAKE}/namespaces/db/tables/t/snapshots/7/statistics",
    ),
    Step(
        "DeleteSnapshot",
        snapshot_pb2.DeleteSnapshotRequest(table=_ref("db", "t"), snapshot_id=7),
        "POST",
        f"{TABLE}/t",
        _updates({"action": "remove-snapshots", "snapshot-ids": [7]}),
    ),
    Step(
        "UpdateTable",
        table_pb2.UpdateTableRequest(
            target=_ref("db", "t"), table=table_pb2.Table(name=_name("db", "moved")), update_mask=_mask("name")
        ),
        "POST",
        "/iceberg/v1/lake/tables/rename",
        {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": ["db"], "name": "moved"}},
    ),
    Step(
        "CreateView",
        view_pb2.CreateViewRequest(
            name=_name("db", "v"),
            schema=SCHEMA,
            representations=[view_pb2.SqlRepresentation(dialect="spark", sql="select 1")],
            default_namespace=["db"],
        ),
        "POST",
        f"{NAMESPACE}/db/views",
        {"name": "v", "schema": json.loads(SCHEMA), "view-version": VIEW_VERSION, "properties": {}},
    ),
    Step(
        "UpdateView",
        view_pb2.UpdateViewRequest(
            target=_ref("db", "v"), view=view_pb2.View(properties={"owner": "grace"}), update_mask=_mask("properties")
        ),
        "POST",
        f"{NAMESPACE}/db/views/v",
        _updates({"action": SET, "updates": {"owner": "grace"}}),
    ),
    Step("DeleteView", view_pb2.DeleteViewRequest(view=_ref("db", "v")), "DELETE", f"{NAMESPACE}/db/views/v"),
    Step(
        "CreateReference",
        reference_pb2.CreateReferenceRequest(catalog="lake", name="dev", type="branch", message="work"),
        "POST",
        f"{LAKE}/references",
        {"name": "dev", "type": "branch", "message": "work"},
    ),
    Step(
        "Commit",
        feed_pb2.CommitRequest(
            catalog="lake",
            branch="dev",
            message="by hand",
            headers={"x": "1"},
            operations=[feed_pb2.Operation(op="put", key=["dev"], type="NAMESPACE", content='{"properties":{}}')],
        ),
        "POST",
        "/feed/v1/alpha/commit",
        {
            "catalog": "lake",
            "branch": "dev",
            "message": "by hand",
            "headers": {"x": "1"},
            "operations": [{"op": "put", "key": ["dev"], "type": "NAMESPACE", "content": {"properties": {}}}],
        },
    ),
    Step(
        "Merge",
        reference_pb2.MergeRequest(catalog="lake", source="dev"),
        "POST",
        f"{LAKE}/merge",
        {"source": "dev"},
    ),
    Step(
        "CreateReference",
        reference_pb2.CreateReferenceRequest(catalog="lake", name="fix", type="branch"),
        "POST",
        f"{LAKE}/references",
        {"name": "fix", "type": "branch"},
    ),
    Step(
        "Commit",
        feed_pb2.CommitRequest(
            catalog="lake",
            branch="fix",
            operations=[feed_pb2.Operation(op="put", key=["fix"], type="NAMESPACE", content='{"properties":{}}')],
        ),
        "POST",
        "/feed/v1/alpha/commit",
        {
            "catalog": "lake",
            "branch": "fix",
            "operations": [{"op": "put", "key": ["fix"], "type": "NAMESPACE", "content": {"properties": {}}}],
        },
    ),
    Step(
        "Transplant",
        lambda commits: reference_pb2.TransplantRequest(catalog="lake", commits=[commits.head("fix")]),
        "POST",
        f"{LAKE}/transplant",
        lambda commits: {"commits": [commits.head("fix")]},
    ),
    Step(
        "AssignReference",
        lambda commits: reference_pb2.AssignReferenceRequest(
            catalog="lake", name="dev", type="branch", target=commits.head("main")
        ),
        "PUT",
        f"{LAKE}/references/branch/dev",
        lambda commits: {"target": commits.head("main")},
    ),
    Step(
        "DeleteReference",
        reference_pb2.DeleteReferenceRequest(catalog="lake", name="dev", type="branch"),
        "DELETE",
        f"{LAKE}/references/branch/dev",
    ),
    Step("DeleteTable", table_pb2.DeleteTableRequest(table=_ref("db", "moved")), "DELETE", f"{TABLE}/moved"),
    Step("DeleteNamespace", namespace_pb2.DeleteNamespaceRequest(namespace=_ref("db")), "DELETE", f"{LAKE}/namespaces/db"),
)
METHODS = {one.name.rpartition("/")[2]: one for one in all_methods() if ".planning." not in one.name}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-equal")) as made:
        for realm in (HTTP, GRPC):
            made.rig.principal(realm, "nobody")
            made.rig.principal(realm, "reader", Right.CATALOG_READ)
        yield made


def test_every_mutation_of_both_apis_is_compared_here_or_elsewhere() -> None:
    mutations = {
        name for name, one in METHODS.items() if "idempotency" in one.request.DESCRIPTOR.fields_by_name or one.takes_stream
    }
    assert mutations == {one.method for one in STEPS} | ELSEWHERE.keys()


def test_each_mutation_commits_and_refuses_the_same_over_http_and_grpc(port: GrpcRig) -> None:
    """The steps build on each other. Each is sent by those who may not, by the owner, and by the owner again."""
    told: list[tuple[str, Any]] = []
    for number, step in enumerate(STEPS):
        for caller in ("nobody", "reader", "root", "root"):
            by_http, by_grpc = _by_http(port, step, caller), _by_grpc(port, step, caller)
            is_equal = by_http == by_grpc or (by_http, by_grpc) == A_RESOURCE_OF_ITS_OWN.get(step.method)
            assert is_equal, (number, step.method, caller, by_http, by_grpc)
            told.append((caller, by_http))
        changes, others = _changes(port, HTTP), _changes(port, GRPC)
        assert changes.keys() == others.keys(), (number, step.method)
        for pointer, log in changes.items():
            for one, other in zip(log, others[pointer], strict=True):
                assert one == other, (number, step.method, pointer)
    assert {one for caller, one in told if caller == "nobody"} <= {"403", "404"}
    assert len({one for _, one in told}) >= 4, "success, refused rights, and what is there or is not any more"
    assert sum(len(log) for log in changes.values()) >= len(STEPS)


def _by_http(port: GrpcRig, step: Step, caller: str) -> str:
    body = step.body(Commits(port, HTTP)) if callable(step.body) else step.body
    options = {} if body is None else {"json": body}
    answer = port.rig.ask(step.verb, step.path, token=port.rig.token(HTTP, caller), **options)
    return "OK" if answer.status_code < 300 else str(answer.status_code)


def _by_grpc(port: GrpcRig, step: Step, caller: str) -> str:
    """As the status that the error has over HTTP: Iceberg REST tells no code of ours."""
    method: RpcMethod = METHODS[step.method]
    message = step.message if isinstance(step.message, Message) else step.message(Commits(port, GRPC))
    try:
        port.call(method, message, bearer(port.rig.token(GRPC, caller)))
    except grpc.RpcError as error:
        info = detail_of(error, error_details_pb2.ErrorInfo)
        return str(_HTTP_STATUS[info.reason])
    return "OK"


_HTTP_STATUS = {kind.code: kind.http_status for kind in error_kinds() if issubclass(kind, errors.HeadwaterError)}
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?")
_CLOCK = re.compile(r"\b\d{13}(\d{3})?\b")


def _changes(port: GrpcRig, realm: str) -> dict[str, list[Any]]:
    """All logs of the realm, without what no two requests share: ids, times, the name of the realm."""
    token, found = port.rig.token(realm), dict[str, list[Any]]()
    for pointer in port.rig.get(f"/feed/v1/{realm}/pointers", token).raise_for_status().json()["pointers"]:
        name = pointer["name"]
        if not name.startswith(("cat/", "catalogs")):
            continue
        page = port.rig.get(f"/feed/v1/{realm}/changes?pointer={name}&limit=1000", token).raise_for_status().json()
        found[name] = [_plain(change, realm) for change in page["changes"]]
    return found


def _plain(change: dict[str, Any], realm: str) -> Any:
    for field in ("objects_added", "objects_released"):
        change[field] = len(change[field])
    text = json.dumps({**change, "request_id": ""}, sort_keys=True).replace(f"{realm}-warehouse", "warehouse")
    text = _CLOCK.sub("0", _ID.sub("ID", _TIME.sub("TIME", text)))
    plain: dict[str, Any] = json.loads(text)
    return {**plain, "realm": "", "headers": {name: one for name, one in plain["headers"].items() if "correlation" not in name}}
