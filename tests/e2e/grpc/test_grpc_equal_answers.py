"""Every method that has a sibling over HTTP, as the descriptors list them, asked by both ways: equal statuses for each caller.

A message is bound as the server binds it, and what comes of that is sent over HTTP: the same names, query and body. Mutations
are sent by callers who may not alone; those of who may are compared by test_grpc_equal_changes.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import msgspec
import pytest
from google.rpc import error_details_pb2

from headwater.producer.access.rights import Right
from headwater.schemas import errors
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.rpc import table_pb2, view_pb2
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.errors.translations import error_kinds
from headwater.service.feed.feed_routes import FEED_API
from headwater.service.gate.route import READING
from headwater.service.grpc.call_context import call_context
from headwater.service.grpc.rpc import Bound, RpcCall
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.grpc.runtime import Runtime
from headwater.service.iceberg.routes import ICEBERG
from headwater.service.manage.routes import MANAGE
from tests.e2e.grpc.test_grpc_isolation import MASKS
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, detail_of, filled, grpc_rig, method_named

OVER_HTTP = {(route.method, route.path) for api in (FEED_API, MANAGE, ICEBERG) for route in api.routes}
WITH_SIBLING = [
    one
    for one in all_methods()
    if RPCS[one.name].public is None and all((route.method, route.path) in OVER_HTTP for route in RPCS[one.name].routes)
]
WITHOUT = {
    "DirectoryService",
    "NamespaceService/UpdateNamespace",
    "PlanningService",
    "TokenService",
}
"""What HTTP has not, or has in another form."""
PATHS = {
    "TableService": ["db", "t"],
    "SnapshotService": ["db", "t"],
    "TableStatisticsService": ["db", "t"],
    "ViewService": ["db", "v"],
}
SERVED = frozenset(
    {
        *(
            "ListCatalogs",
            "GetCatalog",
            "ListNamespaces",
            "GetNamespace",
            "GetTable",
            "GetView",
            "ListSnapshots",
            "ListReferences",
        ),
        *("ListConnectors", "ListPointers", "GetChanges", "GetChange", "GetReferenceLog", "Subscribe", "PreviewMerge"),
    }
)
"""Of which at least one caller is answered: else equal refusals would prove nothing."""
OF_A_PART = {"SnapshotService/GetSnapshot"}
"""The table is there, over HTTP; the snapshot that is asked for is not."""
HTTP_STATUS = {kind.code: kind.http_status for kind in error_kinds() if issubclass(kind, errors.HeadwaterError)}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-answers")) as made:
        made.rig.commit("alpha", ("db",)).raise_for_status()
        owner = bearer(made.rig.token("alpha"))
        for service, kind, name in (("TableService", "Table", "t"), ("ViewService", "View", "v")):
            method = method_named(f"{service}/Create{kind}")
            request: Any = table_pb2.CreateTableRequest() if kind == "Table" else view_pb2.CreateViewRequest()
            request.name.catalog, request.schema = "lake", SCHEMA
            request.name.path.extend(["db", name])
            if kind == "View":
                request.representations.add(dialect="spark", sql="select 1")
            made.call(method, request, owner)
        made.rig.principal("alpha", "nobody")
        made.rig.principal("alpha", "reader", Right.CATALOG_READ)
        yield made


def test_every_method_is_compared_or_has_no_sibling() -> None:
    compared = {one.name for one in WITH_SIBLING}
    for method in all_methods():
        short = method.name.rpartition(".")[2]
        assert (method.name in compared) != (short in WITHOUT or short.partition("/")[0] in WITHOUT), method.name


@pytest.mark.parametrize("method", [pytest.param(one, id=one.name.rpartition(".")[2]) for one in WITH_SIBLING])
def test_each_caller_gets_the_same_answer_over_http_and_grpc(port: GrpcRig, method: RpcMethod) -> None:
    told = Counter[str]()
    for caller in ("nobody", "reader", "root"):
        for present in (True, False):
            message = _message(port, method, present=present)
            bound = _bound(port, method, message, caller)
            if isinstance(bound, Bound) and bound.route.method not in READING and caller == "root":
                continue
            by_grpc = _by_grpc(port, method, message, caller)
            by_http = str(bound.http_status) if isinstance(bound, HeadwaterError) else _by_http(port, bound, caller)
            is_part = method.name.rpartition(".")[2] in OF_A_PART and (by_http, by_grpc) == ("OK", "404")
            assert by_grpc == by_http or is_part, (caller, present, by_http, by_grpc)
            told[by_grpc] += 1
    assert told["OK"] or method.name.rpartition("/")[2] not in SERVED


def _message(port: GrpcRig, method: RpcMethod, *, present: bool) -> Any:
    service, _, name = method.name.rpartition(".")[2].partition("/")
    kernel = port.rig.kernel("alpha")
    newest = kernel.walk.load(kernel.store.backend.read_pointer(kernel.realm, "cat/1/heads/main").head)
    return filled(
        method.request,
        catalog="lake" if present else "absent",
        path=PATHS.get(service, ["db"]) if present else ["nowhere", "inner"],
        mask=[MASKS[name]] if name in MASKS else [],
        id=newest.entry_id.hex() if present else "00" * 32,
        pointer="cat/1/heads/main" if present else "cat/99/heads/main",
    )


def _bound(port: GrpcRig, method: RpcMethod, message: Any, caller: str) -> Bound | HeadwaterError:
    """What the server makes of the message, or refuses it with."""
    rig, metadata = port.rig, bearer(port.rig.token("alpha", caller))
    context = call_context(method.name, [metadata], "ipv4:127.0.0.1:5", None, "equal-1")

    async def bind() -> Bound:
        proven = await rig.service.access.caller(context.scope, None)
        call = RpcCall(runtime=Runtime(rig.service, rig.gate.budgets), context=context, caller=proven, message=message)
        bound: Any = RPCS[method.name].bind(call)
        return await bound if inspect.isawaitable(bound) else bound  # type: ignore[no-any-return]

    try:
        return rig.run(bind())  # type: ignore[no-any-return]
    except HeadwaterError as error:
        return error


def _by_http(port: GrpcRig, bound: Bound, caller: str) -> str:
    names = {"realm": "alpha", **bound.names}
    path = bound.route.path.format(**{name: quote(value, safe="") for name, value in names.items()})
    options: dict[str, Any] = {} if bound.body is None else {"content": msgspec.json.encode(bound.body)}
    headers = {} if bound.version is None else {"if-match": f'"{bound.version}"'}
    query = urlencode(bound.query, doseq=True)
    if "/stream" in path:  # it never ends: what a poll is refused with, it is too
        path = path.replace("/stream", "/changes")
        query = query.partition("&heartbeat")[0]
    url = f"{path}?{query}" if query else path
    answer = port.rig.ask(bound.route.method, url, token=port.rig.token("alpha", caller), headers=headers, **options)
    return "OK" if answer.status_code < 300 else str(answer.status_code)


def _by_grpc(port: GrpcRig, method: RpcMethod, message: Any, caller: str) -> str:
    try:
        port.call(method, message, bearer(port.rig.token("alpha", caller)))
    except grpc.RpcError as error:
        info = detail_of(error, error_details_pb2.ErrorInfo)
        return str(HTTP_STATUS[info.reason])
    return "OK"
