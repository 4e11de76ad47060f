"""Iceberg's own NessieCatalog, as engines load it: tables are made, changed, renamed, dropped; the feed shows each change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headwater.dev.jars import fetch_jars
from headwater.settings import load_settings
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.nessie_jvm import jvm


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """Iceberg with what it needs of Hadoop, which comes with PySpark."""
    iceberg = next(fetch_jars("spark", Path(load_settings().jar_cache_dir)).glob("iceberg-spark-runtime-*.jar"))
    with jvm(f"{iceberg}:{Path(pyspark.__file__).parent}/jars/*") as running:
        yield running


class Lake:
    """A NessieCatalog at one branch."""

    def __init__(self, java: Any, branch: FeedBranch, folder: Path) -> None:
        self._java, self.iceberg = java, java.org.apache.iceberg
        self.catalog = self.iceberg.nessie.NessieCatalog()
        self.catalog.setConf(java.org.apache.hadoop.conf.Configuration())
        options = {"uri": f"{branch.server.url}/api/v2", "ref": branch.name, "warehouse": folder.as_uri()}
        self.catalog.initialize("lake", options)
        self.space = self.iceberg.catalog.Namespace.of(self._strings("db"))

    def name(self, table: str) -> Any:
        return self.iceberg.catalog.TableIdentifier.of(self.space, table)

    def schema(self) -> Any:
        types = self.iceberg.types.Types
        fields = [types.NestedField.required(1, "id", types.LongType.get())]
        return self.iceberg.Schema(fields)

    def append(self, table: Any, file: str) -> None:
        """The name of a file is enough: nobody reads it."""
        data = self.iceberg.DataFiles.builder(table.spec()).withPath(file).withFileSizeInBytes(10).withRecordCount(1).build()
        table.newAppend().appendFile(data).commit()

    def files(self, name: str) -> set[str]:
        table = self.catalog.loadTable(self.name(name))
        scanned = table.newScan().planFiles()
        tasks, found = scanned.iterator(), set()
        while tasks.hasNext():
            found.add(str(tasks.next().file().location()).rpartition("/")[2])
        scanned.close()
        return found

    def _strings(self, *values: str) -> Any:
        strings = self._java.java.lang.Class.forName("java.lang.String")
        array = self._java.java.lang.reflect.Array.newInstance(strings, len(values))
        for position, value in enumerate(values):
            self._java.java.lang.reflect.Array.set(array, position, value)
        return array


def test_engines_work_through_nessies_catalog(java: Any, branch: FeedBranch, tmp_path: Path) -> None:
    lake = Lake(java, branch, tmp_path)
    catalog = lake.catalog
    catalog.createNamespace(lake.space, {"owner": "ada"})
    table = catalog.createTable(lake.name("t"), lake.schema())
    lake.append(table, "one.parquet")
    table.updateSchema().addColumn("more", lake.iceberg.types.Types.StringType.get()).commit()
    catalog.renameTable(lake.name("t"), lake.name("renamed"))
    assert [str(found) for found in catalog.listTables(lake.space)] == ["db.renamed"]
    assert lake.files("renamed") == {"one.parquet"}
    changes = branch.changes(after=1)["changes"]
    told = [(op["op"], ".".join(op["key"])) for change in changes for op in change["operations"]]
    assert told == [("put", "db"), ("put", "db.t"), ("put", "db.t"), ("put", "db.t"), ("rename", "db.renamed")]
    tables = [op for change in changes for op in change["operations"] if op["type"] == "ICEBERG_TABLE"]
    assert len({op["content_id"] for op in tables}) == 1
    newest = catalog.loadTable(lake.name("renamed")).currentSnapshot()
    assert tables[1]["after"]["snapshot_id"] == newest.snapshotId()
    assert catalog.dropTable(lake.name("renamed"), False)
    assert catalog.dropNamespace(lake.space)
    assert not catalog.namespaceExists(lake.space)


def test_two_writers_of_one_table_keep_every_append(java: Any, branch: FeedBranch, tmp_path: Path) -> None:
    lake = Lake(java, branch, tmp_path)
    lake.catalog.createNamespace(lake.space, {})
    lake.catalog.buildTable(lake.name("t"), lake.schema()).withProperty("commit.retry.num-retries", "50").create()
    faults: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            mine = Lake(java, branch, tmp_path)
            table = mine.catalog.loadTable(mine.name("t"))
            for number in range(3):
                mine.append(table, f"{writer}-{number}.parquet")
        except BaseException as fault:
            faults.append(fault)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(2)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert not faults, faults
    assert lake.files("t") == {f"{writer}-{number}.parquet" for writer in range(2) for number in range(3)}
