"""A connector's tables are read where its source keeps them: loaded, planned, bundled, and given statistics."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from headwater.producer.commits.operations import Put
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.service.reconciling.source_factories import ReconcileOptions
from headwater.service.storage.storage_roots import StorageRoots
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig

TABLES = "/iceberg/v1/lake/namespaces"
ANYWHERE = ReconcileOptions(storage_roots=StorageRoots(anywhere=True))


class Lake:
    """A server, and a folder in which a source keeps a table of three rows."""

    def __init__(self, port: GrpcRig, folder: Path) -> None:
        self.port, self.folder = port, folder
        source = SqlCatalog("source", uri="sqlite://", warehouse=folder.as_uri())
        source.create_namespace("shop")
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
        made = source.create_table("shop.orders", rows.schema)
        made.append(rows)
        self.location = made.metadata_location
        body = {"name": "up", "source": "nessie", "uri": "https://nessie.example.com/api/v2", "roots": [folder.as_uri()]}
        where = {"catalog": "lake", "path": ["owned"], "paused": True}
        made = self.ask("POST", "/manage/v1/alpha/connectors", json=body | where)
        assert made.status_code == 201, made.text
        self.commit("namespace", Put(("owned",), Namespace()), Put(("free",), Namespace()))

    def commit(self, id: str, *puts: Put) -> None:
        """As the connector does."""
        kernel = self.port.rig.kernel("alpha")
        DestinationBranch(kernel, Connectors(kernel, {}).get("up")).commit(puts, Seen(version="1"), id)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        return self.port.rig.ask(method, path, token=self.port.rig.token("alpha"), **options)

    def call(self, method: str, request: Any) -> Any:
        token = bearer(self.port.rig.token("alpha"))
        return getattr(self.port.stub("PlanningService"), method)(request, metadata=[token])

    def plan(self, *path: str) -> Any:
        name = planning_pb2.PlanInput(name=common_pb2.Name(catalog="lake", path=path))
        return self.call("BeginPlan", planning_pb2.BeginPlanRequest(inputs=[name])).plan


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("source")
    with grpc_rig(tmp_path_factory.mktemp("observed"), reconcile=ANYWHERE, storage_roots=ANYWHERE.storage_roots) as port:
        made = Lake(port, folder)
        made.commit("table", Put(("owned", "orders"), IcebergTable(metadata_location=made.location)))
        yield made


def test_a_table_of_a_source_is_loaded_planned_and_bundled_though_it_lies_elsewhere(lake: Lake) -> None:
    loaded = lake.ask("GET", f"{TABLES}/owned/tables/orders")
    assert loaded.status_code == 200 and loaded.json()["metadata-location"] == lake.location, loaded.text
    plan = lake.plan("owned", "orders")
    files = [file for part in lake.call("PlanFiles", planning_pb2.PlanFilesRequest(plan_id=plan.id)) for file in part.files]
    assert [one.record_count for one in files] == [3] and files[0].path.startswith(lake.folder.as_uri())
    scanned = lake.ask("POST", f"{TABLES}/owned/tables/orders/plan", json={})
    assert scanned.status_code == 200 and len(scanned.json()["file-scan-tasks"]) == 1, scanned.text
    request = planning_pb2.GetCatalogBundleRequest(
        relations=[planning_pb2.RelationRef(catalog="lake", path=["owned", "orders"])]
    )
    parts = [one for first in lake.call("GetCatalogBundle", request) for one in (first, *first.more)]
    (resolution,) = [one.resolution for one in parts if one.WhichOneof("part") == "resolution"]
    assert resolution.status == planning_pb2.RESOLUTION_STATUS_FOUND
    assert [one.name for one in resolution.relation.columns] == ["id"] and resolution.relation.stats.table.row_count == 3


def test_statistics_of_an_observed_snapshot_are_published_and_read(lake: Lake) -> None:
    path = "/manage/v1/alpha/catalogs/lake/namespaces/owned/tables/orders/snapshots/current/statistics"
    unknown = lake.ask("PUT", path, json={"columns": [{"column_id": 7, "value_count": 1}]})
    assert unknown.status_code == 400, unknown.text
    lake.ask("PUT", path, json={"table": {"row_count": 3}}).raise_for_status()
    assert lake.ask("GET", path).json()["source"] == "published"


def test_the_same_file_is_read_at_no_other_key(lake: Lake) -> None:
    """⚠ Whoever may write a table elsewhere could read a source's files else, without a right to the connector's tables."""
    put = {"op": "put", "key": ["free2", "t"], "type": "ICEBERG_TABLE", "content": {"metadata_location": lake.location}}
    namespace = {"op": "put", "key": ["free2"], "type": "NAMESPACE", "content": {"properties": {}}}
    operations = {"catalog": "lake", "operations": [namespace, put]}
    lake.ask("POST", "/feed/v1/alpha/commit", json=operations).raise_for_status()
    refused = lake.ask("GET", f"{TABLES}/free2/tables/t")
    assert refused.status_code == 400 and "is not within the warehouse" in refused.text
    lake.ask("GET", f"{TABLES}/owned/tables/orders").raise_for_status()


def test_a_source_that_names_files_of_another_catalog_gets_none_of_them(lake: Lake, tmp_path: Path) -> None:
    """⚠ Claimed after the connector was made, within its roots, by another realm, and by this one."""
    for realm in ("alpha", "beta"):
        root = lake.folder / f"{realm}-later"
        shutil.copytree(lake.folder / "shop", root / "shop", dirs_exist_ok=True)
        stolen = f"{root.as_uri()}{lake.location.removeprefix(lake.folder.as_uri())}"
        lake.commit(f"before-{realm}", Put(("owned", realm), IcebergTable(metadata_location=stolen)))
        assert lake.ask("GET", f"{TABLES}/owned/tables/{realm}").status_code == 200, "nobody's yet"
        body = {"name": f"later-{realm}", "storage_root": root.as_uri()}
        token = lake.port.rig.token(realm)
        lake.port.rig.ask("POST", f"/manage/v1/{realm}/catalogs", token=token, json=body).raise_for_status()
    lake.port.rig.service.lakes._claims = (0.0, frozenset())
    for realm in ("alpha", "beta"):
        refusal = lake.ask("GET", f"{TABLES}/owned/tables/{realm}")
        assert refusal.status_code == 400 and "is not within the warehouse" in refusal.text
        with pytest.raises(grpc.RpcError) as refused:
            lake.plan("owned", realm)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert json.loads(lake.ask("GET", f"{TABLES}/owned/tables/orders").text)["metadata-location"] == lake.location
