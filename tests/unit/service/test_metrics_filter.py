"""Files are left out by their metrics and partitions as Iceberg's own planner leaves them out."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression, IsNull, NotEqualTo, NotIn, NotStartsWith
from pyiceberg.expressions.visitors import inclusive_projection
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DoubleType, FixedType, LongType, NestedField, PrimitiveType, StringType, UUIDType

from headwater.service.planning.scan_filter import MetricsTest, PartitionTest, ScanRequest, fitted, parsed_filter

SCHEMA = Schema(NestedField(1, "region", StringType(), required=False))


def file(nulls: dict[int, int] | None, upper: bytes = b"az", lower: bytes = b"a", **others: object) -> DataFile:
    """Of ten rows whose regions begin with "a"."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10,
        file_size_in_bytes=1,
        lower_bounds={1: lower},
        upper_bounds={1: upper},
        value_counts={1: 10},
        null_value_counts=nulls,
        **others,
    )


@pytest.mark.parametrize(("nulls", "is_kept"), [({1: 0}, False), ({1: 3}, True), (None, True), ({}, True)])
def test_values_that_all_begin_so_are_left_out_unless_some_may_be_null(nulls: dict[int, int] | None, is_kept: bool) -> None:
    assert MetricsTest(SCHEMA, NotStartsWith("region", "a")).eval(file(nulls)) is is_kept


@pytest.mark.parametrize(("nulls", "is_kept"), [({1: 0}, False), ({1: 3}, True), (None, True)])
def test_nulls_are_looked_for_where_there_may_be_some(nulls: dict[int, int] | None, is_kept: bool) -> None:
    assert MetricsTest(SCHEMA, IsNull("region")).eval(file(nulls)) is is_kept


@pytest.mark.parametrize("excludes", [NotEqualTo("region", "a"), NotIn("region", {"a", "b"})], ids=["not-eq", "not-in"])
@pytest.mark.parametrize(
    ("nulls", "upper", "is_kept"), [({1: 0}, b"a", False), ({1: 0}, b"az", True), ({1: 1}, b"a", True), (None, b"a", True)]
)
def test_a_file_is_left_out_if_all_its_rows_hold_one_excluded_value(
    excludes: BooleanExpression, nulls: dict[int, int] | None, upper: bytes, is_kept: bool
) -> None:
    assert MetricsTest(SCHEMA, excludes).eval(file(nulls, upper)) is is_kept
    assert MetricsTest(SCHEMA, NotIn("region", {"b", "c"})).eval(file(nulls, upper))


@pytest.mark.parametrize(("nans", "is_kept"), [({1: 0}, False), ({1: 2}, True), (None, True), ({}, True)])
def test_a_file_that_may_hold_nan_is_kept_though_its_bounds_are_one_excluded_value(
    nans: dict[int, int] | None, is_kept: bool
) -> None:
    one = to_bytes(DoubleType(), 1.0)
    of_ones = file({1: 0}, one, one, nan_value_counts=nans)
    schema = Schema(NestedField(1, "region", DoubleType(), required=False))
    assert MetricsTest(schema, NotEqualTo("region", 1.0)).eval(of_ones) is is_kept


def _kept(filter: bytes, lower: bytes, upper: bytes, type: PrimitiveType) -> bool:
    schema = Schema(NestedField(1, "region", type, required=False))
    found = fitted(parsed_filter(ScanRequest(filter)), schema, case_sensitive=True)
    return MetricsTest(schema, found).eval(file({1: 0}, upper, lower))


@pytest.mark.parametrize("type", [BinaryType(), FixedType(2)])
@pytest.mark.parametrize(
    ("filter", "is_kept"),
    [
        (b'{"type": "eq", "term": "region", "value": "0A0b"}', True),
        (b'{"type": "eq", "term": "region", "value": "0aff"}', False),
        (b'{"type": "not", "child": {"type": "gt", "term": "region", "value": "09ff"}}', False),
        (b'{"type": "in", "term": "region", "values": ["ffff", "0a0b"]}', True),
        (b'{"type": "and", "left": true, "right": {"type": "lt", "term": "region", "value": "0a00"}}', False),
    ],
)
def test_bytes_in_a_filter_are_hexadecimal(filter: bytes, is_kept: bool, type: PrimitiveType) -> None:
    assert _kept(filter, b"\x0a\x0a", b"\x0a\x0c", type) is is_kept


@pytest.mark.parametrize("value", ["xyz", "0a0"])
def test_what_is_not_hexadecimal_is_no_value_of_bytes(value: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        _kept(b'{"type": "eq", "term": "region", "value": "' + value.encode() + b'"}', b"a", b"b", BinaryType())


@pytest.mark.parametrize(
    ("filter", "is_kept"),
    [
        (b'{"type": "eq", "term": TERM, "value": 3}', True),
        (b'{"type": "not", "child": {"type": "eq", "term": TERM, "value": 3}}', True),
        (b'{"type": "not", "child": {"type": "not", "child": {"type": "in", "term": TERM, "values": [3]}}}', True),
        (b'{"type": "and", "left": {"type": "eq", "term": TERM, "value": 3}, "right": OTHER}', False),
        (
            (
                b'{"type": "not", "child": {"type": "or", "left": {"type": "is-null", "term": TERM}, '
                b'"right": {"type": "not", "child": OTHER}}}'
            ),
            False,
        ),
        (b'{"type": "or", "left": {"type": "eq", "term": TERM, "value": 3}, "right": OTHER}', True),
    ],
)
def test_a_predicate_on_a_transformed_column_leaves_no_file_out(filter: bytes, is_kept: bool) -> None:
    """The engine applies it to the rows; what else the filter says still holds."""
    term = b'{"type": "transform", "transform": "bucket[4]", "term": "region"}'
    other = b'{"type": "eq", "term": "region", "value": "elsewhere"}'
    assert _kept(filter.replace(b"TERM", term).replace(b"OTHER", other), b"a", b"b", StringType()) is is_kept


def _partition_kept(filter: dict[str, Any], type: PrimitiveType, value: object) -> bool:
    schema = Schema(NestedField(1, "column", type, required=False))
    spec = PartitionSpec(PartitionField(1, 1_000, IdentityTransform(), "column"))
    found = fitted(parsed_filter(ScanRequest(json.dumps({"term": "column", **filter}).encode())), schema, case_sensitive=True)
    projected = inclusive_projection(schema, spec, True)(found)
    return PartitionTest(Schema(*spec.partition_type(schema).fields), projected, True).eval(Record(value))


def test_a_uuid_of_a_filter_is_found_among_the_partitions() -> None:
    one, other = UUID(int=2**100), UUID(int=1)
    for kind, value, of_one, of_other in (
        ("eq", str(one), True, False),
        ("not-eq", str(one), False, True),
        ("in", [str(one), str(UUID(int=7))], True, False),
        ("not-in", [str(one), str(UUID(int=7))], False, True),
        ("gt", str(other), True, False),
        ("lt-eq", str(other), False, True),
    ):
        filter = {"type": kind, "values" if isinstance(value, list) else "value": value}
        assert [_partition_kept(filter, UUIDType(), it) for it in (one, other)] == [of_one, of_other], kind


@pytest.mark.parametrize(("kind", "is_kept"), [("lt", True), ("lt-eq", True), ("gt", False), ("gt-eq", False), ("eq", False)])
def test_a_partition_without_a_value_comes_before_all_others(kind: str, is_kept: bool) -> None:
    assert _partition_kept({"type": kind, "value": 5}, LongType(), None) is is_kept
