"""Bundles over gRPC: every relation of a query, found, not found or failed, with types before their first use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import grpc
import pytest

from headwater.producer.access.rights import Right
from headwater.schemas.rpc import common_pb2, planning_pb2, statistics_pb2, table_pb2
from headwater.schemas.rpc.planning_pb2 import GetCatalogBundleRequest, NamespacePath, RelationRef, Session
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig, table_with_snapshots

FOUND, NOT_FOUND, ERROR = 1, 2, 3
IN_DB = Session(
    default_namespace=NamespacePath(catalog="lake", path=["other"]), search_path=[NamespacePath(catalog="lake", path=["db"])]
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-bundles")) as made:
        made.rig.commit("alpha", ("db",), ("other",)).raise_for_status()
        yield made


def bundle(port: GrpcRig, *relations: RelationRef, token: str | None = None, **more: Any) -> list[Any]:
    request = GetCatalogBundleRequest(relations=relations, **more)
    owner = bearer(port.rig.token("alpha") if token is None else token)
    return [
        part for one in port.stub("PlanningService").GetCatalogBundle(request, metadata=[owner]) for part in (one, *one.more)
    ]


def named(*path: str, catalog: str = "") -> RelationRef:
    return RelationRef(catalog=catalog, path=path)


def test_relations_are_resolved_in_the_order_of_the_session_with_types_and_statistics(port: GrpcRig) -> None:
    owner = bearer(port.rig.token("alpha"))
    name = table_with_snapshots(port, "orders")
    column = statistics_pb2.ColumnStats(column_id=1, value_count=10, distinct=statistics_pb2.DistinctCount(count=4))
    ref = statistics_pb2.SnapshotRef(table=common_pb2.ContentRef(name=name))
    part = statistics_pb2.PutColumnStatsRequest(snapshot=ref, columns=[column])
    port.stub("TableStatisticsService").PutColumnStats(iter([part]), metadata=[owner])
    partitioned = table_pb2.CreateTableRequest(
        name=common_pb2.Name(catalog="lake", path=["other", "lines"]),
        schema=SCHEMA,
        partition_spec='{"spec-id":0,"fields":[{"source-id":1,"field-id":1000,"name":"id","transform":"identity"}]}',
    )
    port.stub("TableService").CreateTable(partitioned, metadata=[owner])
    session = Session()
    session.CopyFrom(IN_DB)
    session.search_path.extend(IN_DB.search_path)
    session.temporary_relations.add(name="lines_tmp", schema=SCHEMA.replace('"long"', '"string"'))
    asked = [named("orders"), named("lines"), named("lines_tmp"), named("nothing"), named("db", "orders", catalog="lake")]
    parts = bundle(port, *asked, session=session, include_builtins=True)
    kinds = [one.WhichOneof("part") for one in parts]
    assert kinds == ["header", "type", "resolution", "resolution", "type", *["resolution"] * 3, "builtins", "session", "end"]
    orders, lines, temporary, nothing, whole = [one.resolution for one in parts if one.WhichOneof("part") == "resolution"]
    assert [one.status for one in (orders, lines, temporary, nothing, whole)] == [FOUND, FOUND, FOUND, NOT_FOUND, FOUND]
    assert [list(one.path) for one in orders.attempted] == [["other", "orders"], ["db", "orders"]]
    assert [list(one.path) for one in nothing.attempted] == [["other", "nothing"], ["db", "nothing"]]
    relation = orders.relation
    assert (relation.snapshot_id, relation.stats.table.row_count, relation.columns[0].stats) == (1, 10, column)
    assert lines.relation.columns[0].is_partition and not relation.columns[0].is_partition
    assert lines.relation.columns[0].type_id == relation.columns[0].type_id == parts[1].type.id != parts[4].type.id
    assert temporary.relation.is_temporary and whole.relation == relation
    assert len(parts[-2].session.search_path) == 1, "without duplicates"
    end = parts[-1].end
    assert (end.types, end.found, end.not_found, end.errors) == (2, 4, 1, 0)
    builtins = parts[-3].builtins
    assert any(one.name == "system.bucket" for one in builtins.functions)
    again = bundle(port, named("orders"), session=session, include_builtins=True, builtins_digest=builtins.digest)
    assert "builtins" not in [one.WhichOneof("part") for one in again]


def test_a_relation_that_was_sent_before_is_sent_in_its_current_state(port: GrpcRig) -> None:
    owner, name = bearer(port.rig.token("alpha")), table_with_snapshots(port, "told_again")
    asked = named("db", "told_again", catalog="lake")

    def told() -> Any:
        return next(one.resolution.relation for one in bundle(port, asked) if one.WhichOneof("part") == "resolution")

    assert told() == told() and not told().columns[0].HasField("stats")
    ref = statistics_pb2.SnapshotRef(table=common_pb2.ContentRef(name=name))
    for count in (4, 5):
        column = statistics_pb2.ColumnStats(column_id=1, value_count=10, distinct=statistics_pb2.DistinctCount(count=count))
        part = statistics_pb2.PutColumnStatsRequest(snapshot=ref, columns=[column])
        port.stub("TableStatisticsService").PutColumnStats(iter([part]), metadata=[owner])
        assert told().columns[0].stats == column
    port.stub("TableStatisticsService").DeleteStats(statistics_pb2.DeleteStatsRequest(snapshot=ref), metadata=[owner])
    assert not told().columns[0].HasField("stats")


def test_no_message_of_a_bundle_is_larger_than_clients_take(port: GrpcRig) -> None:
    """Sketches are left out before a relation is."""
    owner, path = bearer(port.rig.token("alpha")), common_pb2.Name(catalog="lake", path=["db", "wide"])
    fields = [{"id": id, "name": f"c{id}", "required": False, "type": "long"} for id in range(1, 81)]
    name = table_with_snapshots(port, "wide", schema=json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
    assert name == path
    ref = statistics_pb2.SnapshotRef(table=common_pb2.ContentRef(name=name))
    sketch = statistics_pb2.Sketch(type="theta", data=b"x" * 60_000)
    distinct = statistics_pb2.DistinctCount(count=4, sketches=[sketch])
    parts = [
        statistics_pb2.PutColumnStatsRequest(
            snapshot=ref, columns=[statistics_pb2.ColumnStats(column_id=one["id"], value_count=10, distinct=distinct)]
        )
        for one in fields
    ]
    port.stub("TableStatisticsService").PutColumnStats(iter(parts), metadata=[owner])
    asked = [named("db", "wide", catalog="lake")] * 3
    relation = [one.resolution.relation for one in bundle(port, *asked) if one.WhichOneof("part") == "resolution"][-1]
    assert [one.stats.distinct.count for one in relation.columns] == [4] * 80
    assert not any(one.stats.distinct.sketches for one in relation.columns)


def test_a_bundle_of_a_plan_shows_what_the_plan_pins(port: GrpcRig) -> None:
    owner = bearer(port.rig.token("alpha"))
    name = table_with_snapshots(port, "planned", 2)
    table_with_snapshots(port, "beside")
    inputs = [planning_pb2.PlanInput(name=name, snapshot_id=1)]
    plan = port.stub("PlanningService").BeginPlan(planning_pb2.BeginPlanRequest(inputs=inputs), metadata=[owner]).plan
    parts = bundle(port, named("planned"), named("beside"), session=IN_DB, plan_id=plan.id)
    assert parts[0].header.pins == plan.pins and parts[0].header.plan_id == plan.id
    planned, beside = [one.resolution for one in parts if one.WhichOneof("part") == "resolution"]
    assert (planned.relation.snapshot_id, beside.status) == (1, NOT_FOUND), "the plan does not pin the other"
    with pytest.raises(grpc.RpcError) as refused:
        bundle(port, named("planned"), plan_id="0" * 32)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_an_unreadable_relation_is_not_found(port: GrpcRig) -> None:
    table_with_snapshots(port, "hidden")
    token = port.rig.principal("alpha", "elsewhere", Right.TABLE_READ, path=("other",))
    asked = [named("db", "hidden", catalog="lake"), named("db", "absent", catalog="lake"), named("x", catalog="absent")]
    told = [one.resolution for one in bundle(port, *asked, token=token) if one.WhichOneof("part") == "resolution"]
    assert [one.status for one in told] == [NOT_FOUND] * 3
    assert not any(one.error or one.HasField("relation") for one in told)


def test_a_relation_that_cannot_be_read_is_an_error(port: GrpcRig) -> None:
    owner, request = bearer(port.rig.token("alpha")), table_pb2.GetTableRequest()
    name = table_with_snapshots(port, "broken")
    request.table.name.CopyFrom(name)
    location = port.stub("TableService").GetTable(request, metadata=[owner]).table.metadata_location
    file = Path(unquote(urlparse(location).path))
    file.rename(file.with_suffix(".away"))
    for branch in port.rig.service.lakes._metadata.values():
        branch._kept.forget((branch.warehouse.root, location))
    first, second = [one.resolution for one in bundle(port, named("broken"), named("nothing"), session=IN_DB)[1:3]]
    assert (first.status, second.status) == (ERROR, NOT_FOUND)
    assert first.error_code and not first.HasField("relation")


@pytest.mark.parametrize(
    "bad",
    [
        {"relations": [RelationRef()]},
        {"relations": [named("")]},
        {"relations": [named("x")] * 1_001},
        {"session": Session(search_path=[NamespacePath()])},
        {"session": Session(temporary_relations=[planning_pb2.TemporaryRelation(name="t", schema="{}")])},
        {"session": Session(temporary_relations=[planning_pb2.TemporaryRelation(name="t", schema=SCHEMA)] * 2)},
        {"plan_id": "a", "reference": "main"},
    ],
)
def test_bad_bundles_are_refused(port: GrpcRig, bad: dict[str, Any]) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        list(
            port.stub("PlanningService").GetCatalogBundle(
                GetCatalogBundleRequest(**bad), metadata=[bearer(port.rig.token("alpha"))]
            )
        )
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
