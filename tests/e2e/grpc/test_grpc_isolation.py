"""Every gRPC method, as the descriptors list them, against callers who may not: nothing is served, and nothing is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from headwater.producer.access.rights import Right
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.grpc.rpc_table import RPCS
from tests.support.fixtures.access_rig import expired_token
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, filled, grpc_rig, table_with_snapshots

METHODS = [pytest.param(method, id=method.name.rpartition(".")[2]) for method in all_methods()]
OF_CALLERS = [
    pytest.param(method, id=method.name.rpartition(".")[2]) for method in all_methods() if RPCS[method.name].public is None
]
"""All but what asks for no token, which shows nothing without a proof in the message."""
OF_PLANS = [
    pytest.param(method, id=method.name.rpartition(".")[2])
    for method in all_methods()
    if "plan_id" in method.request.DESCRIPTOR.fields_by_name
]
MASKS = {
    "UpdateCatalog": "properties",
    "UpdateConnector": "description",
    "UpdateNamespace": "properties",
    "UpdateTable": "properties",
    "UpdateTenant": "status",
    "UpdateView": "properties",
}
TOLD_ONE_BY_ONE = {"GetCatalogBundle"}
"""What answers for each name by itself: test_grpc_bundles looks at what it tells."""
REFUSED = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND}
EMPTY_FOR_NOBODY = {"ListPointers", "ResolveFQTables", "ResolveFQViews"}
"""What lists only what may be seen answers the same, and nothing, to a caller who may see nothing."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-isolation")) as made:
        made.rig.commit("alpha", ("db",), ("db", "inner")).raise_for_status()
        made.rig.principal("alpha", "weak")
        yield made


@pytest.fixture(scope="module")
def plan(port: GrpcRig) -> str:
    """The id of a plan that lives, of the owner's."""
    name = table_with_snapshots(port, "planned")
    request = planning_pb2.BeginPlanRequest(inputs=[planning_pb2.PlanInput(name=name)], ttl_seconds=3_600)
    id: str = port.stub("PlanningService").BeginPlan(request, metadata=[bearer(port.rig.token("alpha"))]).plan.id
    return id


def _message(port: GrpcRig, method: RpcMethod, *, present: bool) -> Any:
    kernel = port.rig.kernel("alpha")
    newest = kernel.walk.load(kernel.store.backend.read_pointer(kernel.realm, "cat/1/heads/main").head)
    name = method.name.rpartition("/")[2]
    return filled(
        method.request,
        catalog="lake" if present else "absent",
        path=["db", "inner"] if present else ["nowhere", "inner"],
        mask=[MASKS[name]] if name in MASKS else [],
        id=newest.entry_id.hex() if present else "00" * 32,
        pointer="cat/1/heads/main" if present else "cat/99/heads/main",
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_call_without_proof_of_a_caller_is_unauthenticated(port: GrpcRig, plan: str, method: RpcMethod) -> None:
    forged = common_pb2.PrincipalContext(realm="alpha", principal="root").SerializeToString()
    valid = port.rig.token("alpha")
    for metadata in (
        (),
        (bearer("forged"),),
        (bearer(valid[:-4] + "AAAA"),),
        (bearer(expired_token(port.rig)),),
        (("x-plan-id", plan),),
        (("x-principal-bin", forged),),
        (bearer(valid), ("x-principal-bin", forged)),
    ):
        for present in (True, False):
            status = port.status(method, _message(port, method, present=present), *metadata)
            assert status is grpc.StatusCode.UNAUTHENTICATED, (method.name, metadata, status)


@pytest.mark.parametrize("method", OF_CALLERS)
def test_a_token_of_another_realm_is_refused_alike_for_what_is_there_and_what_is_not(port: GrpcRig, method: RpcMethod) -> None:
    metadata = (bearer(port.rig.token("beta")), ("x-headwater-realm", "alpha"))
    statuses = {port.status(method, _message(port, method, present=present), *metadata) for present in (True, False)}
    assert statuses == {grpc.StatusCode.PERMISSION_DENIED}


@pytest.mark.parametrize("method", OF_CALLERS)
def test_a_caller_without_rights_cannot_distinguish_what_exists_from_what_does_not(
    port: GrpcRig, plan: str, method: RpcMethod
) -> None:
    metadata, name = (bearer(port.rig.token("alpha", "weak")), ("x-plan-id", plan)), method.name.rpartition("/")[2]
    if name in EMPTY_FOR_NOBODY:
        for present in (True, False):
            answer = port.call(method, _message(port, method, present=present), *metadata)
            if "realm_instance" in answer.DESCRIPTOR.fields_by_name:
                answer.ClearField("realm_instance")  # of the caller's own realm: its token says it too
            assert not answer.ByteSize() or answer == method.response(page=common_pb2.PageResponse())  # type: ignore[call-arg]
        return
    statuses = [port.status(method, _message(port, method, present=present), *metadata) for present in (True, False)]
    assert statuses[0] is statuses[1], (method.name, statuses)
    if name in TOLD_ONE_BY_ONE:
        return
    assert statuses[0] in REFUSED, (method.name, statuses)


@pytest.mark.parametrize("method", OF_PLANS)
def test_a_plan_of_another_caller_is_as_one_that_is_not_there(port: GrpcRig, plan: str, method: RpcMethod) -> None:
    """Also with the right to read all that it reads, and with its id in the metadata."""
    name = f"reads-{method.name.rpartition('/')[2].lower()}"
    token, owner = port.rig.principal("alpha", name, Right.CATALOG_READ), bearer(port.rig.token("alpha"))
    request = _message(port, method, present=True)
    statuses = []
    for id, metadata in ((plan, ()), (plan, (("x-plan-id", plan),)), ("0" * len(plan), ())):
        request.plan_id = id
        statuses.append(port.status(method, request, bearer(token), *metadata))
    assert set(statuses) == {grpc.StatusCode.NOT_FOUND}
    still_there = planning_pb2.GetPlanRequest(plan_id=plan)
    assert port.stub("PlanningService").GetPlan(still_there, metadata=[owner]).plan.state == planning_pb2.PLAN_STATE_ACTIVE


def test_the_messages_of_these_tests_reach_the_handlers_for_authorized_callers(port: GrpcRig) -> None:
    """Else the tests above would prove nothing: each message is one that a caller with rights is not refused for its form."""
    metadata = (bearer(port.rig.token("alpha")),)
    refused = []
    for method in all_methods():
        if (
            "TenantService" in method.name
            or RPCS[method.name].public is not None
            or method.name.endswith(("/Acknowledge", "/Rewind"))
        ):
            continue
        status = port.status(method, _message(port, method, present=False), *metadata)
        if status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT):
            refused.append((method.name, status))
    assert refused == []


def test_an_id_that_may_not_be_listed_is_not_there(port: GrpcRig) -> None:
    token = port.rig.principal("alpha", "elsewhere", Right.NAMESPACE_READ, path=("other",))
    from headwater.schemas.rpc import directory_pb2, namespace_pb2

    owner = bearer(port.rig.token("alpha"))
    namespaces, directory = port.stub("NamespaceService"), port.stub("DirectoryService")
    name = common_pb2.Name(catalog="lake", path=["db"])
    id = directory.ResolveNamespace(directory_pb2.ResolveNamespaceRequest(name=name), metadata=[owner]).resource_id
    absent = common_pb2.ResourceId(catalog_id=id.catalog_id, id="0" * 8 + id.id[8:])
    said = []
    for one in (id, absent):
        request = namespace_pb2.GetNamespaceRequest(namespace=common_pb2.ContentRef(id=one))
        with pytest.raises(grpc.RpcError) as error:
            namespaces.GetNamespace(request, metadata=[bearer(token)])
        said.append((error.value.code(), error.value.details().replace(one.id, "…")))
    assert said[0] == said[1]
    assert said[0][0] is grpc.StatusCode.NOT_FOUND
