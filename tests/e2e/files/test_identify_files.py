"""What a table references is exactly what its writer has put on storage, in both ways of reading."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from headwater.schemas.errors import FileMissing, MalformedMetadata, Unsupported
from headwater.streaming.files.formats.reading import Fault, Mode
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import VIEW, FileOperations
from headwater.streaming.files.stores.storages import Storages
from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history

OPERATIONS = FileOperations(Storages())
DAMAGES = {
    "missing": None,
    "empty": b"",
    "truncated": b"Obj\x01",
    "random": b"\x93\x01\xff\x00" * 50,
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[InMemoryCatalog]:
    with memory_catalog(f"file://{tmp_path}") as opened:
        yield opened


def found_below(location: str) -> set[str]:
    return {file.location for file in OPERATIONS.find(location)}


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@pytest.mark.parametrize("version", [1, 2])
def test_every_file_of_a_table_is_identified_and_nothing_else(catalog: InMemoryCatalog, version: int) -> None:
    table = table_with_history(catalog, "t", **{"format-version": version})
    files = list(OPERATIONS.identify(table.metadata_location))
    assert {file.location for file in files} == found_below(table.location())
    kinds = Counter(file.kind for file in files)
    assert kinds[FileKind.METADATA] == 1
    assert kinds[FileKind.MANIFEST_LIST] == len(table.metadata.snapshots)
    assert kinds[FileKind.METADATA_LOG] == len(table.metadata.metadata_log)
    assert {FileKind.DATA, FileKind.MANIFEST} <= set(kinds)


def test_files_come_before_the_files_that_name_them(catalog: InMemoryCatalog) -> None:
    table = table_with_history(catalog, "t")
    files = list(OPERATIONS.identify(table.metadata_location))
    first = {file.location: number for number, file in reversed(list(enumerate(files)))}
    assert all(number < first[file.referrer] for number, file in enumerate(files) if file.referrer)
    assert files[-1].location == table.metadata_location


def test_duplicates_are_removed_on_request(catalog: InMemoryCatalog) -> None:
    table = table_with_history(catalog, "t")
    locations = [file.location for file in OPERATIONS.identify(table.metadata_location)]
    once = [file.location for file in OPERATIONS.identify(table.metadata_location, deduplicate=True)]
    assert len(locations) > len(once) == len(set(locations))


def test_compressed_metadata_is_read(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = table_with_history(catalog, "t")
    packed = tmp_path / "00007-packed.gz.metadata.json"
    packed.write_bytes(gzip.compress(path_of(table.metadata_location).read_bytes()))
    plain = {file.location for file in OPERATIONS.identify(table.metadata_location)}
    assert {file.location for file in OPERATIONS.identify(f"file://{packed}")} == plain - {table.metadata_location} | {
        f"file://{packed}"
    }


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", [FileKind.METADATA, FileKind.MANIFEST_LIST, FileKind.MANIFEST])
def test_a_damaged_file_ends_a_strict_reading_and_is_reported_by_a_lenient_one(
    catalog: InMemoryCatalog, kind: FileKind, damage: str
) -> None:
    table = table_with_history(catalog, "t")
    whole = list(OPERATIONS.identify(table.metadata_location))
    victim = next(file.location for file in whole if file.kind is kind)
    content = DAMAGES[damage]
    if content is None:
        path_of(victim).unlink()
    else:
        path_of(victim).write_bytes(content)
    with pytest.raises(FileMissing if content is None else MalformedMetadata):
        list(OPERATIONS.identify(table.metadata_location))
    faults: list[Fault] = []
    rest = list(OPERATIONS.identify(table.metadata_location, mode=Mode.LENIENT, on_fault=faults.append))
    assert [(fault.location, fault.missing) for fault in faults] == [(victim, content is None)]
    assert {file.location for file in rest} <= {file.location for file in whole}
    by_location = {file.location: file for file in rest}
    assert by_location[victim].complete == (content is None)
    assert by_location[table.metadata_location].complete == (content is None)


def edited(table_location: str, **changes: Any) -> str:
    path = path_of(table_location).with_name("00099-edited.metadata.json")
    path.write_text(json.dumps({**json.loads(path_of(table_location).read_text()), **changes}))
    return f"file://{path}"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"format-version": 9}, Unsupported),
        ({"format-version": None}, Unsupported),
        ({"snapshots": "none"}, MalformedMetadata),
        ({"snapshots": [{"snapshot-id": 1}]}, MalformedMetadata),
        ({"snapshots": [{"snapshot-id": 1, "manifest-list": 7}]}, MalformedMetadata),
        ({"snapshots": [{"snapshot-id": 1, "manifest-list": "file:///x", "key-id": "k"}]}, Unsupported),
        ({"statistics": [{"snapshot-id": 1}]}, MalformedMetadata),
        ({"metadata-log": {}}, MalformedMetadata),
    ],
)
def test_metadata_that_cannot_be_understood_ends_a_strict_reading(
    catalog: InMemoryCatalog, changes: dict[str, Any], error: type[Exception]
) -> None:
    table = table_with_history(catalog, "t")
    with pytest.raises(error):
        list(OPERATIONS.identify(edited(table.metadata_location, **changes)))


def test_manifests_named_in_the_snapshot_itself_are_read(catalog: InMemoryCatalog) -> None:
    table = table_with_history(catalog, "t", **{"format-version": 1})
    manifests = [file.location for file in OPERATIONS.identify(table.metadata_location) if file.kind is FileKind.MANIFEST]
    inline = edited(table.metadata_location, snapshots=[{"snapshot-id": 1, "manifests": manifests}])
    files = list(OPERATIONS.identify(inline))
    assert [file.location for file in files if file.kind is FileKind.MANIFEST] == manifests
    assert FileKind.DATA in {file.kind for file in files}


def test_statistics_files_are_identified(catalog: InMemoryCatalog) -> None:
    table = table_with_history(catalog, "t")
    location = edited(
        table.metadata_location,
        statistics=[{"snapshot-id": 1, "statistics-path": "file:///s.puffin", "file-size-in-bytes": 7}],
        **{"partition-statistics": [{"snapshot-id": 1, "statistics-path": "file:///p.parquet"}]},
    )
    files = {file.location: file for file in OPERATIONS.identify(location)}
    assert files["file:///s.puffin"] == FileRef("file:///s.puffin", FileKind.STATISTICS, 7, location)
    assert files["file:///p.parquet"].kind is FileKind.PARTITION_STATISTICS


def test_a_view_references_only_its_metadata(tmp_path: Path) -> None:
    view = tmp_path / "v.metadata.json"
    view.write_text(json.dumps({"format-version": 1, "versions": []}))
    assert list(OPERATIONS.identify(f"file://{view}", VIEW)) == [FileRef(f"file://{view}", FileKind.METADATA)]
    view.write_text(json.dumps({"format-version": 2, "versions": []}))
    with pytest.raises(Unsupported):
        list(OPERATIONS.identify(f"file://{view}", VIEW))
