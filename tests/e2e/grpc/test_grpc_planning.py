"""Plans over gRPC: they pin what they read, for their own principal alone, until they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlparse

import grpc
import msgspec
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list

from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.producer.plans.plan_rows import PlanOptions
from headwater.schemas.rpc import common_pb2, planning_pb2, snapshot_pb2, table_pb2, view_pb2
from headwater.schemas.rpc.planning_pb2 import BeginPlanRequest, PlanInput
from tests.support.fixtures.access_rig import CHEAP, META
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig, table_with_snapshots

NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-planning")) as made:
        made.rig.commit("alpha", ("db",)).raise_for_status()
        yield made


class Planner:
    """A caller of the service."""

    def __init__(self, port: GrpcRig, token: str) -> None:
        self._stub, self._token = port.stub("PlanningService"), bearer(token)

    def begin(self, *inputs: PlanInput, **more: Any) -> Any:
        request = BeginPlanRequest(inputs=inputs, **more)
        return self._stub.BeginPlan(request, metadata=[self._token]).plan

    def get(self, id: str) -> Any:
        return self._stub.GetPlan(planning_pb2.GetPlanRequest(plan_id=id), metadata=[self._token]).plan

    def renew(self, id: str, seconds: float = 0) -> Any:
        request = planning_pb2.RenewPlanRequest(plan_id=id, ttl_seconds=seconds)
        return self._stub.RenewPlan(request, metadata=[self._token]).plan

    def end(self, id: str) -> Any:
        return self._stub.EndPlan(planning_pb2.EndPlanRequest(plan_id=id), metadata=[self._token]).plan

    def files(self, id: str, **more: Any) -> list[Any]:
        request = planning_pb2.PlanFilesRequest(plan_id=id, **more)
        return [file for part in self._stub.PlanFiles(request, metadata=[self._token]) for file in part.files]


@pytest.fixture
def planner(port: GrpcRig) -> Planner:
    return Planner(port, port.rig.token("alpha"))


def refused(act: Callable[[], Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as error:
        act()
    code: grpc.StatusCode = error.value.code()
    return code


def test_a_snapshot_is_removed_only_when_no_plan_reads_it(port: GrpcRig, planner: Planner) -> None:
    name = table_with_snapshots(port, "pinned", 2)
    plan = planner.begin(PlanInput(name=name, snapshot_id=1), PlanInput(name=name), ttl_seconds=600)
    assert [one.snapshot_id for one in plan.inputs] == [1, 2] and len(plan.pins) == 1
    assert plan.state == planning_pb2.PLAN_STATE_ACTIVE and plan.created < plan.expires < plan.pinned_until <= plan.ends
    owner, snapshots = bearer(port.rig.token("alpha")), port.stub("SnapshotService")
    removal = snapshot_pb2.DeleteSnapshotRequest(table=common_pb2.ContentRef(name=name), snapshot_id=1)
    assert refused(lambda: snapshots.DeleteSnapshot(removal, metadata=[owner])) is grpc.StatusCode.FAILED_PRECONDITION
    assert planner.renew(plan.id, 3_600).expires > plan.expires
    assert planner.get(plan.id).inputs == plan.inputs
    for _ in range(2):
        assert planner.end(plan.id).state == planning_pb2.PLAN_STATE_ENDED
    assert refused(lambda: planner.renew(plan.id)) is NOT_FOUND
    assert refused(lambda: planner.files(plan.id)) is NOT_FOUND
    assert snapshots.DeleteSnapshot(removal, metadata=[owner]).meta.changed
    assert refused(lambda: planner.begin(PlanInput(name=name, snapshot_id=1))) is NOT_FOUND


def test_a_plan_is_its_own_principals(port: GrpcRig, planner: Planner) -> None:
    name = table_with_snapshots(port, "own")
    reader = Planner(port, port.rig.principal("alpha", "reader", Right.TABLE_READ, path=("db",)))
    plan = reader.begin(PlanInput(name=name))
    other = Planner(port, port.rig.principal("alpha", "reader-2", Right.TABLE_READ, path=("db",)))
    for act in (planner.get, planner.renew, planner.end, planner.files, other.get):
        assert refused(lambda act=act: act(plan.id)) is NOT_FOUND  # type: ignore[misc]
    assert reader.get(plan.id).state == planning_pb2.PLAN_STATE_ACTIVE

    principals = Principals(port.rig.kernel("alpha"), cost=CHEAP)
    principals.delete("reader", meta=META)
    made = principals.create("reader", meta=META)
    assert made.credentials is not None
    again = Planner(port, port.rig.token_answer("alpha", made.credentials).json()["access_token"])
    assert refused(lambda: again.get(plan.id)) is NOT_FOUND, "one that was made again under the name is another one"


def test_a_principal_at_its_limit_leaves_places_to_others(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> None:
    name, service = table_with_snapshots(port, "crowded"), port.rig.service
    bounded = msgspec.structs.replace(service.config, plans=PlanOptions(plans_per_principal_max=2))
    monkeypatch.setattr(service, "config", bounded)
    greedy, other = (
        Planner(port, port.rig.principal("alpha", who, Right.TABLE_READ, path=("db",))) for who in ("greedy", "modest")
    )
    plans = [greedy.begin(PlanInput(name=name)) for _ in range(2)]
    with pytest.raises(grpc.RpcError) as error:
        greedy.begin(PlanInput(name=name))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "End plans that are done" in str(error.value.details())
    other.begin(PlanInput(name=name))
    greedy.end(plans[0].id)
    greedy.begin(PlanInput(name=name))


def test_a_revoked_right_ends_the_answers_of_a_plan(port: GrpcRig) -> None:
    name = table_with_snapshots(port, "blind")
    weak = Planner(port, port.rig.principal("alpha", "views-alone", Right.VIEW_READ, path=("db",)))
    assert refused(lambda: weak.begin(PlanInput(name=name))) is NOT_FOUND, "what it may read there is no table"
    nobody = Planner(port, port.rig.principal("alpha", "nobody"))
    absent = common_pb2.Name(catalog="lake", path=["db", "absent"])
    for one in (name, absent):
        assert refused(lambda one=one: nobody.begin(PlanInput(name=one))) is grpc.StatusCode.PERMISSION_DENIED  # type: ignore[misc]


def test_views_are_planned_at_the_same_entry_and_tables_without_rows_have_no_files(port: GrpcRig, planner: Planner) -> None:
    owner = bearer(port.rig.token("alpha"))
    view = common_pb2.Name(catalog="lake", path=["db", "seen"])
    sql = [view_pb2.SqlRepresentation(dialect="spark", sql="select 1")]
    request = view_pb2.CreateViewRequest(name=view, schema=SCHEMA, representations=sql)
    port.stub("ViewService").CreateView(request, metadata=[owner])
    empty = table_with_snapshots(port, "empty", 0)
    plan = planner.begin(PlanInput(name=view), PlanInput(name=empty))
    kinds = [common_pb2.RESOURCE_KIND_VIEW, common_pb2.RESOURCE_KIND_TABLE]
    assert [one.kind for one in plan.inputs] == kinds and len(plan.pins) == 1
    assert not any(one.HasField("snapshot_id") for one in plan.inputs)
    assert planner.files(plan.id, index=1) == []
    assert refused(lambda: planner.files(plan.id, index=0)) is INVALID
    assert refused(lambda: planner.files(plan.id, index=2)) is INVALID
    assert refused(lambda: planner.begin(PlanInput(name=view, snapshot_id=1))) is INVALID


def test_bad_plans_are_refused_by_type(port: GrpcRig, planner: Planner) -> None:
    name = table_with_snapshots(port, "bad")
    absent = common_pb2.Name(catalog="lake", path=["db", "absent"])
    assert refused(lambda: planner.begin()) is INVALID
    assert refused(lambda: planner.begin(PlanInput(name=name), ttl_seconds=-1)) is INVALID
    assert refused(lambda: planner.begin(PlanInput(name=name), ttl_seconds=1e9)) is INVALID
    assert refused(lambda: planner.begin(PlanInput(name=absent))) is NOT_FOUND
    assert refused(lambda: planner.begin(PlanInput(name=name, snapshot_id=9))) is NOT_FOUND
    assert refused(lambda: planner.begin(PlanInput(name=name, reference="absent"))) is NOT_FOUND
    assert refused(lambda: planner.begin(*[PlanInput(name=name)] * 1_001)) is INVALID
    assert refused(lambda: planner.get("")) is INVALID
    assert refused(lambda: planner.get("x" * 10_000)) is NOT_FOUND
    plan = planner.begin(PlanInput(name=name))
    assert refused(lambda: planner.files(plan.id, filter="{")) is INVALID
    unknown = '{"type": "eq", "term": "nothing", "value": 1}'
    assert refused(lambda: planner.files(plan.id, filter=unknown)) is INVALID
    assert refused(lambda: planner.files(plan.id)) is NOT_FOUND, "its manifests were never written"


def test_files_of_a_snapshot_without_manifests_are_none(port: GrpcRig, planner: Planner) -> None:
    name = table_with_snapshots(port, "listed")
    owner, tables = bearer(port.rig.token("alpha")), port.stub("TableService")
    request = table_pb2.GetTableRequest(table=common_pb2.ContentRef(name=name))
    location = tables.GetTable(request, metadata=[owner]).table.location
    path = f"{location}/metadata/snap-1.avro"
    assert unquote(urlparse(path).path).endswith("snap-1.avro")
    with write_manifest_list(2, PyArrowFileIO().new_output(path), 1, None, 1, "null"):
        pass
    assert planner.files(planner.begin(PlanInput(name=name)).id) == []
