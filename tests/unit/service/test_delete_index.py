"""Which delete files a data file has: by sequence number, partition, path and bounds, as Iceberg's specification says."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from headwater.service.planning.delete_index import DeleteIndex
from headwater.service.planning.equality_ranges import may_delete_from

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
SPECS = {0: PartitionSpec(), 1: PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=1)}
PATH = 2_147_483_546


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def entry(path: str, seq: int, *partition: str, content: DataFileContent = DataFileContent.DATA, **more: Any) -> ManifestEntry:
    reference, offset = more.pop("referenced", None), more.pop("offset", None)
    file = DataFile.from_args(
        _table_format_version=3,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=10,
        file_size_in_bytes=100,
        **more,
    )
    file._data[17:20] = [reference, offset, None if offset is None else 8]
    file.spec_id = 1 if partition else 0
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=1, sequence_number=seq, file_sequence_number=seq, data_file=file
    )


def position(path: str, seq: int, *partition: str, **more: Any) -> ManifestEntry:
    return entry(path, seq, *partition, content=DataFileContent.POSITION_DELETES, **more)


def equality(path: str, seq: int, *partition: str, **more: Any) -> ManifestEntry:
    return entry(path, seq, *partition, content=DataFileContent.EQUALITY_DELETES, **{"equality_ids": [1], **more})


def found(data: ManifestEntry, *deletes: ManifestEntry) -> list[str]:
    index = DeleteIndex(SPECS, SCHEMA)
    for one in deletes:
        index.add(one)
    return sorted(file.file_path for file in index.deletes_of(data))


def test_equality_deletes_apply_to_older_data_and_position_deletes_to_data_of_the_same_commit_too() -> None:
    data = entry("d", 5)
    assert found(data, *(equality(f"e{seq}", seq) for seq in (4, 5, 6))) == ["e6"]
    assert found(data, *(position(f"p{seq}", seq) for seq in (4, 5, 6))) == ["p5", "p6"]


def test_deletes_apply_within_their_partition_and_unpartitioned_equality_deletes_everywhere() -> None:
    data = entry("d", 1, "a")
    deletes = [equality("e-a", 2, "a"), equality("e-b", 2, "b"), equality("e-all", 2), position("p-a", 2, "a")]
    assert found(data, *deletes, position("p-b", 2, "b"), position("p-unpartitioned", 2)) == ["e-a", "e-all", "p-a"]
    assert found(entry("d", 1), *deletes) == ["e-all"]


def test_position_deletes_that_name_one_file_apply_only_to_it() -> None:
    by_bounds = position("p1", 2, lower_bounds={PATH: b"d"}, upper_bounds={PATH: b"d"})
    of_several = position("p2", 2, lower_bounds={PATH: b"a"}, upper_bounds={PATH: b"z"})
    named = position("p3", 2, referenced="d")
    assert found(entry("d", 1), by_bounds, of_several, named) == ["p1", "p2", "p3"]
    assert found(entry("other", 1), by_bounds, of_several, named) == ["p2"]


def test_a_deletion_vector_replaces_position_deletes_but_not_equality_deletes() -> None:
    vector = position("v", 3, referenced="d", offset=4)
    deletes = [position("p", 2), position("p-d", 2, referenced="d"), equality("e", 2)]
    assert found(entry("d", 1), vector, *deletes) == ["e", "v"]
    assert found(entry("other", 1), vector, *deletes) == ["e", "p"]
    assert found(entry("d", 4), vector) == [], "newer data has no part in it"


def _file(lower: int | None, upper: int | None, **more: Any) -> DataFile:
    bounds = {} if lower is None or upper is None else {"lower_bounds": {1: long(lower)}, "upper_bounds": {1: long(upper)}}
    return equality("f", 1, **bounds, **more).data_file


@pytest.mark.parametrize(
    ("delete", "data", "applies"),
    [
        ((1, 3), (3, 9), True),
        ((1, 2), (3, 9), False),
        ((10, 12), (3, 9), False),
        ((None, None), (3, 9), True),
        ((1, 2), (None, None), True),
    ],
)
def test_equality_deletes_whose_bounds_are_apart_from_the_data_do_not_apply(
    delete: tuple[int | None, int | None], data: tuple[int | None, int | None], applies: bool
) -> None:
    assert may_delete_from(_file(*delete), _file(*data), SCHEMA) is applies


def test_equality_deletes_of_nulls_alone_apply_only_where_nulls_may_be() -> None:
    def file(nulls: int | None, values: int | None) -> DataFile:
        counts = {
            "null_value_counts": {} if nulls is None else {2: nulls},
            "value_counts": {} if values is None else {2: values},
        }
        return equality("f", 1, equality_ids=[2], **counts).data_file

    assert not may_delete_from(file(3, 3), file(0, 10), SCHEMA)
    assert not may_delete_from(file(0, 3), file(10, 10), SCHEMA)
    assert may_delete_from(file(3, 3), file(1, 10), SCHEMA) and may_delete_from(file(3, 3), file(None, None), SCHEMA)


def test_a_column_that_was_dropped_or_has_unreadable_bounds_excludes_nothing() -> None:
    assert may_delete_from(_file(1, 2, equality_ids=[99]), _file(8, 9), SCHEMA)
    odd = equality("f", 1, lower_bounds={1: b"x"}, upper_bounds={1: b"x"}).data_file
    assert may_delete_from(odd, _file(8, 9), SCHEMA)
