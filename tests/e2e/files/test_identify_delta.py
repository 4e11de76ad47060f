"""What a Delta table references: all that its writer put on storage, removed files and deletion vectors included."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.schemas.errors import FileMissing, MalformedMetadata, Unsupported
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import DELTA_TABLE, FileOperations
from headwater.streaming.files.stores.storages import Storages

OPERATIONS = FileOperations(Storages())
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["a b", "c%d", "e"]})


def identified(location: str) -> list[FileRef]:
    return list(OPERATIONS.identify(location, DELTA_TABLE))


def test_every_file_of_a_delta_table_is_identified_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for mode in ("append", "append", "overwrite", "append"):
        write_deltalake(str(root), ROWS, mode=mode, partition_by=["city"])
    DeltaTable(str(root)).create_checkpoint()
    write_deltalake(str(root), ROWS, mode="append", partition_by=["city"])
    files = identified(f"file://{root}")
    assert {file.location for file in files} == {file.location for file in OPERATIONS.find(f"file://{root}")}
    assert {file.kind for file in files} >= {FileKind.DATA, FileKind.DELTA_LOG, FileKind.DELTA_CHECKPOINT}


def test_a_checkpoint_without_log_entries_lists_the_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(str(root), ROWS)
    write_deltalake(str(root), ROWS, mode="append")
    DeltaTable(str(root)).create_checkpoint()
    for commit in root.glob("_delta_log/*.json"):
        commit.unlink()
    named = {file.location for file in identified(f"file://{root}") if file.kind is FileKind.DATA}
    assert named == {f"file://{path}" for path in root.glob("*.parquet")}


def log_of(root: Path, *actions: object) -> str:
    log = root / "_delta_log" / f"{0:020d}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(json.dumps(action) for action in actions))
    return f"file://{root}"


def test_deletion_vectors_absolute_paths_and_change_data_are_named(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 1, "cardinality": 1}
    root = log_of(
        tmp_path,
        {"add": {"path": "x%20y.parquet", "size": 5, "deletionVector": vector}},
        {"add": {"path": "s3://clone/source.parquet"}},
        {"remove": {"path": "old.parquet", "deletionVector": {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQ"}}},
        {"cdc": {"path": "_change_data/c.parquet"}},
    )
    assert [(file.location, file.kind) for file in identified(root)][:-1] == [
        (f"{root}/x y.parquet", FileKind.DATA),
        (f"{root}/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", FileKind.DELETION_VECTOR),
        ("s3://clone/source.parquet", FileKind.DATA),
        (f"{root}/old.parquet", FileKind.DATA),
        (f"{root}/_change_data/c.parquet", FileKind.DATA),
    ]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ({"protocol": {"minReaderVersion": 4}}, Unsupported),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}, Unsupported),
        ({"add": {"path": "x", "deletionVector": {"storageType": "z", "pathOrInlineDv": "?"}}}, Unsupported),
        ({"add": {"size": 1}}, MalformedMetadata),
        ([1], MalformedMetadata),
    ],
)
def test_a_log_that_cannot_be_understood_ends_a_strict_reading(tmp_path: Path, action: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        identified(log_of(tmp_path, action))


def test_a_folder_without_a_log_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        identified(f"file://{tmp_path}")
