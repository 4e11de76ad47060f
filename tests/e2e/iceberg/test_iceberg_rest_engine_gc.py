"""The catalog setting `engine_gc`: engines are kept from deleting files that another branch may need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.fixtures.iceberg_lake import IcebergLake, iceberg_lake, table_body
from tests.support.servers.feed_server import FeedServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


def manage(server: FeedServer, method: str, path: str, **body: Any) -> httpx.Response:
    return httpx.request(method, f"{server.url}/manage/v1/default/{path}", json=body, timeout=30)


def new_catalog(server: FeedServer, folder: Path, **properties: str) -> str:
    name = f"gc{next(_numbers)}"
    answer = manage(server, "POST", "catalogs", name=name, storage_root=f"file://{folder}", properties=properties)
    assert answer.status_code == 201, answer.text
    return name


@pytest.fixture
def refusing(shared_feed: FeedServer, tmp_path: Path) -> Iterator[IcebergLake]:
    with iceberg_lake(shared_feed.url, new_catalog(shared_feed, tmp_path)) as lake:
        lake.http.post("namespaces", json={"namespace": ["db"]})
        yield lake


def config(lake: IcebergLake) -> dict[str, str]:
    overrides: dict[str, str] = httpx.get(f"{lake.url}/v1/config", params={"warehouse": lake.warehouse}).json()["overrides"]
    return overrides


def test_every_answer_with_a_table_says_that_engines_may_not_collect_garbage(refusing: IcebergLake) -> None:
    created = refusing.http.post("namespaces/db/tables", json=table_body("t", properties={"a": "1"})).json()
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"b": "2"}}]}
    updated = refusing.http.post("namespaces/db/tables/t", json=update).json()
    loaded = refusing.http.get("namespaces/db/tables/t").json()
    refs = refusing.http.get("namespaces/db/tables/t", params={"snapshots": "refs"}).json()
    answers = [one["metadata"]["properties"] for one in (created, updated, loaded, refs)]
    both = {"a": "1", "b": "2", "gc.enabled": "false"}
    assert answers == [{"a": "1", "gc.enabled": "false"}, both, both, both]
    assert config(refusing)["rest-catalog-purge"] == "true"


def test_gc_enabled_is_never_stored_unless_a_client_sets_it(refusing: IcebergLake) -> None:
    """⚠ A staged table is shown without it, since the client commits what it was shown."""
    staged = refusing.http.post("namespaces/db/tables", json=table_body("s", **{"stage-create": True})).json()
    assert staged["metadata"]["properties"] == {}
    created = refusing.http.post("namespaces/db/tables", json=table_body("t")).json()
    stored = Path(created["metadata-location"].removeprefix("file://")).read_text()
    assert "gc.enabled" in created["metadata"]["properties"] and "gc.enabled" not in stored
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    updated = refusing.http.post("namespaces/db/tables/t", json=update).json()
    stored = Path(updated["metadata-location"].removeprefix("file://")).read_text()
    assert "gc.enabled" in updated["metadata"]["properties"] and "gc.enabled" not in stored


def test_a_catalog_may_allow_it_and_its_clients_see_the_difference(shared_feed: FeedServer, refusing: IcebergLake) -> None:
    refusing.http.post("namespaces/db/tables", json=table_body("t"))
    before = refusing.http.get("namespaces/db/tables/t")
    answer = manage(shared_feed, "PATCH", f"catalogs/{refusing.warehouse}", properties={"engine_gc": "allow"})
    assert answer.status_code == 200, answer.text
    after = refusing.http.get("namespaces/db/tables/t", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200 and after.json()["metadata"]["properties"] == {}
    assert "rest-catalog-purge" not in config(refusing)


@pytest.mark.parametrize("setting", ["engine_gc"])
def test_a_value_that_the_setting_does_not_know_is_refused(shared_feed: FeedServer, tmp_path: Path, setting: str) -> None:
    made = manage(shared_feed, "POST", "catalogs", name="never", storage_root=f"file://{tmp_path}", properties={setting: "of"})
    assert made.status_code == 400 and made.json()["field"] == f"properties.{setting}", made.text
    assert manage(shared_feed, "GET", "catalogs/never").status_code == 404


# ── Spark on two branches ───────────────────────────────────────────────────────────────────────────────────


def spark_catalog(spark: SparkSession, server: FeedServer, name: str, warehouse: str) -> str:
    conf = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{server.url}/iceberg",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }
    for key, value in conf.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name


@pytest.mark.parametrize("setting", ["refuse", "allow"])
def test_maintenance_by_spark_on_one_branch_leaves_the_other_readable(
    spark: SparkSession, shared_feed: FeedServer, tmp_path: Path, setting: str
) -> None:
    """With `allow` the same statements make main unreadable, so they do what the setting must prevent."""
    warehouse = new_catalog(shared_feed, tmp_path, engine_gc=setting)
    main = spark_catalog(spark, shared_feed, f"{warehouse}_main", warehouse)
    spark.sql(f"CREATE NAMESPACE {main}.db")
    for table in ("expired", "purged"):
        spark.sql(f"CREATE TABLE {main}.db.{table} (id BIGINT) USING iceberg")
        spark.sql(f"INSERT INTO {main}.db.{table} VALUES (1), (2)")
    answer = manage(shared_feed, "POST", f"catalogs/{warehouse}/references", name="dev", type="branch")
    assert answer.status_code == 201, answer.text
    dev = spark_catalog(spark, shared_feed, f"{warehouse}_dev", f"{warehouse}@dev")
    spark.sql(f"INSERT OVERWRITE {dev}.db.expired VALUES (3)")
    expire = (
        f"CALL {dev}.system.expire_snapshots(table => 'db.expired', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )
    purge = f"DROP TABLE {dev}.db.purged PURGE"
    if setting == "refuse":
        for statement in (expire, purge):
            with pytest.raises(Exception, match="GC is disabled"):
                spark.sql(statement).collect()
        spark.sql(f"DROP TABLE {dev}.db.purged")
        assert [spark.sql(f"SELECT sum(id) FROM {main}.db.{table}").first()[0] for table in ("expired", "purged")] == [3, 3]
        assert spark.sql(f"SELECT sum(id) FROM {dev}.db.expired").first()[0] == 3
    else:
        spark.sql(expire).collect()
        spark.sql(purge)
        for table in ("expired", "purged"):
            with pytest.raises(Exception, match=r"(?s)NotFound|does not exist|No such file"):
                spark.sql(f"SELECT sum(id) FROM {main}.db.{table}").collect()
    assert not spark.catalog.tableExists(f"{dev}.db.purged")
