"""Plans, planned files and obligations as messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.producer.access.obligations import Obligation
from headwater.producer.plans.plan_rows import PinnedEntry, Plan, PlanInput, PlanState
from headwater.schemas.entry_ids import time_text
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.service.grpc.messages.message_fields import TABLE, VIEW
from headwater.service.iceberg.operations import lake_branch
from headwater.service.iceberg.plans.plan_operations import branch_pins

KINDS = {lake_branch.TABLE: TABLE, lake_branch.VIEW: VIEW}
_STATES = {
    PlanState.ACTIVE: planning_pb2.PLAN_STATE_ACTIVE,
    PlanState.EXPIRED: planning_pb2.PLAN_STATE_EXPIRED,
    PlanState.ENDED: planning_pb2.PLAN_STATE_ENDED,
}


def plan_message(plan: Plan, now: int, obligations: Sequence[Sequence[Obligation]]) -> planning_pb2.Plan:
    return planning_pb2.Plan(
        id=plan.id,
        state=_STATES[plan.state(now)],
        created=time_text(plan.created_at),
        expires=time_text(plan.expires_at),
        pinned_until=time_text(plan.pinned_until),
        ends=time_text(plan.ends_at),
        inputs=[
            _input(index, one, of_input) for index, (one, of_input) in enumerate(zip(plan.inputs, obligations, strict=True))
        ],
        pins=[pin_message(one) for one in branch_pins(plan)],
    )


def pin_message(pin: PinnedEntry) -> planning_pb2.PinnedEntry:
    return planning_pb2.PinnedEntry(pointer=pin.pointer, seq=pin.seq, entry_id=pin.entry_id.hex())


def obligation_message(one: Obligation) -> planning_pb2.Obligation:
    return planning_pb2.Obligation(
        type=one.type,
        policy=one.policy,
        policy_version=one.version,
        catalog_id=one.catalog_id,
        path=one.path,
        content=msgspec.json.encode(one.content).decode(),
        parameters=one.parameters,
    )


def _input(index: int, one: PlanInput, obligations: Sequence[Obligation]) -> planning_pb2.PlannedInput:
    return planning_pb2.PlannedInput(
        index=index,
        name=common_pb2.Name(catalog=one.catalog, path=one.key),
        kind=KINDS[one.type],
        content_id=one.content_id,
        metadata_location=one.metadata_location,
        snapshot_id=one.snapshot_id,
        reads=one.reads,
        is_expanded=not one.is_named,
        obligations=[obligation_message(each) for each in obligations],
    )
