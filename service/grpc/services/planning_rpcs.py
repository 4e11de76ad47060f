"""PlanningService: plans are rows of the store, and any worker serves any plan of its owner's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NoReturn

import msgspec

from headwater.producer.content.content_types import DELTA_TABLE
from headwater.producer.plans.plan_rows import Plan
from headwater.producer.plans.plans import Plans
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, TableNotFound
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import Request
from headwater.service.gate.route import NO_BODY, STREAM, Needs, Route
from headwater.service.grpc.contents.references import realm_of
from headwater.service.grpc.messages.message_fields import catalog_name
from headwater.service.grpc.messages.plan_messages import file_messages, plan_message, source_file_messages
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.operations import lake_branch
from headwater.service.iceberg.operations.lake_branch import shown
from headwater.service.iceberg.plans.plan_operations import PlanOperations, WantedInput
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import IN_REALM
from headwater.service.planning.scan_filter import ScanRequest
from headwater.service.reconciling.source_plans import SourcePlans

SERVICE = "io.headwater.planning.v1.PlanningService"
_READ = {lake_branch.TABLE: Right.TABLE_READ, DELTA_TABLE.name: Right.TABLE_READ, lake_branch.VIEW: Right.VIEW_READ}


class PlannedNames(msgspec.Struct, frozen=True):
    """The body of the route: what the plan would read."""

    inputs: list[tuple[str, KeyPath]]


def _unused(request: Request) -> Response:
    raise LookupError("plans have no HTTP sibling")


async def _require_inputs(request: Request) -> None:
    """⚠ Before anything is looked up. Which of the two rights counts is known when it is clear what stands there."""
    for catalog, key in request.read(PlannedNames).inputs:
        over = Securable(catalog, key)
        if not await request.access.allows(request.caller, Right.VIEW_READ, over):
            await request.access.require(request.caller, Right.TABLE_READ, over)


_BEGIN = Route(
    "POST",
    f"{IN_REALM}/plans",
    "Begin a plan.",
    _unused,
    Needs(right=Right.TABLE_READ, where="each table, and `view.read` over each view", check=_require_inputs),
    NO_BODY,
)
"""Routes for gRPC only, like those below: they are in no HTTP table."""
_OWN_NEEDS = Needs(right=None, where="the plan's own principal", is_filtered=True)
_FILES_NEEDS = Needs(right=None, where="the plan's own principal, with `table.read` over the table", is_filtered=True)
_OWN = Route("GET", f"{IN_REALM}/plans/{{plan}}", "A plan.", _unused, _OWN_NEEDS)
_FILES = Route("GET", f"{IN_REALM}/plans/{{plan}}/files", "Files of a plan.", _unused, _FILES_NEEDS, STREAM)


def _bind_begin(call: RpcCall) -> Bound:
    inputs = [(catalog_name(one.name.catalog, "inputs.name.catalog"), _path(one.name)) for one in call.message.inputs]
    return Bound(route=_BEGIN, body=PlannedNames(inputs))


def _path(name: common_pb2.Name) -> KeyPath:
    if len(name.path) < 2 or not all(name.path):
        raise InvalidInput("it is no table or view.", field="inputs.name.path", remedy="Name the namespace and the table.")
    return tuple(name.path)


def _bind_own(route: Route) -> Callable[[RpcCall], Bound]:
    def bind(call: RpcCall) -> Bound:
        if not call.message.plan_id:
            raise InvalidInput("it is empty.", field="plan_id", remedy="Send the id of a plan.")
        return Bound(route=route, names={"plan": call.message.plan_id})

    return bind


async def _operations(call: RpcCall, request: ManageCall) -> PlanOperations:
    await realm_of(call)  # the system realm has none
    service = call.runtime.service
    sources = SourcePlans(request.kernel, service.config.reconcile)
    return PlanOperations(request.kernel, service.lakes, service.config.plans, service.plan_counts, request.guard, sources)


class _CallersRights:
    """What the caller of a plan may read. May wait for the store."""

    def __init__(self, call: RpcCall, request: ManageCall) -> None:
        self._access, self._caller = request.access, call.caller

    def types(self, catalog: str, key: KeyPath) -> frozenset[str]:
        over = Securable(catalog, key)
        return frozenset(kind for kind, right in _READ.items() if self._access.allows_now(self._caller, right, over))

    def refuse(self, catalog: str, key: KeyPath) -> NoReturn:
        self._access.check(self._caller, Right.TABLE_READ, Securable(catalog, key))
        raise TableNotFound(
            f"Table does not exist: {shown(key)}", field="inputs", remedy="Try again: the right was just given."
        )


async def _begin(call: RpcCall, request: ManageCall) -> planning_pb2.BeginPlanResponse:
    message, operations = call.message, await _operations(call, request)
    wanted = [
        WantedInput(
            catalog=one.name.catalog,
            key=tuple(one.name.path),
            reference=one.reference or message.reference,
            snapshot_id=one.snapshot_id if one.HasField("snapshot_id") else None,
        )
        for one in message.inputs
    ]
    rights, seconds = _CallersRights(call, request), _seconds(message.ttl_seconds)

    def begun() -> planning_pb2.Plan:
        return _shown(request, operations, operations.begin(call.caller.owner_id, wanted, rights, seconds=seconds))

    return planning_pb2.BeginPlanResponse(plan=await asyncio.to_thread(begun))


async def _renew(call: RpcCall, request: ManageCall) -> planning_pb2.RenewPlanResponse:
    seconds = _seconds(call.message.ttl_seconds)
    shown = await _changed(call, request, lambda plans, id, owner: plans.renew(id, owner, seconds=seconds))
    return planning_pb2.RenewPlanResponse(plan=shown)


async def _end(call: RpcCall, request: ManageCall) -> planning_pb2.EndPlanResponse:
    return planning_pb2.EndPlanResponse(plan=await _changed(call, request, Plans.end))


async def _get(call: RpcCall, request: ManageCall) -> planning_pb2.GetPlanResponse:
    return planning_pb2.GetPlanResponse(plan=await _changed(call, request, Plans.get))


async def _changed(call: RpcCall, request: ManageCall, act: Callable[[Plans, str, str], Plan]) -> planning_pb2.Plan:
    operations = await _operations(call, request)

    def changed() -> planning_pb2.Plan:
        return _shown(request, operations, act(operations.plans, call.message.plan_id, call.caller.owner_id))

    return await asyncio.to_thread(changed)


def _seconds(wanted: float) -> float | None:
    return wanted or None


def _shown(request: ManageCall, operations: PlanOperations, plan: Plan) -> planning_pb2.Plan:
    """⚠ Obligations, only while the plan pins their policies: after its end they may have expired."""
    now = request.kernel.store.clock.now_micros()
    return plan_message(plan, now, operations.obligations(plan) if plan.holds(now) else [()] * len(plan.inputs))


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


async def _file_parts(call: RpcCall, request: ManageCall) -> AsyncIterator[bytes]:
    """⚠ The plan is read again for each part: after its end the files may be gone, and the list would be useless."""
    message, operations = call.message, await _operations(call, request)
    asked = ScanRequest(message.filter.encode(), case_sensitive=not message.case_insensitive)
    plan = await asyncio.to_thread(operations.live, message.plan_id, call.caller.owner_id)
    if 0 <= message.index < len(plan.inputs):
        one = plan.inputs[message.index]
        await request.access.require(call.caller, _READ[one.type], Securable(one.catalog, one.key))
    parts = await asyncio.to_thread(_messages, operations, plan, message.index, asked)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        await asyncio.to_thread(operations.live, message.plan_id, call.caller.owner_id)
        yield part.SerializeToString()


def _messages(
    operations: PlanOperations, plan: Plan, index: int, asked: ScanRequest
) -> Iterator[planning_pb2.PlanFilesResponse]:
    if 0 <= index < len(plan.inputs) and plan.inputs[index].connector:
        return source_file_messages(operations.files_of_source(plan, index, asked.filter))
    planner = operations.planner(plan, index, asked)
    return iter(()) if planner is None else file_messages(planner, operations.files(planner))


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/BeginPlan", routes=(_BEGIN,), bind=_bind_begin, answer=_begin)
    yield Rpc(method=f"{SERVICE}/RenewPlan", routes=(_OWN,), bind=_bind_own(_OWN), answer=_renew)
    yield Rpc(method=f"{SERVICE}/EndPlan", routes=(_OWN,), bind=_bind_own(_OWN), answer=_end)
    yield Rpc(method=f"{SERVICE}/GetPlan", routes=(_OWN,), bind=_bind_own(_OWN), answer=_get)
    yield Rpc(method=f"{SERVICE}/PlanFiles", routes=(_FILES,), bind=_bind_own(_FILES), serve=_file_parts)


ROWS = tuple(_rows())
