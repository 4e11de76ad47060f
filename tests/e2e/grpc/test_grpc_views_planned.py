"""Views in plans: expanded to the tables that they read, at the entry that the plan pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from headwater.producer.access.rights import Right
from headwater.schemas.rpc import common_pb2, planning_pb2, snapshot_pb2, view_pb2
from headwater.schemas.rpc.planning_pb2 import BeginPlanRequest, PlanInput
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig, table_with_snapshots

INVALID, NOT_FOUND, DENIED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-views")) as made:
        made.rig.commit("alpha", ("db",), ("other",)).raise_for_status()
        yield made


def view(port: GrpcRig, name: str, sql: str, dialect: str = "spark", **more: Any) -> common_pb2.Name:
    path = common_pb2.Name(catalog="lake", path=["db", name])
    request = view_pb2.CreateViewRequest(
        name=path,
        schema=SCHEMA,
        representations=[view_pb2.SqlRepresentation(dialect=dialect, sql=sql)],
        default_namespace=["db"],
        **more,
    )
    port.stub("ViewService").CreateView(request, metadata=[bearer(port.rig.token("alpha"))])
    return path


def begin(port: GrpcRig, *names: common_pb2.Name, token: str | None = None) -> planning_pb2.Plan:
    request = BeginPlanRequest(inputs=[PlanInput(name=name) for name in names])
    owner = bearer(port.rig.token("alpha") if token is None else token)
    plan: planning_pb2.Plan = port.stub("PlanningService").BeginPlan(request, metadata=[owner]).plan
    return plan


def refused(port: GrpcRig, *names: common_pb2.Name, token: str | None = None) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as error:
        begin(port, *names, token=token)
    code: grpc.StatusCode = error.value.code()
    return code


def told(plan: planning_pb2.Plan) -> list[tuple[str, bool, list[int]]]:
    return [(".".join(one.name.path), one.is_expanded, list(one.reads)) for one in plan.inputs]


def test_views_are_expanded_to_tables_each_once_and_these_are_pinned(port: GrpcRig) -> None:
    orders, lines = table_with_snapshots(port, "orders", 2), table_with_snapshots(port, "lines")
    joined = view(port, "joined", "with c as (select * from orders) select * from c join db.lines using (id)")
    outer = view(port, "outer", "select * from lake.db.joined where id in (select id from orders)", dialect="trino")
    plan = begin(port, outer, lines)
    assert told(plan) == [
        ("db.outer", False, [2, 3]),
        ("db.lines", False, []),
        ("db.joined", True, [1, 3]),
        ("db.orders", True, []),
    ]
    assert plan.inputs[3].snapshot_id == 2 and len(plan.pins) == 1
    owner = bearer(port.rig.token("alpha"))
    removal = snapshot_pb2.DeleteSnapshotRequest(table=common_pb2.ContentRef(name=orders), snapshot_id=2)
    with pytest.raises(grpc.RpcError) as pinned:
        port.stub("SnapshotService").DeleteSnapshot(removal, metadata=[owner])
    assert pinned.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    again = port.stub("PlanningService").GetPlan(planning_pb2.GetPlanRequest(plan_id=plan.id), metadata=[owner]).plan
    assert told(again) == told(plan)
    assert told(begin(port, joined, joined))[:2] == [("db.joined", False, [2, 3])] * 2


def test_declared_relations_count_before_the_sql_and_name_other_catalogs(port: GrpcRig) -> None:
    table_with_snapshots(port, "declared")
    relations = [common_pb2.Name(path=["db", "declared"])]
    made = view(port, "opaque", "TRANSFORM what NOBODY (can parse", dialect="other", base_relations=relations)
    assert told(begin(port, made))[1:] == [("db.declared", True, [])]
    request = view_pb2.GetViewRequest(view=common_pb2.ContentRef(name=made))
    got = port.stub("ViewService").GetView(request, metadata=[bearer(port.rig.token("alpha"))]).view
    assert list(got.base_relations) == relations
    elsewhere = [common_pb2.Name(catalog="absent", path=["db", "t"])]
    assert refused(port, view(port, "far", "select 1", base_relations=elsewhere)) is NOT_FOUND
    with pytest.raises(grpc.RpcError) as bad:
        view(port, "bad", "select 1", base_relations=[common_pb2.Name(path=["alone"])])
    assert bad.value.code() is INVALID


def test_a_view_reads_a_snapshot_that_its_sql_names(port: GrpcRig) -> None:
    table_with_snapshots(port, "versions", 2)
    plan = begin(port, view(port, "first", "select * from versions VERSION AS OF 1 union all select * from versions"))
    assert sorted(one.snapshot_id for one in plan.inputs[1:]) == [1, 2]
    assert refused(port, view(port, "then", "select * from versions TIMESTAMP AS OF '2026-01-01'")) is (
        grpc.StatusCode.UNIMPLEMENTED
    )


def test_views_that_cannot_be_expanded_are_refused_and_no_plan_is_left(port: GrpcRig) -> None:
    view(port, "ring_a", "select * from db.ring_b")
    ring = view(port, "ring_b", "select * from db.ring_a")
    assert refused(port, ring) is INVALID
    assert refused(port, view(port, "self", "select * from db.self")) is INVALID
    assert refused(port, view(port, "dangling", "select * from db.nothing")) is NOT_FOUND
    assert refused(port, view(port, "ddl", "drop table x")) is grpc.StatusCode.UNIMPLEMENTED
    assert refused(port, view(port, "nested", "select " + "(" * 4_000 + "1" + ")" * 4_000)) is grpc.StatusCode.UNIMPLEMENTED
    table_with_snapshots(port, "bottom")
    names = [view(port, "deep_0", "select * from bottom")]
    for depth in range(1, 17):
        names.append(view(port, f"deep_{depth}", f"select * from deep_{depth - 1} a join deep_{depth - 1} b"))
    assert len(begin(port, names[15]).inputs) == 17
    assert refused(port, names[16]) is INVALID
    assert refused(port, names[3], names[16]) is INVALID, "also where a part of them is known already"


def test_views_with_more_sql_than_can_be_parsed_quickly_are_refused(port: GrpcRig) -> None:
    """⚠ Parsing holds the interpreter: some kilobytes of joins or unions cost what a thousand queries do."""
    table_with_snapshots(port, "measured")
    one = "select * from measured where 'x' = '" + "x" * 64_000 + "'"
    assert refused(port, view(port, "too_long", one + "x" * 2_000)) is grpc.StatusCode.UNIMPLEMENTED
    names = [view(port, f"long_{number}", one) for number in range(9)]
    assert len(begin(port, *names[:8]).inputs) == 9
    assert refused(port, *names) is INVALID


def test_a_view_gives_no_right_to_what_it_reads(port: GrpcRig) -> None:
    table_with_snapshots(port, "private")
    seen, blind = view(port, "window", "select * from private"), view(port, "no_window", "select * from absent_one")
    token = port.rig.principal("alpha", "view-reader", Right.VIEW_READ, path=("db", "window"))
    port.rig.grant("alpha", "view-reader", Right.VIEW_READ, ("db", "no_window"))
    assert refused(port, seen, token=token) is DENIED
    assert refused(port, blind, token=token) is DENIED, "the same for what is not there"
    port.rig.grant("alpha", "view-reader", Right.TABLE_READ, ("db", "private"))
    assert len(begin(port, seen, token=token).inputs) == 2
