"""Handlers of server-side scan planning: a plan is a lease of an hour, and its parts are planned when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pyiceberg.manifest import ManifestFile

from headwater.producer.page_tokens import make_token, read_token
from headwater.producer.plans.plan_rows import Plan
from headwater.producer.plans.plans import Plans
from headwater.schemas.errors import InvalidInput, PlanNotFound, Unsupported
from headwater.service.http.responses import Response, json_response
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.plain_handlers import NO_CONTENT
from headwater.service.iceberg.plans.plan_obligations import pin_of_rules, require_enforced, rules_of
from headwater.service.iceberg.plans.planned_inputs import find_input, pin_of, planner_of
from headwater.service.planning.file_json import scan_tasks
from headwater.service.planning.file_planner import FilePlanner
from headwater.service.planning.scan_filter import ScanRequest

PLAN_SECONDS = 3_600.0
"""The specification has no way to renew a plan."""
TASK_FILES = 1_000
"""About as many are planned at a time: a response holds them all."""


class PlanRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """PlanTableScanRequest. What only saves the client work (select, stats-fields, min-rows-requested) is not read."""

    snapshot_id: int | None = None
    filter: Any = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None


class TaskRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """FetchScanTasksRequest."""

    plan_task: str


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """Data manifests of the plan from `first` up to `end`, in the order that pruning leaves them in."""

    plan_id: str
    first: int
    end: int


def plan_scan(call: IcebergCall) -> Response:
    body = call.read(PlanRequest)
    if body.start_snapshot_id is not None or body.end_snapshot_id is not None:
        raise Unsupported(
            "Incremental scans are not planned here.", field="start-snapshot-id", remedy="Plan them in the client."
        )
    request = ScanRequest(
        b"" if body.filter is None else msgspec.json.encode(body.filter), body.case_sensitive, body.use_snapshot_schema
    )
    state = call.branch.state()
    state.require_table(call.table)
    one = find_input(call.branch, state, call.table, None if body.snapshot_id == -1 else body.snapshot_id)
    rules = call.guard.now()
    require_enforced(call.guard, rules, call.branch, call.lakes, one)
    if one.snapshot_id is None:
        return json_response({"status": "completed", "file-scan-tasks": []})
    planner = planner_of(call.branch, call.lakes, one, request)
    seconds = min(PLAN_SECONDS, call.service.config.plans.seconds_max)
    kept = msgspec.msgpack.encode(request)
    plan = _plans(call).begin(call.caller.owner_id, [one], [pin_of(state), *pin_of_rules(rules)], seconds=seconds, request=kept)
    return _completed(plan, planner, request)


def get_plan(call: IcebergCall) -> Response:
    plan = _plan(call, call.names["plan-id"])
    return _completed(plan, *_planner_of(call, plan))


def end_plan(call: IcebergCall) -> Response:
    """Ending it again changes nothing."""
    _plans(call).end(_plan(call, call.names["plan-id"], is_ended_too=True).id, call.caller.owner_id)
    return NO_CONTENT


def fetch_tasks(call: IcebergCall) -> Response:
    task = read_token(call.read(TaskRequest).plan_task, _Task)
    planner, request = _planner_of(call, _plan(call, task.plan_id))
    data, deletes = planner.manifests()
    if not 0 <= task.first < task.end <= len(data):
        raise InvalidInput("The plan has no such task.", field="plan-task", remedy="Send one that the plan named.")
    return json_response(scan_tasks(planner, planner.files(data[task.first : task.end], deletes), request))


def _completed(plan: Plan, planner: FilePlanner, request: ScanRequest) -> Response:
    """The files themselves if they are few, else the tasks to ask for."""
    data, deletes = planner.manifests()
    ranges = _ranges(data)
    found: dict[str, Any] = {"status": "completed", "plan-id": plan.id}
    if len(ranges) > 1:
        return json_response(found | {"plan-tasks": [make_token(_Task(plan.id, *one)) for one in ranges]})
    return json_response(found | scan_tasks(planner, planner.files(data, deletes), request))


def _ranges(data: Sequence[ManifestFile]) -> list[tuple[int, int]]:
    ranges, first, files = [], 0, 0
    for position, manifest in enumerate(data):
        files += (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        if files >= TASK_FILES or position == len(data) - 1:
            ranges.append((first, position + 1))
            first, files = position + 1, 0
    return ranges


def _plans(call: IcebergCall) -> Plans:
    return Plans(call.kernel, call.service.config.plans, call.service.plan_counts)


def _plan(call: IcebergCall, id: str, *, is_ended_too: bool = False) -> Plan:
    """⚠ Of this caller, and of the table that the path names: the right was checked for that one."""
    plan = _plans(call).get(id, call.caller.owner_id)
    lives = plan.holds(call.kernel.store.clock.now_micros()) or (plan.is_ended and is_ended_too)
    if not lives or [(one.catalog_id, one.key) for one in plan.inputs] != [(call.branch.catalog.id, call.table)]:
        raise PlanNotFound(f"there is no plan {id[:80]!r}.", field="plan-id", remedy="Plan the scan again.")
    return plan


def _planner_of(call: IcebergCall, plan: Plan) -> tuple[FilePlanner, ScanRequest]:
    """A plan that was begun over gRPC has no filter of its own. ⚠ Masks count that came since it began, too."""
    for rules in (rules_of(plan, call.guard), call.guard.now()):
        require_enforced(call.guard, rules, call.branch, call.lakes, plan.inputs[0])
    request = msgspec.msgpack.decode(plan.request, type=ScanRequest) if plan.request else ScanRequest()
    return planner_of(call.branch, call.lakes, plan.inputs[0], request), request
