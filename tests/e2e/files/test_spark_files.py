"""Tables that Spark writes: purges take just the files of its own list, and sweeps beside it take none that is in use."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, RESTError

from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.immediate_tasks import ImmediateTask, ImmediateTasks, TaskState
from headwater.producer.references.references import References
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.reach_files import condemned_files_of
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, FileSweep, FileSweepOptions, RootReport
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.files.tasks.forgetting import named_task
from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskPurgeOptions
from headwater.streaming.files.watch.verify_files import verify_files
from headwater.streaming.runs.runs import Runs
from tests.e2e.iceberg.test_spark_planned_files import JavaTable, Step
from tests.support.servers.feed_server import FeedServer, feed_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS_OF_SECONDS = 600 if os.environ.get("HEADWATER_SOAK") else 0
"""At least one round of all statements."""
WAIT_SECONDS = 120
FILES_MAX = 100_000
_numbers = itertools.count(1)


class SparkLake:
    """A store behind a server, with a catalog that Spark writes to."""

    def __init__(self, spark: SparkSession, server: FeedServer, folder: Path) -> None:
        self.spark, self.server, self.folder = spark, server, folder
        self.store: Store = open_store(server.store_url)
        self.store.reach_files = condemned_files_of({})
        self.realm = Realms(self.store).require_active("default").realm
        self.operations = FileOperations(Storages(), self.store.clock)
        self.name = f"files{next(_numbers)}"
        self.root = f"file://{folder}/{self.name}"
        answer = self.manage("POST", "catalogs", name=self.name, storage_root=self.root)
        assert answer.status_code == 201, answer.text
        claims = Claims(self.store, self.operations.storages)
        self.id = next(one.id for one in Catalogs(self.store.kernel(self.realm)).list() if one.name == self.name)
        for root in roots_of(self.store, [self.realm]):
            if root.catalog == self.name:
                claims.claim(root)
        self.catalog = self.at(self.name)
        self.sql(f"CREATE NAMESPACE {self.catalog}.db")

    def manage(self, method: str, path: str, **body: Any) -> httpx.Response:
        return httpx.request(method, f"{self.server.url}/manage/v1/default/{path}", json=body, timeout=30)

    def at(self, warehouse: str) -> str:
        """A catalog of Spark's, on a branch or an old state."""
        name = f"hw_files_{next(_numbers)}"
        conf = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": f"{self.server.url}/iceberg",
            ".warehouse": warehouse,
            ".cache-enabled": "false",
        }
        for key, value in conf.items():
            self.spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
        return name

    def sql(self, text: str) -> list[Any]:
        found: list[Any] = self.spark.sql(text).collect()
        return found

    def paths(self, query: str) -> set[str]:
        """Paths of one metadata table, as URIs."""
        return {one if one.startswith("file:///") else f"file://{one.removeprefix('file:')}" for (one,) in self.sql(query)}

    def own_list(self, table: str) -> set[str]:
        """What Iceberg's metadata tables say of all snapshots of a table."""
        name, java = f"{self.catalog}.db.{table}", self.spark._jvm
        found = self.paths(f"SELECT data_file.file_path FROM {name}.all_entries")
        assert self.paths(f"SELECT file_path FROM {name}.all_files") <= found
        found |= self.paths(f"SELECT path FROM {name}.all_manifests")
        found |= self.paths(f"SELECT manifest_list FROM {name}.snapshots")
        found |= self.paths(f"SELECT file FROM {name}.metadata_log_entries")
        loaded = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, name)
        statistics = [*loaded.statisticsFiles(), *loaded.partitionStatisticsFiles()]
        return found | {f"file://{one.path().removeprefix('file:')}" for one in statistics}

    def files(self, below: str = "") -> set[str]:
        return {one.location for one in self.operations.find(f"{self.root}/{below}") if "/_headwater/" not in one.location}

    def drop(self, table: str, key: str = "db") -> ImmediateTask:
        """With purge, as an engine asks for it; its task when a worker of the server has seen it."""
        url = f"{self.server.url}/iceberg/v1/{self.name}/namespaces/{key}/tables/{table}"
        prefix = httpx.get(f"{self.server.url}/iceberg/v1/config", params={"warehouse": self.name}, timeout=30)
        url = f"{self.server.url}/iceberg/v1/{prefix.json()['overrides']['prefix']}/namespaces/{key}/tables/{table}"
        answer = httpx.delete(url, params={"purgeRequested": "true"}, timeout=30)
        assert answer.status_code == 204, answer.text
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            for task in ImmediateTasks(self.store.kernel(self.realm)).held():
                if task.key[-1] == table:
                    return task
            time.sleep(0.1)
        raise AssertionError("no worker has taken the task")

    def expire(self) -> None:
        with Runs(self.store.backend, self.store.clock).run("expire") as run:
            expire_realms(self.store, run, [self.realm], parse_retention("*=1n"))

    def purge(self, forget: str | None = None) -> None:
        named = None if forget is None else named_task(self.store, forget, "ops")
        options = TaskPurgeOptions(wait_seconds=0, batches_per_second=0, forget=named)
        runs = Runs(self.store.backend, self.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
        with runs.run("files-purge") as run:
            TaskPurge(self.store, self.operations, options).run(run)

    def sweep(self) -> RootReport:
        """Files of any age and number may go, as soon as two runs have found them unused."""
        options = FileSweepOptions(
            grace_hours=0, confirm_hours=0, expect_files=FILES_MAX, batches_per_second=0, roots=[self.root]
        )
        runs = Runs(self.store.backend, self.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
        with runs.run("files-sweep") as run:
            sweep = FileSweep(self.store, self.operations, options, safeguards=FileSafeguards(grace=False))
            [report] = sweep.run(run).roots
            return report


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('store')}/lake.db") as running:
        yield running


@pytest.fixture
def lake(spark: SparkSession, server: FeedServer, tmp_path: Path) -> Iterator[SparkLake]:
    made = SparkLake(spark, server, tmp_path)
    yield made
    made.store.close()
    spark.sql("USE spark_catalog")


# ── purges ──────────────────────────────────────────────────────────────────────────────────────────────────


def fill(lake: SparkLake, table: str, format: int) -> set[str]:
    """Appends, overwrites, deletes, evolution, compaction, statistics that were replaced. Statistics that only an older
    metadata file names."""
    name, call = f"{lake.catalog}.db.{table}", f"CALL {lake.catalog}.system"
    modes = "merge-on-read" if format > 1 else "copy-on-write"
    lake.sql(
        f"CREATE TABLE {name} (id BIGINT, region STRING, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at)) TBLPROPERTIES "
        f"('format-version' = '{format}', 'write.delete.mode' = '{modes}', 'write.metadata.previous-versions-max' = '100')"
    )
    replaced = set()
    for number in range(2):
        rows = ", ".join(f"({number * 10 + id}, 'eu', TIMESTAMP '2026-01-0{1 + id % 2} 10:00:00')" for id in range(6))
        lake.sql(f"INSERT INTO {name} VALUES {rows}")
        lake.sql(f"DELETE FROM {name} WHERE id = {number * 10 + 2}")
        for _ in range(2):
            before = lake.own_list(table)
            lake.sql(f"{call}.compute_table_stats(table => 'db.{table}')")
            replaced |= {one for one in before - lake.own_list(table) if one.endswith(".stats")}
        lake.sql(f"{call}.compute_partition_stats(table => 'db.{table}')")
    lake.sql(f"ALTER TABLE {name} ADD COLUMN note STRING")
    lake.sql(f"ALTER TABLE {name} ADD PARTITION FIELD region")
    lake.sql(f"INSERT OVERWRITE {name} SELECT id, region, at, 'n' FROM {name} WHERE id < 5")
    lake.sql(f"{call}.rewrite_data_files(table => 'db.{table}', options => map('rewrite-all', 'true'))")
    lake.sql(f"{call}.rewrite_manifests('db.{table}')")
    lake.sql(f"ALTER TABLE {name} CREATE TAG kept")
    if format > 1:
        java = JavaTable(lake.spark, name)
        for kind in ("append", "equality", "position", "row-delta"):
            java.take(Step(kind, 0, 0, 3, True))
    return replaced


@pytest.mark.parametrize("format", [1, 2, 3])
def test_a_purge_deletes_just_the_files_of_sparks_own_list(lake: SparkLake, format: int) -> None:
    lake.sql(f"CREATE TABLE {lake.catalog}.db.beside (id BIGINT) USING iceberg")
    lake.sql(f"INSERT INTO {lake.catalog}.db.beside VALUES (1)")
    replaced = fill(lake, "t", format)
    listed = lake.own_list("t") | replaced
    for one in listed - lake.files():  # Iceberg's library has only written of them
        path = Path(one.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")
    kinds = {one.rpartition(".")[2] for one in listed}
    assert kinds >= {"parquet", "avro", "json", "stats"} and (format < 3 or "puffin" in kinds), kinds
    before = lake.files()
    assert listed <= before
    task = lake.drop("t")
    if format == 2:
        lake.purge(forget="db.t")
    else:
        lake.expire()
        lake.purge()
    done = ImmediateTasks(lake.store.kernel(lake.realm)).get(task.id)
    assert done is not None and (done.state, done.failed, done.spared) == (TaskState.DONE, 0, 0), done
    assert before - lake.files() == listed, sorted((before - lake.files()) ^ listed)
    assert lake.sql(f"SELECT id FROM {lake.catalog}.db.beside") == [(1,)]


# ── sweeps beside writers ───────────────────────────────────────────────────────────────────────────────────


class Journal:
    """What a writer was told: the state of the catalog, a table of it, and its rows."""

    def __init__(self, lake: SparkLake) -> None:
        self._lake = lake
        self.states: list[tuple[str, str, int]] = []
        self.refused: list[str] = []

    def told(self, table: str) -> None:
        """Read back at the head of the branch: a statement that was acknowledged stays readable."""
        commit = References(self._lake.store.kernel(self._lake.realm), self._lake.id).resolve("main").commit_id
        [(rows,)] = self._lake.sql(f"SELECT count(*) FROM {self._lake.catalog}.db.{table}")
        self.states.append((commit, table, rows))


def statements(catalog: str, table: str, format: int) -> Iterator[str]:
    name, call = f"{catalog}.db.{table}", f"CALL {catalog}.system"
    yield (
        f"CREATE TABLE {name} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('format-version' = '{format}', 'write.delete.mode' = 'merge-on-read')"
    )
    yield f"INSERT INTO {name} SELECT id, 'eu' FROM range(0, 20, 1, 2)"
    yield f"INSERT INTO {name} SELECT id, 'us' FROM range(20, 40, 1, 2)"
    yield f"DELETE FROM {name} WHERE id % 7 = 1"
    yield f"INSERT OVERWRITE {name} SELECT id, region FROM {name} WHERE id < 35"
    yield f"ALTER TABLE {name} ADD COLUMN note STRING"
    yield f"{call}.rewrite_data_files(table => 'db.{table}', options => map('rewrite-all', 'true'))"
    yield f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)"
    yield f"INSERT INTO {name} VALUES (50, 'eu', 'late')"
    yield f"ALTER TABLE {name} CREATE BRANCH audit"
    yield f"DELETE FROM {name} WHERE id = 50"


class Beside(threading.Thread):
    """Repeats something while Spark writes."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.stop = threading.Event()
        self.turns = 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._act()
                self.turns += 1
        except BaseException as fault:
            self.fault = fault

    def end(self) -> None:
        self.stop.set()
        self.join(WAIT_SECONDS)
        assert self.fault is None and not self.is_alive(), self.fault


def sweeping(lake: SparkLake, deleted: list[int]) -> Callable[[], None]:
    def sweep() -> None:
        report = lake.sweep()
        assert not report.damage and not report.refusal, report
        deleted.append(0 if report.purge is None else report.purge.purged)

    return sweep


def appending(lake: SparkLake, told: list[tuple[str, int]]) -> Callable[[], None]:
    """PyIceberg beside Spark, in a table of its own."""
    catalog = RestCatalog("lake", uri=f"{lake.server.url}/iceberg", warehouse=lake.name)
    row = pa.table({"id": pa.array([1], pa.int64())})
    table = catalog.create_table("db.python", row.schema)

    def append() -> None:
        with contextlib.suppress(RESTError, CommitFailedException, OSError):  # a sweep was faster than the commit
            table.append(row)
            told.append((table.metadata_location, table.scan().to_arrow().num_rows))
        table.refresh()

    return append


def test_sweeps_beside_spark_lose_no_file_of_an_acknowledged_state(lake: SparkLake) -> None:
    """Whatever a sweep takes that Spark was about to commit, the commit is refused, and Spark begins anew."""
    journal, deleted, told = Journal(lake), list[int](), list[tuple[str, int]]()
    sweeper, python = Beside(sweeping(lake, deleted)), Beside(appending(lake, told))
    orphan = Path(lake.folder) / lake.name / "db" / "orphan" / "data" / "a.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"rows that nobody needs")
    sweeper.start()
    python.start()
    ends = time.monotonic() + ROUNDS_OF_SECONDS
    for number in itertools.count():
        table = f"t{number}"
        with contextlib.suppress(Refused):
            for text in statements(lake.catalog, table, 2 + number % 2):
                run(lake, text, journal)
                journal.told(table)
            run(lake, f"ALTER TABLE {lake.catalog}.db.{table} RENAME TO db.{table}_renamed", journal)
            journal.told(f"{table}_renamed")
            answer = lake.manage("POST", f"catalogs/{lake.name}/references", name=f"b{number}", type="tag")
            assert answer.status_code == 201, answer.text
            lake.drop(f"{table}_renamed")
            lake.sql(f"CREATE TABLE {lake.catalog}.db.{table} (id BIGINT) USING iceberg")
            journal.told(table)
        if time.monotonic() >= ends and number and sum(deleted) and len(deleted) > 2:
            break
    python.end()
    sweeper.end()
    lake.purge()
    lake.sweep()
    assert not orphan.exists() and len(journal.states) > 5 and told, journal.refused
    report = verify_files(lake.store, lake.realm, lake.operations, lambda _what, _count: None)
    assert report.holds, report.damage
    for commit, table, rows in journal.states:
        state = lake.at(f"{lake.name}@{commit}")
        assert lake.sql(f"SELECT count(*) FROM {state}.db.{table}") == [(rows,)], (commit, table)
    location, rows = told[-1]
    assert Path(location.removeprefix("file://")).exists() and rows


class Refused(Exception):
    """A sweep was faster than this commit."""


def run(lake: SparkLake, text: str, journal: Journal) -> None:
    try:
        lake.sql(text)
    except Exception as error:
        if not any(
            one in str(error)
            for one in (
                "FILES_CONDEMNED",
                "is about to be deleted",
                "REMOVAL_UNDER_WAY",
                "NotFound",
                "does not exist",
                "No such file",
                "Failed to open",
            )
        ):
            raise
        journal.refused.append(str(error)[:200])
        raise Refused from error
