"""Scans planned by the server, of tables that PyIceberg wrote: the files that PyIceberg plans, pinned until the plan ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Not,
    Or,
    StartsWith,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from headwater.embedded import CatalogHandle
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.producer.plans.plan_rows import PLAN_TYPE, plan_of
from tests.support.fixtures.iceberg_lake import IcebergLake

SCHEMA = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "region", StringType()), NestedField(3, "day", DateType()))
BY_DAY = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
DAY = date(2026, 1, 1)
NOT_R = Not(StartsWith("region", "r"))
"""⚠ Here PyIceberg keeps files whose values all begin so, unless their null counts are missing; Iceberg's planner does not."""
FILTERS: list[BooleanExpression] = [
    AlwaysTrue(),
    EqualTo("id", 12),
    GreaterThan("id", 25),
    And(GreaterThan("day", "2026-01-01"), LessThan("day", "2026-01-03")),
    In("region", {"r1", "nowhere"}),
    IsNull("region"),
    NOT_R,
    Or(EqualTo("id", 3), And(EqualTo("region", "r2"), LessThan("id", 0))),
]


def rows(first: int, count: int = 10) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "region": pa.array([None if id % 7 == 0 else f"r{id % 3}" for id in ids], pa.string()),
            "day": pa.array([DAY + timedelta(days=id // 12) for id in ids], pa.date32()),
        }
    )


@pytest.fixture
def table(lake: IcebergLake) -> Table:
    """Partitions by day, three commits, and a delete that rewrites a file."""
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_DAY)
    for first in (0, 10, 20):
        table.append(rows(first))
    table.delete("id = 5")
    return table


def planned_by_server(lake: IcebergLake, filter: BooleanExpression, snapshot_id: int | None = None) -> list[FileScanTask]:
    catalog = RestCatalog("lake", uri=lake.url, warehouse=lake.warehouse, **{"scan-planning-mode": "server"})
    lake.opened.append(catalog)
    assert catalog.supports_server_side_planning()
    return list(catalog.load_table("db.t").scan(row_filter=filter, snapshot_id=snapshot_id).plan_files())


def told(tasks: Iterable[FileScanTask]) -> list[tuple[str, int, int]]:
    return sorted((task.file.file_path, task.file.record_count, task.file.file_size_in_bytes) for task in tasks)


def plan(lake: IcebergLake, **body: Any) -> dict[str, Any]:
    answer = lake.http.post("namespaces/db/tables/t/plan", json={name.replace("_", "-"): value for name, value in body.items()})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["status"] == "completed"
    return found


def paths(found: dict[str, Any]) -> list[str]:
    return sorted(task["data-file"]["file-path"] for task in found["file-scan-tasks"])


def test_pyiceberg_gets_the_files_that_it_would_plan_itself(lake: IcebergLake, table: Table) -> None:
    for filter in FILTERS:
        here = told(table.scan(row_filter=filter).plan_files())
        planned = told(planned_by_server(lake, filter))
        assert planned == here or (filter is NOT_R and set(planned) < set(here)), filter
        assert len(here) < 5 or not any(column in str(filter) for column in ("id", "day")), "filters prune"


def test_older_snapshots_and_evolved_schemas_and_partitions_are_planned(lake: IcebergLake, table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.update_spec() as update:
        update.remove_field("day")
        update.add_field("region", IdentityTransform(), "region")
    with table.update_schema() as schema:
        schema.update_column("id", LongType())
    table.append(rows(30).set_column(0, "id", pa.array(range(30, 40), pa.int64())))
    for filter, snapshot_id in [*((one, None) for one in FILTERS), (FILTERS[1], first)]:
        found = plan(lake, filter=json.loads(filter.model_dump_json()), snapshot_id=snapshot_id)  # type: ignore[attr-defined]
        here = table.scan(row_filter=filter, snapshot_id=snapshot_id).plan_files()
        listed = sorted(task.file.file_path for task in here)
        assert paths(found) == listed or (filter is NOT_R and set(paths(found)) < set(listed)), filter
    found = plan(lake)
    partitions = {(task["data-file"]["spec-id"], *task["data-file"]["partition"]) for task in found["file-scan-tasks"]}
    assert {(0, "2026-01-01"), (1, "r1"), (1, None)} <= partitions
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("day")
    found = plan(lake, filter={"type": "gt", "term": "id", "value": 100})
    assert found["file-scan-tasks"] == [], "the column that an old partition was made of is gone"
    one = plan(lake, filter={"type": "eq", "term": "id", "value": 12})
    assert len(plan(lake)["file-scan-tasks"]) > len(one["file-scan-tasks"]) > 0
    old = plan(lake, snapshot_id=first, use_snapshot_schema=True, filter={"type": "is-null", "term": "day"})
    assert old["file-scan-tasks"] == [], "the schema of the snapshot still has the column"


def test_what_a_plan_reads_is_not_removed_until_it_ends(lake: IcebergLake, table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    found = plan(lake, snapshot_id=first)
    removal = {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [first]}]}
    answer = lake.http.post("namespaces/db/tables/t", json=removal)
    assert answer.status_code == 409 and found["plan-id"] not in answer.text and "plan" in answer.text
    again = lake.http.get(f"namespaces/db/tables/t/plan/{found['plan-id']}")
    assert again.json() == found
    ended = {"headers": {"Idempotency-Key": f"end-{found['plan-id']}"}}
    for sent in (ended, ended, {}):
        assert lake.http.delete(f"namespaces/db/tables/t/plan/{found['plan-id']}", **sent).status_code == 204
    lake.refused("GET", f"namespaces/db/tables/t/plan/{found['plan-id']}", 404, "NoSuchPlanIdException")
    assert lake.http.post("namespaces/db/tables/t", json=removal).status_code == 200
    lake.refused("POST", "namespaces/db/tables/t/plan", 404, "NotFoundException", json={"snapshot-id": first})
    assert paths(plan(lake)) == sorted(task.file.file_path for task in table.refresh().scan().plan_files())


def test_a_plan_outlives_its_table_until_it_expires(lake: IcebergLake, table: Table, shared_lake: CatalogHandle) -> None:
    found = plan(lake)
    table.append(rows(40))
    assert lake.http.get(f"namespaces/db/tables/t/plan/{found['plan-id']}").json() == found
    table.catalog.drop_table("db.t")
    table.catalog.create_table("db.t", SCHEMA)
    assert lake.http.get(f"namespaces/db/tables/t/plan/{found['plan-id']}").json() == found, "it reads what it pinned"
    assert plan(lake) == {"status": "completed", "file-scan-tasks": []}, "a table without rows needs no plan"
    table.catalog.create_table("db.other", SCHEMA)
    lake.refused("GET", f"namespaces/db/tables/other/plan/{found['plan-id']}", 404, "NoSuchPlanIdException")

    _expire(shared_lake, found["plan-id"])
    for method in ("GET", "DELETE"):
        lake.refused(method, f"namespaces/db/tables/t/plan/{found['plan-id']}", 404, "NoSuchPlanIdException")


def _expire(shared_lake: CatalogHandle, id: str) -> None:
    kernel = shared_lake.realm.kernel
    row = kernel.store.backend.read_mutable(kernel.realm, PLAN_TYPE, id)
    assert row is not None and plan_of(row).pinned_until - plan_of(row).created_at >= 3_600_000_000
    over = msgspec.structs.replace(plan_of(row), expires_at=1, pinned_until=2)
    aged = next_row(PLAN_TYPE, row.key, row, msgspec.msgpack.encode(over), row.created_at, expires_at=2)
    assert cas_row(kernel.store.backend, kernel.realm, row, aged, kernel.store.clock)


def test_many_files_are_planned_in_tasks(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(4):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in range(600):
                append.append_data_file(data_file(f"{table.location()}/data/{number}-{file}.parquet"))
    found = plan(lake)
    tasks = found["plan-tasks"]
    assert "file-scan-tasks" not in found and len(tasks) == 2
    parts = [lake.http.post("namespaces/db/tables/t/tasks", json={"plan-task": task}).json() for task in tasks]
    assert [len(part["file-scan-tasks"]) for part in parts] == [1_200, 1_200]
    assert sorted(path for part in parts for path in paths(part)) == sorted(t.file.file_path for t in table.scan().plan_files())
    assert len(planned_by_server(lake, AlwaysTrue())) == 2_400
    lake.http.delete(f"namespaces/db/tables/t/plan/{found['plan-id']}")
    path = "namespaces/db/tables/t/tasks"
    lake.refused("POST", path, 404, "NoSuchPlanIdException", json={"plan-task": tasks[0]})
    lake.refused("POST", path, 400, "BadRequestException", json={"plan-task": tasks[0][:-3]})


def test_hidden_partitions_prune(lake: IcebergLake) -> None:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    by_day = PartitionSpec(PartitionField(1, 1000, DayTransform(), "at_day"))
    table = catalog.create_table("db.t", Schema(NestedField(1, "at", TimestamptzType())), partition_spec=by_day)
    first_day = (DAY - date(1970, 1, 1)).days
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for day in range(5):
            append.append_data_file(data_file(f"{table.location()}/data/{day}.parquet", first_day + day))
    for filter in (
        EqualTo("at", "2026-01-03T12:00:00+00:00"),
        GreaterThan("at", "2026-01-04T00:00:00+00:00"),
        Not(GreaterThan("at", "2026-01-02T00:00:00+00:00")),
    ):
        here = told(table.scan(row_filter=filter).plan_files())
        assert told(planned_by_server(lake, filter)) == here and 0 < len(here) < 3, filter


def data_file(path: str, *partition: int) -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=1,
        file_size_in_bytes=100,
    )
    file.spec_id = 0
    return file


BAD_FILTERS: dict[str, Any] = {
    "unknown column": {"type": "eq", "term": "nothing", "value": 1},
    "wrong type": {"type": "eq", "term": "id", "value": "x"},
    "no expression": {"type": "nonsense"},
    "a list": [1, 2],
    "too large": {"type": "in", "term": "region", "values": ["x" * 1_000 for _ in range(70)]},
    "wrong case": {"type": "eq", "term": "ID", "value": 1},
}


def test_a_table_that_cannot_be_planned_is_refused_and_pins_nothing(
    lake: IcebergLake, table: Table, shared_lake: CatalogHandle
) -> None:
    kernel = shared_lake.realm.kernel
    path = "namespaces/db/tables/t/plan"
    before = len(list(kernel.store.backend.all_mutable(kernel.realm, PLAN_TYPE)))
    for filter in BAD_FILTERS.values():
        lake.refused("POST", path, 400, "BadRequestException", json={"filter": filter})
    lake.refused("POST", path, 404, "NotFoundException", json={"snapshot-id": 7})
    lake.refused("POST", "namespaces/db/tables/none/plan", 404, "NoSuchTableException", json={})
    incremental = {"start-snapshot-id": 1, "end-snapshot-id": 2}
    lake.refused("POST", path, 406, "UnsupportedOperationException", json=incremental)
    lake.refused("GET", f"{path}/{'0' * 32}", 404, "NoSuchPlanIdException")
    with pytest.raises(RESTError):
        planned_by_server(lake, EqualTo("nothing", 1))
    assert len(list(kernel.store.backend.all_mutable(kernel.realm, PLAN_TYPE))) == before
    assert plan(lake, case_sensitive=False, filter={"type": "eq", "term": "ID", "value": 3})["file-scan-tasks"]
