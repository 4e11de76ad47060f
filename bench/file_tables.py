"""Writes the files of an Iceberg table to this machine's disk: nine in ten are in use, the others are orphans."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

COLUMNS = 10
SCHEMA = Schema(*(NestedField(number, f"c{number}", LongType()) for number in range(1, COLUMNS + 1)))
FILES_OF_MANIFEST = 10_000
FOLDERS = 100
SNAPSHOT = 1
_WEEK_SECONDS = 8 * 24 * 3_600
_BOUNDS = {number: number.to_bytes(8, "little") for number in range(1, COLUMNS + 1)}
_COUNTS = dict.fromkeys(range(1, COLUMNS + 1), 100)
_METRICS = {
    "column_sizes": _COUNTS,
    "value_counts": _COUNTS,
    "null_value_counts": _COUNTS,
    "lower_bounds": _BOUNDS,
    "upper_bounds": _BOUNDS,
}


class FilesOnDisk:
    def __init__(self, folder: Path, files: int) -> None:
        self.files = files
        self.orphans = files // 10
        self._table = folder / "db" / "t"
        self.root = f"file://{folder}"
        self._location = f"file:{self._table}"
        (self._table / "metadata").mkdir(parents=True)
        self._live = [f"data/p{number % FOLDERS:03}/{number:08}.parquet" for number in range(files - self.orphans)]
        for number in range(FOLDERS):
            (self._table / "data" / f"p{number:03}").mkdir(parents=True)
        for name in self._live:
            self._write(name)
        self.metadata = self._write_metadata()

    def write_orphans(self) -> None:
        for number in range(self.orphans):
            self._write(f"data/p{number % FOLDERS:03}/orphan-{number:08}.parquet")

    def _write(self, name: str) -> None:
        """Dated back: Iceberg's action refuses files of the last day."""
        path = self._table / name
        path.write_bytes(b"PAR1")
        written = time.time() - _WEEK_SECONDS
        os.utime(path, (written, written))

    def _write_metadata(self) -> str:
        made = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, self._location)
        metadata: dict[str, Any] = json.loads(made.model_dump_json())
        metadata["last-sequence-number"] = 1
        metadata["current-snapshot-id"] = SNAPSHOT
        metadata["snapshots"] = [
            {
                "snapshot-id": SNAPSHOT,
                "sequence-number": 1,
                "timestamp-ms": metadata["last-updated-ms"],
                "manifest-list": self._write_list(),
                "summary": {"operation": "append", "total-data-files": str(len(self._live))},
                "schema-id": 0,
            }
        ]
        metadata["refs"] = {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}}
        path = self._table / "metadata" / "v1.metadata.json"
        path.write_text(json.dumps(metadata))
        (self._table / "metadata" / "version-hint.text").write_text("1")
        return f"file://{path}"

    def _write_list(self) -> str:
        io, manifests = PyArrowFileIO(), []
        for first in range(0, len(self._live), FILES_OF_MANIFEST):
            output = io.new_output(f"{self._location}/metadata/{first:08}-m0.avro")
            with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, SCHEMA, output, SNAPSHOT, "deflate") as writer:
                for name in self._live[first : first + FILES_OF_MANIFEST]:
                    writer.add_entry(added_entry(f"{self._location}/{name}", 4, **_METRICS))
            manifests.append(writer.to_manifest_file())
        path = f"{self._location}/metadata/snap-1-0.avro"
        with write_manifest_list(2, io.new_output(path), SNAPSHOT, None, 1, "deflate") as listing:
            listing.add_manifests(manifests)
        return path


def added_entry(path: str, bytes: int, **metrics: Any) -> ManifestEntry:
    """Of an unpartitioned table's first snapshot."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=100,
        file_size_in_bytes=bytes,
        **metrics,
    )
    file.spec_id = 0
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=SNAPSHOT, sequence_number=1, file_sequence_number=1, data_file=file
    )
