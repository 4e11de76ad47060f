"""Tables of a store in Spark: every row once, in parallel, on every backend that processes share."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import EqualTo, In
from pyspark.sql.types import StructType

import headwater
from headwater.persistence.rows import ScannedRow, Table
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.streaming.sources.rows_source import SCANNED_ARROW, RowsSource
from headwater.streaming.spark.worker_daemon import ARCHIVES
from tests.support.fixtures.spark_lakes import fill
from tests.support.servers.servers import FreshUrl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind: str = request.param
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/lake.db"
    fresh: FreshUrl = request.getfixturevalue(f"fresh_{kind}")
    return fresh()


def scanned(store: Store, table: Table, realm: str | None = None) -> list[ScannedRow]:
    return [row for split in store.backend.splits(table, 3) for row in store.backend.scan(split, realm=realm)]


def ordered(rows: list[ScannedRow]) -> list[ScannedRow]:
    return sorted(rows, key=lambda row: (row.realm, row.type, row.key, row.id, row.part))


@pytest.mark.parametrize("url", ["sqlite", "postgres", "cassandra"], indirect=True)
def test_a_scan_has_every_row_of_a_table_once(spark: SparkSession, url: str) -> None:
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=3)
        realm = engine.realm().kernel.realm
        reader = spark.read.format("headwater_rows").options(store=url, realm="default", splits="3")
        collected = reader.options(table="objects").load().collect()
        found = [ScannedRow(Table.OBJECTS, *(row[name] for name in SCANNED_ARROW.names)) for row in collected]
        assert ordered(found) == ordered(scanned(engine.store, Table.OBJECTS, realm)) != []


@pytest.mark.parametrize("table", list(Table))
def test_each_table_is_scanned_whole(tmp_path: Path, table: Table) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=2)
        made = RowsSource({"store": url, "table": table.value, "splits": "2"}).reader(StructType())
        batches = [batch for share in made.partitions() for batch in made.read(share)]
        found = [ScannedRow(table, *row.values()) for batch in batches for row in batch.to_pylist()]
        assert ordered(found) == ordered(scanned(engine.store, table)) != []


def test_a_filter_on_the_type_is_answered_by_the_scan(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=2)
    made = RowsSource({"store": url}).reader(StructType())
    foreign = EqualTo(("part",), 0)
    assert list(made.pushFilters([In(("type",), ("entry", "content")), EqualTo(("type",), "entry"), foreign])) == [foreign]
    types = {kind for share in made.partitions() for batch in made.read(share) for kind in batch.column("type").to_pylist()}
    assert types == {"entry"}


@pytest.mark.parametrize("options", [{"table": "payloads"}, {"splits": "0"}, {"relam": "x"}])
def test_invalid_options_of_a_scan_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        RowsSource({"store": "sqlite:///nowhere.db", **options})
    assert "\n" not in str(refused.value)


def test_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError):
        RowsSource({"store": f"sqlite:///{tmp_path}/none.db"}).reader(StructType()).partitions()


def test_a_workers_later_tasks_read_no_archive_and_search_no_module_for_garbage(spark: SparkSession) -> None:
    def of_worker(_: int) -> tuple[int, list[str], int]:
        return os.getpid(), sys.path + list(sys.path_importer_cache), gc.get_freeze_count()

    for _ in range(2):  # the first task of a worker that is new
        found = spark.sparkContext.parallelize(range(4), 4).map(of_worker).collect()
    assert all(os.getpid() != pid and frozen > 10_000 for pid, _, frozen in found)
    archives = [place for _, places, _ in found for place in places if place.endswith(ARCHIVES)]
    assert archives == []
