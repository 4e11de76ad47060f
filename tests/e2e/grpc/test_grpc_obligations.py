"""Tables with column masks and row filters: no API shows their files or values to a caller that does not enforce these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list

from headwater.producer.access.policies import Policies, Target
from headwater.producer.access.rights import Right
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc import common_pb2, planning_pb2, reference_pb2, statistics_pb2, table_pb2
from headwater.schemas.rpc.planning_pb2 import BeginPlanRequest, GetCatalogBundleRequest, PlanInput, RelationRef
from headwater.service.storage.delegation_options import DelegationOptions
from headwater.service.storage.storage_options import StorageOptions
from tests.e2e.grpc.test_grpc_views_planned import view
from tests.support.fixtures.access_rig import META
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig, table_with_snapshots

DENIED, NOT_FOUND = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
MASK = {"columns": {"id": "0"}}
TOLD = StorageOptions(clients={"s3.region": "eu", "s3.secret-access-key": "told"}, delegation=DelegationOptions())


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-obligations"), storage=TOLD) as made:
        made.rig.commit("alpha", ("db",)).raise_for_status()
        yield made


class Masked:
    """A table with a mask, one that reads it, and one that enforces masks."""

    def __init__(self, port: GrpcRig, name: str) -> None:
        self.port = port
        self.name = table_with_snapshots(port, name)
        self.reader = port.rig.principal("alpha", f"{name}-reader", Right.CATALOG_WRITE)
        self.engine = port.rig.principal("alpha", f"{name}-engine", Right.TABLE_READ, Right.OBLIGATION_ENFORCE, path=("db",))

    def attach(self, policy: str, path: tuple[str, ...], type: str = "column-mask", content: Any = None) -> None:
        policies, catalog = Policies(self.port.rig.kernel("alpha")), Catalogs(self.port.rig.kernel("alpha")).get("lake")
        policies.create(policy, type=type, content=content or MASK, meta=META)
        policies.attach(policy, Target(catalog.id, path), parameters={"by": policy}, meta=META)

    def begin(self, token: str, **more: Any) -> planning_pb2.Plan:
        request = BeginPlanRequest(inputs=[PlanInput(name=self.name, **more)], ttl_seconds=600)
        plan: planning_pb2.Plan = self.stub.BeginPlan(request, metadata=[bearer(token)]).plan
        return plan

    def files(self, plan: str, token: str) -> list[Any]:
        return list(self.stub.PlanFiles(planning_pb2.PlanFilesRequest(plan_id=plan), metadata=[bearer(token)]))

    @property
    def stub(self) -> Any:
        return self.port.stub("PlanningService")

    def http(self, method: str, path: str, token: str, **more: Any) -> Any:
        table = f"/iceberg/v1/lake/namespaces/db/tables/{self.name.path[1]}"
        return self.port.rig.ask(method, f"{table}{path}", token=token, **more)


def refused(act: Callable[[], Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as error:
        act()
    code: grpc.StatusCode = error.value.code()
    return code


def write_manifests(masked: Masked) -> None:
    request = table_pb2.GetTableRequest(table=common_pb2.ContentRef(name=masked.name))
    owner = bearer(masked.port.rig.token("alpha"))
    location = masked.port.stub("TableService").GetTable(request, metadata=[owner]).table.location
    with write_manifest_list(2, PyArrowFileIO().new_output(f"{location}/metadata/snap-1.avro"), 1, None, 1, "null"):
        pass


def test_a_plan_lists_obligations_nearest_mapping_first_and_deterministically(port: GrpcRig) -> None:
    masked = Masked(port, "told")
    masked.attach("far", ("db",))
    masked.attach("near", ("db", "told"), content={"columns": {"id": "1"}})
    masked.attach("rows", ("db", "told"), "row-filter", {"filter": "id > 0"})
    masked.attach("beside", ("db", "told_too"))
    plan = masked.begin(masked.engine)
    found = plan.inputs[0].obligations
    assert [(one.type, one.policy, list(one.path)) for one in found] == [
        ("column-mask", "near", ["db", "told"]),
        ("row-filter", "rows", ["db", "told"]),
        ("column-mask", "far", ["db"]),
    ]
    assert found[0].content == '{"columns":{"id":"1"}}' and dict(found[0].parameters) == {"by": "near"}
    assert [one.pointer for one in plan.pins] == ["cat/1/heads/main"], "the pin of the policies is not shown"
    Policies(port.rig.kernel("alpha")).delete("near", detach_all=True, meta=META)
    got = masked.stub.GetPlan(planning_pb2.GetPlanRequest(plan_id=plan.id), metadata=[bearer(masked.engine)]).plan
    assert got.inputs[0].obligations == found
    Policies(port.rig.kernel("alpha")).delete("far", detach_all=True, meta=META)


@pytest.mark.parametrize(("type", "content"), [("column-mask", MASK), ("row-filter", {"filter": "id > 0"})])
def test_no_api_goes_around_a_mask(port: GrpcRig, type: str, content: Any) -> None:
    name = f"guarded_{type.partition('-')[0]}"
    masked = Masked(port, name)
    write_manifests(masked)
    column = statistics_pb2.ColumnStats(column_id=1, value_count=9, lower=b"\1" * 8, upper=b"\2" * 8)
    ref = statistics_pb2.SnapshotRef(table=common_pb2.ContentRef(name=masked.name))
    published = statistics_pb2.PutColumnStatsRequest(snapshot=ref, columns=[column])
    port.stub("TableStatisticsService").PutColumnStats(iter([published]), metadata=[bearer(masked.reader)])
    window = view(port, f"{name}_window", f"select * from {name}")
    before = masked.begin(masked.reader)
    rest = masked.http("POST", "/plan", masked.reader, json={}).json()
    assert masked.files(before.id, masked.reader) == [] and "plan-id" in rest
    masked.attach(f"guard-{name}", ("db", name), type, content)

    reader, statistics = bearer(masked.reader), port.stub("TableStatisticsService")
    columns = statistics_pb2.ListColumnStatsRequest(snapshot=ref)
    files = statistics_pb2.ListFileColumnStatsRequest(snapshot=ref)
    viewed = BeginPlanRequest(inputs=[PlanInput(name=window)])
    for act in (
        lambda: masked.begin(masked.reader),
        lambda: masked.files(before.id, masked.reader),
        lambda: masked.stub.BeginPlan(viewed, metadata=[reader]),
        lambda: statistics.ListColumnStats(columns, metadata=[reader]),
        lambda: statistics.ListFileColumnStats(files, metadata=[reader]),
    ):
        assert refused(act) is DENIED
    manage = f"/manage/v1/alpha/catalogs/lake/namespaces/db/tables/{name}/snapshots/current/statistics"
    for method, path, more in (
        ("POST", "/plan", {"json": {}}),
        ("GET", f"/plan/{rest['plan-id']}", {}),
        ("GET", "/credentials", {}),
    ):
        assert masked.http(method, path, masked.reader, **more).status_code == 403, path
        assert masked.http(method, path, masked.engine, **more).status_code in (200, 404), path
    for part in ("columns", "files"):
        assert port.rig.get(f"{manage}/{part}", masked.reader).status_code == 403
        assert port.rig.get(f"{manage}/{part}", masked.engine).status_code == 200
    assert port.rig.get(manage, masked.reader).status_code == 200, "totals hold no values"
    told = {token: masked.http("GET", "", token).json()["config"] for token in (masked.reader, masked.engine)}
    assert told[masked.reader] == {"s3.region": "eu"} and "s3.secret-access-key" in told[masked.engine]

    request = GetCatalogBundleRequest(relations=[RelationRef(catalog="lake", path=["db", name])])
    for token, shown in ((masked.reader, False), (masked.engine, True)):
        sent = masked.stub.GetCatalogBundle(request, metadata=[bearer(token)])
        parts = [part for one in sent for part in (one, *one.more)]
        relation = next(one.resolution.relation for one in parts if one.WhichOneof("part") == "resolution")
        assert relation.columns[0].HasField("stats") is shown and len(relation.obligations) == shown
    assert masked.files(masked.begin(masked.engine).id, masked.engine) == []


def test_a_mask_follows_the_files_to_branches_and_into_the_past(port: GrpcRig) -> None:
    masked = Masked(port, "moved")
    owner = bearer(port.rig.token("alpha"))
    created = reference_pb2.CreateReferenceRequest(catalog="lake", name="aside", type="branch")
    port.stub("ReferenceService").CreateReference(created, metadata=[owner])
    new = common_pb2.Name(catalog="lake", path=["db", "renamed"])
    move = table_pb2.UpdateTableRequest(
        target=common_pb2.ContentRef(name=masked.name), reference="aside", table=table_pb2.Table(name=new)
    )
    move.update_mask.paths.append("name")
    port.stub("TableService").UpdateTable(move, metadata=[owner])
    masked.attach("moving", ("db", "moved"))
    request = BeginPlanRequest(inputs=[PlanInput(name=new, reference="aside")])
    assert refused(lambda: masked.stub.BeginPlan(request, metadata=[bearer(masked.reader)])) is DENIED
    assert masked.stub.BeginPlan(request, metadata=[bearer(masked.engine)]).plan.id


def test_a_policy_that_no_engine_could_enforce_is_refused(port: GrpcRig) -> None:
    policies = Policies(port.rig.kernel("alpha"))
    for type, content in (
        ("column-mask", {}),
        ("column-mask", {"columns": {}}),
        ("column-mask", {"columns": {"id": ""}}),
        ("column-mask", {"columns": {"id": "0"}, "more": 1}),
        ("row-filter", {"columns": {"id": "0"}}),
        ("row-filter", {"filter": 1}),
    ):
        with pytest.raises(InvalidInput):
            policies.create("bad", type=type, content=content, meta=META)
    assert "bad" not in [one.name for one in policies.list()]
