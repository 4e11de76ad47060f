"""Measures planned files and published statistics, the work of one process; bundles and plans of a server.

A file of a plan is counted once it is in its message, a row of statistics from its message to the store.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from bench import plan_calls
from bench.context import Context
from bench.file_tables import added_entry
from bench.measures import Measure
from headwater.persistence.store import open_store
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.statistics.statistics_checks import SnapshotSchema
from headwater.producer.statistics.statistics_records import SetKey
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.schemas.rpc import statistics_pb2
from headwater.schemas.statistics import PutMode
from headwater.service.grpc.messages.plan_messages import file_messages
from headwater.service.grpc.messages.statistics_messages import file_of
from headwater.service.planning.file_json import scan_tasks
from headwater.service.planning.file_planner import FilePlanner
from headwater.service.planning.manifest_cache import MANIFEST_CACHE_BYTES, ManifestCache
from headwater.service.planning.manifest_reader import ManifestReader
from headwater.service.planning.scan_filter import ScanRequest
from headwater.service.storage.files import files_of
from headwater.service.storage.locations import Warehouse

TITLE = "Planning: files of a scan; statistics of files on SQLite, ten columns each; bundles and plans"
SCHEMA = Schema(NestedField(1, "id", LongType()))
FILES, FILES_OF_MANIFEST = 10_000, 1_000
COLUMNS = 10
_FILTER = json.dumps({"type": "gt-eq", "term": "id", "value": 0}).encode()


def run(context: Context) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        with context.console.status("planning files …"):
            yield from _planned(Path(folder))
        with context.console.status("publishing statistics …"):
            yield from _published(Path(folder))
    if "sqlite" in context.kinds:
        with context.console.status("bundles and plans …"):
            yield from plan_calls.measured(context)


def _planned(folder: Path) -> Iterator[Measure]:
    root = folder.as_uri()
    warehouse = Warehouse(root)
    metadata: dict[str, Any] = json.loads(
        new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"{root}/t").model_dump_json()
    )
    snapshot = {"snapshot-id": 1, "manifest-list": _manifest_list(root), "schema-id": 0}
    reader = ManifestReader(warehouse, files_of(root, {}), ManifestCache(MANIFEST_CACHE_BYTES))
    request = ScanRequest(_FILTER)

    def over_rest(planner: FilePlanner) -> int:
        return len(scan_tasks(planner, planner.files(*planner.manifests()), request)["file-scan-tasks"])

    def over_grpc(planner: FilePlanner) -> int:
        return sum(len(part.files) for part in file_messages(planner, planner.files(*planner.manifests())))

    for name, plan in (("planned", over_grpc), ("planned again", over_grpc), ("planned again, as JSON", over_rest)):
        wall, core = time.perf_counter(), time.process_time()
        assert plan(FilePlanner(reader, metadata, snapshot, request)) == FILES
        wall, core = time.perf_counter() - wall, time.process_time() - core
        yield Measure("planning", f"{FILES:,} files", name, FILES / wall, "files/s")
        yield Measure("planning", f"{FILES:,} files", name, FILES / core, "files/s of one core")


def _manifest_list(root: str) -> str:
    io = PyArrowFileIO()
    path = f"{root}/list.avro"
    manifests = []
    for first in range(0, FILES, FILES_OF_MANIFEST):
        output = io.new_output(f"{root}/manifest-{first}.avro")
        with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, SCHEMA, output, 1, "deflate") as writer:
            for number in range(first, first + FILES_OF_MANIFEST):
                bounds = {1: number.to_bytes(8, "little")}
                writer.add_entry(added_entry(f"{root}/{number}.parquet", 1_000, lower_bounds=bounds, upper_bounds=bounds))
        manifests.append(writer.to_manifest_file())
    with write_manifest_list(2, io.new_output(path), 1, None, 1, "deflate") as listing:
        listing.add_manifests(manifests)
    return path


def _published(folder: Path) -> Iterator[Measure]:
    with open_store(f"sqlite:///{folder}/statistics.db", create=True) as store:
        kernel = store.kernel("bench")
        catalog = Catalogs(kernel).create("lake", meta=CommitMeta("bench"))
        schema = SnapshotSchema(dict.fromkeys(range(1, COLUMNS + 1), "long"))
        sent = [_file(number).SerializeToString() for number in range(FILES)]
        wall, core = time.perf_counter(), time.process_time()
        write = StatisticsSets(kernel, catalog.id).write(SetKey("t", 1), schema, PutMode.UPSERT)
        for raw in sent:
            write.add_file(file_of(statistics_pb2.FileColumnStats.FromString(raw)))
        write.publish(WriteMeta("bench"))
        wall, core = time.perf_counter() - wall, time.process_time() - core
    yield Measure("planning", "sqlite", "statistics published", FILES * COLUMNS / wall, "file columns/s")
    yield Measure("planning", "sqlite", "statistics published", FILES * COLUMNS / core, "file columns/s of one core")


def _file(number: int) -> statistics_pb2.FileColumnStats:
    bounds = {"lower": number.to_bytes(8, "little"), "upper": (number + 1).to_bytes(8, "little")}
    columns = [
        statistics_pb2.ColumnStats(column_id=id, value_count=100, null_count=0, **bounds) for id in range(1, COLUMNS + 1)
    ]
    return statistics_pb2.FileColumnStats(path=f"s3://lake/t/{number:06d}.parquet", row_count=100, columns=columns)
