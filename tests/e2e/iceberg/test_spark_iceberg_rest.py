"""Spark with the Iceberg runtime against a real server: tables and views live their life, beside PyIceberg, told once each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPENDS = 3


@pytest.fixture
def catalog(spark: SparkSession, lake: IcebergLake, branch: FeedBranch) -> Iterator[str]:
    """The branch as a catalog of Spark's; each test has one of its own, for Spark keeps what it has opened."""
    name = f"hw_{branch.name}"
    conf = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": lake.url,
        ".warehouse": lake.warehouse,
        ".cache-enabled": "false",
    }
    for key, value in conf.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    yield name
    spark.sql("USE spark_catalog")
    for key in conf:
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def told(branch: FeedBranch, type: str) -> list[dict[str, Any]]:
    changes = branch.changes(limit=1_000)["changes"]
    return [one for change in changes for one in change["operations"] if one["type"] == type]


def ids(spark: SparkSession, query: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(query).collect())


def test_spark_creates_evolves_fills_branches_renames_and_drops(
    spark: SparkSession, catalog: str, branch: FeedBranch, lake: IcebergLake
) -> None:
    table = f"{catalog}.db.orders"
    spark.sql(f"CREATE NAMESPACE {catalog}.db")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c', 'new')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    first = told(branch, "ICEBERG_TABLE")[1]["after"]["snapshot_id"]
    assert ids(spark, f"SELECT id FROM {table}") == [2, 3]
    assert ids(spark, f"SELECT id FROM {table} VERSION AS OF {first}") == [1, 2]
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {table}.branch_audit VALUES (9, 'z', 'aside')")
    assert (ids(spark, f"SELECT id FROM {table}"), ids(spark, f"SELECT id FROM {table}.branch_audit")) == ([2, 3], [2, 3, 9])
    spark.sql(f"ALTER TABLE {table} RENAME TO db.sales")
    assert lake.catalog().load_table("db.sales").scan().to_arrow().num_rows == 2
    spark.sql(f"DROP TABLE {catalog}.db.sales")
    assert not spark.catalog.tableExists(f"{catalog}.db.sales")

    operations = told(branch, "ICEBERG_TABLE")
    assert [one["op"] for one in operations] == ["put"] * 7 + ["rename", "delete"]
    puts = [one["after"] for one in operations if one["op"] == "put"]
    assert len({one["metadata_location"] for one in puts}) == 7
    assert [one["schema_id"] for one in puts] == [0, 0, 1, 1, 1, 1, 1]
    snapshots = [one.get("snapshot_id") for one in puts]
    assert (snapshots[0], snapshots[2], snapshots[5:]) == (None, snapshots[1], [snapshots[4]] * 2)
    assert len(set(snapshots)) == 4


def test_spark_writes_format_3_with_row_ids_and_deletion_vectors(
    spark: SparkSession, catalog: str, branch: FeedBranch, lake: IcebergLake
) -> None:
    table = f"{catalog}.db.t"
    modes = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE NAMESPACE {catalog}.db")
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg TBLPROPERTIES ({modes})")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 3, 1, 1)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert ids(spark, f"SELECT id FROM {table}") == [0, 2]
    metadata = lake.http.get("namespaces/db/tables/t").json()["metadata"]
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 3)
    assert [one["first-row-id"] for one in metadata["snapshots"]] == [0, 3]
    assert len(told(branch, "ICEBERG_TABLE")) == 3


def test_spark_creates_replaces_and_drops_views(spark: SparkSession, catalog: str, branch: FeedBranch) -> None:
    spark.sql(f"CREATE NAMESPACE {catalog}.db")
    spark.sql(f"CREATE TABLE {catalog}.db.t (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {catalog}.db.t VALUES (1), (2)")
    spark.sql(f"CREATE VIEW {catalog}.db.v AS SELECT id FROM {catalog}.db.t WHERE id > 1")
    assert ids(spark, f"SELECT id FROM {catalog}.db.v") == [2]
    spark.sql(f"CREATE OR REPLACE VIEW {catalog}.db.v AS SELECT id FROM {catalog}.db.t WHERE id < 2")
    assert ids(spark, f"SELECT id FROM {catalog}.db.v") == [1]
    spark.sql(f"DROP VIEW {catalog}.db.v")
    operations = told(branch, "ICEBERG_VIEW")
    assert [(one["op"], (one["after"] or {}).get("version_id")) for one in operations] == [
        ("put", 1),
        ("put", 2),
        ("delete", None),
    ]


def test_two_engines_append_to_one_table_and_every_append_is_kept(
    spark: SparkSession, catalog: str, branch: FeedBranch, lake: IcebergLake
) -> None:
    python = lake.catalog()
    python.create_namespace("db")
    table = python.create_table("db.t", ROWS.schema)
    together = threading.Barrier(2)
    broken: list[BaseException] = []

    def append_from_python() -> None:
        try:
            for number in range(APPENDS):
                row = pa.table({"id": pa.array([100 + number], pa.int64()), "name": ["python"]})
                together.wait(120)
                for _ in range(50):
                    try:
                        table.append(row)
                        break
                    except CommitFailedException:
                        table.refresh()
                else:
                    raise AssertionError("it never got through")
        except BaseException as error:
            broken.append(error)
            together.abort()

    writer = threading.Thread(target=append_from_python)
    writer.start()
    for number in range(APPENDS):
        together.wait(120)
        spark.sql(f"INSERT INTO {catalog}.db.t VALUES ({200 + number}, 'spark')")
    writer.join()
    assert not broken
    wanted = [100 + number for number in range(APPENDS)] + [200 + number for number in range(APPENDS)]
    assert ids(spark, f"SELECT id FROM {catalog}.db.t") == wanted
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == wanted
    operations = told(branch, "ICEBERG_TABLE")
    assert len(operations) == 1 + 2 * APPENDS
    assert len({one["after"].get("snapshot_id") for one in operations}) == 1 + 2 * APPENDS
