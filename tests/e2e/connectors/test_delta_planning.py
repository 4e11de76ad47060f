"""Delta tables below a connector's destination are planned by the connector's source, from their own logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.producer.access.policies import Policies, Target
from headwater.producer.access.rights import Right
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.service.reconciling.reconciler import Reconciler
from headwater.service.reconciling.source_factories import ReconcileOptions
from headwater.service.storage.storage_roots import StorageRoots
from tests.support.fixtures.access_rig import META
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig

CODES = grpc.StatusCode
OPTIONS = ReconcileOptions(storage_roots=StorageRoots(anywhere=True))


class Lake:
    """A server that bridges a folder of Delta tables into `lake.delta`."""

    def __init__(self, port: GrpcRig, folder: Path) -> None:
        self.port, self.folder = port, folder
        body = {"name": "d", "source": "delta", "uri": folder.as_uri(), "roots": [f"{folder.as_uri()}/"]}
        made = self.ask("POST", "/manage/v1/alpha/connectors", json=body | {"catalog": "lake", "path": ["delta"]})
        assert made.status_code == 201, made.text

    def ask(self, method: str, path: str, **options: Any) -> Any:
        return self.port.rig.ask(method, path, token=self.port.rig.token("alpha"), **options)

    def write(self, name: str, rows: dict[str, Any], **options: Any) -> DeltaTable:
        place = self.folder / "shop" / name
        write_deltalake(str(place), pa.table(rows), mode="append", **options)
        return DeltaTable(str(place))

    def reconcile(self) -> None:
        (job,) = Reconciler(self.port.rig.store, OPTIONS).run_once("d")
        assert (job.state, job.failures) == ("SUCCEEDED", ()), job

    def call(self, method: str, request: Any, token: str | None = None) -> Any:
        sent = bearer(token or self.port.rig.token("alpha"))
        return getattr(self.port.stub("PlanningService"), method)(request, metadata=[sent])

    def plan(self, name: str, token: str | None = None, **more: Any) -> Any:
        path = common_pb2.Name(catalog="lake", path=["delta", "shop", name])
        request = planning_pb2.BeginPlanRequest(inputs=[planning_pb2.PlanInput(name=path, **more)])
        return self.call("BeginPlan", request, token).plan

    def files(self, plan: Any, filter: dict[str, Any] | None = None, token: str | None = None) -> list[Any]:
        text = "" if filter is None else json.dumps(filter)
        request = planning_pb2.PlanFilesRequest(plan_id=plan.id, index=0, filter=text)
        return [file for part in self.call("PlanFiles", request, token) for file in part.files]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("delta-source")
    (folder / "shop").mkdir()
    reconcile = {"reconcile": OPTIONS, "storage_roots": OPTIONS.storage_roots}
    with grpc_rig(tmp_path_factory.mktemp("delta-planning"), **reconcile) as port:
        yield Lake(port, folder)


def refused(act: Callable[[], Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as error:
        act()
    code: grpc.StatusCode = error.value.code()
    return code


def paths(files: list[Any]) -> set[str]:
    return {one.path for one in files if one.content == planning_pb2.FILE_CONTENT_DATA}


def of_delta(table: DeltaTable) -> set[str]:
    """What the library lists."""
    return {f"file://{one}" if one.startswith("/") else one for one in table.file_uris()}


def actions(log: Path, version: int, kind: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (log / f"{version:020d}.json").read_text().splitlines()]
    return [one[kind] for one in read if kind in one]


def test_the_files_are_those_that_delta_lists_at_the_version_that_was_observed(lake: Lake) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        table = lake.write("orders", {"id": [1, 2], "day": [day] * 2}, partition_by=["day"])
    lake.reconcile()
    plan = lake.plan("orders")
    assert plan.inputs[0].snapshot_id == table.version() == 1 and not plan.inputs[0].obligations
    later = lake.write("orders", {"id": [3], "day": ["2026-01-03"]})
    assert paths(lake.files(plan)) == of_delta(table), "what came later was not observed when the plan began"
    assert lake.plan("orders").inputs[0].snapshot_id == 1
    lake.reconcile()
    later.delete("id = 1")
    later.create_checkpoint()
    later.optimize.compact()
    lake.reconcile()
    newest = lake.plan("orders")
    assert paths(lake.files(newest)) == of_delta(DeltaTable(str(lake.folder / "shop" / "orders")))
    early = lake.plan("orders", snapshot_id=0)
    assert paths(lake.files(early)) == of_delta(DeltaTable(str(lake.folder / "shop" / "orders"), version=0))
    assert refused(lambda: lake.plan("orders", snapshot_id=99)) is CODES.NOT_FOUND
    one_day = {"type": "eq", "term": "day", "value": "2026-01-02"}
    found = paths(lake.files(newest, one_day))
    assert found == {one for one in of_delta(DeltaTable(str(lake.folder / "shop" / "orders"))) if "day=2026-01-02" in one}
    assert len(found) == 1


FILTERS = {
    "greater": ({"type": "gt", "term": "id", "value": 15}, {2}),
    "below all": ({"type": "lt", "term": "id", "value": 0}, set[int]()),
    "text": ({"type": "eq", "term": "name", "value": "m"}, {1}),
    "nulls": ({"type": "is-null", "term": "name"}, {2}),
    "a column without bounds": ({"type": "gt", "term": "price", "value": 1e9}, {0, 1, 2}),
    "or": (
        {
            "type": "or",
            "left": {"type": "eq", "term": "id", "value": 3},
            "right": {"type": "gt-eq", "term": "amount", "value": "20.00"},
        },
        {0, 2},
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_files_are_left_out_by_statistics_and_never_one_that_holds_rows(lake: Lake, name: str) -> None:
    place = lake.folder / "shop" / "lines"
    if not place.exists():
        for first, names in ((0, ["a", "b"]), (10, ["m", "n"]), (20, [None, "z"])):
            amounts = pa.array([first, first + 5], pa.decimal128(9, 2))
            rows = {"id": [first, first + 5], "name": names, "amount": amounts, "price": [1.0, float("nan")]}
            lake.write("lines", rows)
        lake.reconcile()
    order = [one["path"] for version in range(3) for one in actions(place / "_delta_log", version, "add")]
    filter, wanted = FILTERS[name]
    found = {order.index(one.rpartition("/")[2]) for one in paths(lake.files(lake.plan("lines"), filter))}
    assert found == wanted


def test_a_deletion_vector_precedes_its_file_and_an_unreadable_one_is_refused(lake: Lake) -> None:
    table = lake.write("vectors", {"id": [1, 2]})
    log = lake.folder / "shop" / "vectors" / "_delta_log"
    path = actions(log, 0, "add")[0]["path"]
    assert table.version() == 0
    vector = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 36, "cardinality": 1}
    file = {"path": path, "size": 10, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": []}

    def commit(version: int, *actions: dict[str, Any]) -> None:
        (log / f"{version:020d}.json").write_text("\n".join(json.dumps(one) for one in actions))

    commit(1, {"protocol": protocol}, {"remove": {"path": path}}, {"add": file | {"deletionVector": vector}})
    lake.reconcile()
    deletes, data = lake.files(lake.plan("vectors"))
    assert (deletes.content, deletes.content_offset, deletes.record_count) == (planning_pb2.FILE_CONTENT_POSITION_DELETES, 1, 1)
    assert deletes.path.endswith(".bin") and deletes.referenced_data_file == data.path and list(data.deletes) == [deletes.id]
    inline = file | {"deletionVector": vector | {"storageType": "i"}}
    commit(2, {"remove": {"path": path, "deletionVector": vector}}, {"add": inline})
    lake.reconcile()
    assert refused(lambda: lake.files(lake.plan("vectors"))) is CODES.UNIMPLEMENTED
    assert len(lake.files(lake.plan("vectors", snapshot_id=1))) == 2


def test_rights_masks_and_the_connector_itself_count(lake: Lake) -> None:
    lake.write("masked", {"id": [1]})
    lake.reconcile()
    reader = lake.port.rig.principal("alpha", "delta-reader", Right.TABLE_READ)
    stranger = lake.port.rig.principal("alpha", "delta-stranger")
    assert refused(lambda: lake.plan("masked", stranger)) is CODES.PERMISSION_DENIED
    plan = lake.plan("masked", reader)
    assert len(lake.files(plan, token=reader)) == 1
    assert refused(lambda: lake.files(plan)) is CODES.NOT_FOUND, "a plan of another"
    kernel = lake.port.rig.kernel("alpha")
    Policies(kernel).create("mask", type="column-mask", content={"columns": {"id": "0"}}, meta=META)
    Policies(kernel).attach("mask", Target(Catalogs(kernel).get("lake").id, ("delta", "shop", "masked")), meta=META)
    assert refused(lambda: lake.files(plan, token=reader)) is CODES.PERMISSION_DENIED
    assert refused(lambda: lake.plan("masked", reader)) is CODES.PERMISSION_DENIED


def test_a_bundle_reports_a_delta_table_as_an_error_and_not_as_missing(lake: Lake) -> None:
    lake.write("bundled", {"id": [1]})
    lake.reconcile()
    for plan_id in ("", lake.plan("bundled").id):
        relations = [planning_pb2.RelationRef(catalog="lake", path=["delta", "shop", "bundled"])]
        request = planning_pb2.GetCatalogBundleRequest(plan_id=plan_id, relations=relations)
        parts = [one for first in lake.call("GetCatalogBundle", request) for one in (first, *first.more)]
        (resolution,) = [one.resolution for one in parts if one.WhichOneof("part") == "resolution"]
        assert resolution.status == planning_pb2.RESOLUTION_STATUS_ERROR, resolution
