"""Statistics over HTTP on a table that PyIceberg wrote: published whole, read in pages, one small Change each."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from headwater.embedded import CatalogHandle
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PinnedEntry, PlanInput, PlanOptions
from headwater.producer.plans.plans import Plans
from headwater.producer.statistics.statistics_records import SetKey
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.statistics.unlisted_statistics import UnlistedStatistics
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake


def bound(value: int) -> str:
    return base64.b64encode(struct.pack("<q", value)).decode()


class Served(NamedTuple):
    http: httpx.Client
    """Paths are relative to the table."""
    feed: httpx.Client
    branch: str
    snapshot_id: int

    def ask(self, method: str, path: str = "current/statistics", **request: Any) -> httpx.Response:
        query = {"branch": self.branch, **request.pop("params", {})}
        return self.http.request(method, f"snapshots/{path}", params=query, **request)

    def put(self, body: dict[str, Any], status: int = 200, **request: Any) -> dict[str, Any]:
        answer = self.ask("PUT", json=body, **request)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def head(self) -> int:
        pointers = self.feed.get("/pointers", params={"limit": 1_000}).json()["pointers"]
        return next((one["seq"] for one in pointers if one["name"] == "cat/1/stats"), 0)


@pytest.fixture
def served(branch: FeedBranch, lake: IcebergLake) -> Iterator[Served]:
    catalog = lake.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", ROWS.schema)
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = "/manage/v1/default/catalogs/lake/namespaces/db/tables/orders/"
    with httpx.Client(base_url=branch.server.url + path, timeout=60) as http:
        yield Served(http, branch.http, branch.name, snapshot.snapshot_id)


def test_totals_come_from_the_summary_until_statistics_are_published(served: Served) -> None:
    found = served.ask("GET").json()
    assert (found["source"], found["table"]["row_count"], found["version"]) == ("snapshot-summary", 3, None)
    before = served.head()
    written = served.put(
        {
            "table": {"row_count": 3, "file_count": 1},
            "columns": [
                {"column_id": 2, "value_count": 3},
                {
                    "column_id": 1,
                    "value_count": 3,
                    "null_count": 0,
                    "lower": bound(1),
                    "upper": bound(3),
                    "distinct": {"count": 3, "is_exact": True},
                    "histogram": {"bounds": [bound(1), bound(3)], "counts": [3]},
                },
            ],
            "files": [{"path": f"f{number:03d}", "row_count": 1} for number in range(250)],
        }
    )
    assert (written["columns_sent"], written["files_sent"], written["meta"]["seq"]) == (2, 250, before + 1)
    answer = served.ask("GET", f"{served.snapshot_id}/statistics")
    found = answer.json()
    assert (found["source"], found["columns"], found["files"]) == ("published", 2, 250)
    assert answer.headers["etag"] == f'"{found["version"]}"'
    columns = served.ask("GET", "current/statistics/columns").json()
    assert [one["column_id"] for one in columns["columns"]] == [1, 2] and columns["columns"][0]["lower"] == bound(1)
    paths, token = [], None
    while True:
        page = served.ask("GET", "current/statistics/files", params={"limit": 99} | ({"token": token} if token else {})).json()
        paths += [one["path"] for one in page["files"]]
        token = page["next_token"]
        if token is None:
            break
    assert paths == [f"f{number:03d}" for number in range(250)]
    changes = served.feed.get("/changes", params={"pointer": "cat/1/stats", "after": before, "limit": 10}).json()["changes"]
    assert len(changes) == 1
    [operation] = changes[0]["operations"]
    assert operation["key"] == [found["table_id"], str(served.snapshot_id)] and operation["after"]["files"] == 250


def test_a_key_publishes_once_and_a_stale_version_deletes_nothing(served: Served) -> None:
    body = {"columns": [{"column_id": 1, "value_count": 3}]}
    first = served.put(body, headers={"idempotency-key": f"k-{served.branch}"})
    again = served.put(body, headers={"idempotency-key": f"k-{served.branch}"})
    assert first["meta"]["seq"] == again["meta"]["seq"] == served.head()
    served.put({"columns": [{"column_id": 2, "value_count": 3}]})
    stale = served.ask("DELETE", headers={"if-match": f'"{first["statistics"]["version"]}"'})
    assert stale.status_code == 412, stale.text
    assert served.ask("DELETE").status_code == 200
    assert served.ask("DELETE").status_code == 404
    assert served.ask("GET", "current/statistics/columns").json() == {"columns": [], "next_token": None}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "table"),
        ({"columns": [{"column_id": 9}]}, 400, "columns[0].column_id"),
        ({"columns": [{"column_id": 1, "value_count": 1, "null_count": 2}]}, 400, "columns[0].null_count"),
        ({"columns": [{"column_id": 1, "distinct": {"count": -1}}]}, 400, "columns[0].distinct.count"),
        (
            {"columns": [{"column_id": 1, "histogram": {"bounds": [bound(2), bound(1)], "counts": [1]}}]},
            400,
            "columns[0].histogram.bounds[1]",
        ),
        ({"columns": [{"column_id": 1, "lower": "no base64"}]}, 400, None),
        ({"columns": [{"column_id": 1}, {"column_id": 1}]}, 400, "rows"),
        ({"mode": "append", "table": {"row_count": 1}}, 400, None),
        ({"table": {"row_count": 1, "rows": 1}}, 400, None),
        ({"table": {"row_count": 2**63}}, 400, "table.row_count"),
    ],
)
def test_bad_statistics_are_refused_by_field_and_change_nothing(
    served: Served, body: dict[str, Any], status: int, field: str | None
) -> None:
    before = served.head()
    problem = served.put(body, status)
    assert field is None or problem["field"] == field, problem
    assert served.head() == before


def test_what_is_not_there_is_named(served: Served) -> None:
    for path, status, code in [
        ("1/statistics", 404, "SNAPSHOT_NOT_FOUND"),
        ("first/statistics", 400, "INVALID_INPUT"),
        ("01/statistics", 400, "INVALID_INPUT"),
    ]:
        answer = served.ask("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    other = served.http.get("../other/snapshots/current/statistics", params={"branch": served.branch})
    assert (other.status_code, other.json()["code"]) == (404, "TABLE_NOT_FOUND")


def test_statistics_go_a_day_after_their_snapshot_is_gone(
    served: Served, lake: IcebergLake, shared_lake: CatalogHandle
) -> None:
    first = served.snapshot_id
    table = lake.catalog().load_table("db.orders")
    table.append(ROWS)
    for snapshot in table.snapshots():
        assert served.ask("PUT", f"{snapshot.snapshot_id}/statistics", json={"table": {"row_count": 7}}).status_code == 200
    kernel, catalog = shared_lake.realm.kernel, shared_lake.info
    sets = StatisticsSets(kernel, catalog.id)
    content_id = str(table.metadata.table_uuid)

    def left() -> list[int]:
        return [one.snapshot_id for one in table.snapshots() if sets.find(SetKey(content_id, one.snapshot_id)) is not None]

    def clean(**kept: int) -> None:
        UnlistedStatistics(kernel.store, Lakes(), **kept).delete(kernel, catalog)

    body = {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [first]}]}
    both = left()
    clean(kept_seconds=0)
    assert left() == both and len(both) == 2, "both are listed"
    tag = shared_lake.create_tag(f"{served.branch}-tag", served.branch)
    assert lake.http.post("namespaces/db/tables/orders", json=body).status_code == 200
    clean(kept_seconds=0)
    assert left() == both, "the tag lists the first one"
    tag.delete()
    clean()
    assert left() == both, "it is less than a day old"
    clean(kept_seconds=0)
    assert left() == [one for one in both if one != first]


def test_statistics_that_a_plan_reads_stay_although_its_table_was_dropped(
    served: Served, lake: IcebergLake, shared_lake: CatalogHandle
) -> None:
    table = lake.catalog().load_table("db.orders")
    kernel, catalog, content_id = shared_lake.realm.kernel, shared_lake.info, str(table.metadata.table_uuid)
    served.put({"table": {"row_count": 7}})
    planned = PlanInput(
        catalog=catalog.name,
        catalog_id=catalog.id,
        key=("db", "orders"),
        type="ICEBERG_TABLE",
        content_id=content_id,
        metadata_location=table.metadata_location,
        snapshot_id=served.snapshot_id,
    )
    plans, pointer = Plans(kernel, PlanOptions(), PlanCounts()), shared_lake.branch(served.branch).pointer
    plan = plans.begin("ann", [planned], [PinnedEntry(pointer, PointerLog(kernel, pointer).head().seq, b"")], seconds=600)
    assert lake.http.delete("namespaces/db/tables/orders").status_code == 204
    sets, cleaning = StatisticsSets(kernel, catalog.id), UnlistedStatistics(kernel.store, Lakes(), kept_seconds=0)
    cleaning.delete(kernel, catalog)
    assert sets.find(SetKey(content_id, served.snapshot_id)) is not None
    plans.end(plan.id, "ann")
    cleaning.delete(kernel, catalog)
    assert sets.find(SetKey(content_id, served.snapshot_id)) is None
