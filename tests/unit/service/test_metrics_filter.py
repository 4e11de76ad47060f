"""Files are left out by their metrics as Iceberg's own planner leaves them out."""

from __future__ import annotations

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression, IsNull, NotEqualTo, NotIn, NotStartsWith
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, NestedField, StringType

from headwater.service.planning.scan_filter import MetricsTest

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


@pytest.mark.parametrize(("nulls", "is_kept"), [({1: 0}, False), ({1: 3}, True), (None, True), ({}, False)])
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
