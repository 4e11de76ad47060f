"""No file of a retained state is lost while PyIceberg writes and file sweeps run without a grace, on local files and on S3.

Each sweep may delete what was written a moment ago and is not committed yet. Then the commit is refused, and the writer starts
anew. Every commit that was acknowledged stays readable.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import StaticTable

from headwater.schemas.errors import FilesCondemned, RemovalUnderWay
from tests.support.fixtures.iceberg_files import ROWS, memory_catalog
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, purge_tasks
from tests.support.fixtures.swept_lake import SweptLake, swept_lake
from tests.support.servers.moto_server import BUCKET, MotoServer, moto_server

SWEEPS = 60 if os.environ.get("HEADWATER_SOAK") else 4
APPENDS = 4
GARBAGE_FILES_MAX = 100_000
"""How much garbage writers leave differs from one sweep to the next: no share of it is a reason to refuse."""
WAIT_SECONDS = 120


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        yield server


class Writer(threading.Thread):
    """Creates tables, appends, overwrites, deletes rows, and commits each version."""

    def __init__(self, lake: SweptLake, name: str, options: dict[str, str], stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.lake = lake
        self.options = options
        self.stop = stop
        self.acknowledged: list[tuple[str, int]] = []
        """Metadata location and rows."""
        self.has_committed = threading.Event()
        self.refused = 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            with memory_catalog(self.lake.root, **self.options) as catalog:
                for number in itertools.count():
                    if self.stop.is_set():
                        return
                    self.write_table(catalog, f"{self.name}{number}")
        except BaseException as fault:
            self.fault = fault

    def write_table(self, catalog: InMemoryCatalog, name: str) -> None:
        try:
            table = catalog.create_table(f"db.{name}", ROWS.schema)
            for step in range(APPENDS):
                if step == 2:
                    table.overwrite(ROWS, "id = 2")
                else:
                    table.append(ROWS)
                rows = table.scan().to_arrow().num_rows
                self.lake.put(name, table.metadata_location)
                self.acknowledged.append((table.metadata_location, rows))
                self.has_committed.set()
        except (FilesCondemned, RemovalUnderWay, FileNotFoundError, OSError):
            self.refused += 1  # a sweep was faster than the commit


class DroppingWriter(Writer):
    """Drops every second table with PURGE. The others share a snapshot with one that was dropped."""

    def write_table(self, catalog: InMemoryCatalog, name: str) -> None:
        table = catalog.create_table(f"db.{name}", ROWS.schema)
        table.append(ROWS)
        before = table.metadata_location
        table.append(ROWS)
        try:
            self.lake.put(f"{name}kept", before)
            self.lake.put(name, table.metadata_location)
            drop_with_purge(self.lake, name, table.metadata_location)
        except (FilesCondemned, RemovalUnderWay):
            self.refused += 1  # a sweep was faster than the first commit
            return
        self.acknowledged.append((before, ROWS.num_rows))
        self.has_committed.set()


def check_whole(lake: SweptLake, acknowledged: list[tuple[str, int]]) -> None:
    files = lake.files()
    for location, rows in acknowledged:
        assert lake.needed(location) <= files, location
        table = StaticTable.from_metadata(location, properties=lake.writer.properties)
        assert table.scan().to_arrow().num_rows == rows


@pytest.mark.parametrize("storage", ["local", "s3"])
def test_no_acknowledged_state_loses_a_file_while_sweeps_run_beside_writers(
    storage: str, tmp_path: Path, moto: MotoServer
) -> None:
    root, options = (f"s3://{BUCKET}/lake", moto.options) if storage == "s3" else (None, {})
    with swept_lake(tmp_path, root, options) as lake:
        stop = threading.Event()
        garbage = lake.needed(lake.table("garbage").metadata_location)
        writers = [Writer(lake, name, options, stop) for name in ("a", "b")]
        for writer in writers:
            writer.start()
        assert all(writer.has_committed.wait(WAIT_SECONDS) for writer in writers)
        purged = 0
        for _ in range(SWEEPS):
            [report] = lake.sweep(expect_files=GARBAGE_FILES_MAX).roots
            assert not report.damage and not report.refusal, report
            purged += 0 if report.purge is None else report.purge.purged
        stop.set()
        for writer in writers:
            writer.join(WAIT_SECONDS)
            assert writer.fault is None and not writer.is_alive(), writer.fault
        acknowledged = [one for writer in writers for one in writer.acknowledged]
        assert acknowledged and purged >= len(garbage) and not garbage & lake.files()
        check_whole(lake, acknowledged)


def test_purges_of_dropped_tables_under_writers_spare_shared_files(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        stop = threading.Event()
        writer = DroppingWriter(lake, "t", {}, stop)
        writer.start()
        assert writer.has_committed.wait(WAIT_SECONDS)
        purged = 0
        for _ in range(SWEEPS // 2):
            forget_history(lake)
            purged += sum(report.task.purged for report in purge_tasks(lake))
            [report] = lake.sweep(expect_files=GARBAGE_FILES_MAX).roots
            assert not report.damage and not report.refusal, report
        stop.set()
        writer.join(WAIT_SECONDS)
        assert writer.fault is None and not writer.is_alive(), writer.fault
        assert purged and writer.acknowledged
        check_whole(lake, writer.acknowledged)
