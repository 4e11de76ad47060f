"""Files are left out by their metrics as Iceberg's own planner leaves them out."""

from __future__ import annotations

import pytest
from pyiceberg.expressions import IsNull, NotStartsWith
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType

from headwater.service.planning.scan_filter import MetricsTest

SCHEMA = Schema(NestedField(1, "region", StringType(), required=False))


def file(nulls: dict[int, int] | None) -> DataFile:
    """Of ten rows whose regions begin with "a"."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10,
        file_size_in_bytes=1,
        lower_bounds={1: b"a"},
        upper_bounds={1: b"az"},
        value_counts={1: 10},
        null_value_counts=nulls,
    )


@pytest.mark.parametrize(("nulls", "is_kept"), [({1: 0}, False), ({1: 3}, True), (None, True), ({}, False)])
def test_values_that_all_begin_so_are_left_out_unless_some_may_be_null(nulls: dict[int, int] | None, is_kept: bool) -> None:
    assert MetricsTest(SCHEMA, NotStartsWith("region", "a")).eval(file(nulls)) is is_kept


@pytest.mark.parametrize(("nulls", "is_kept"), [({1: 0}, False), ({1: 3}, True), (None, True)])
def test_nulls_are_looked_for_where_there_may_be_some(nulls: dict[int, int] | None, is_kept: bool) -> None:
    assert MetricsTest(SCHEMA, IsNull("region")).eval(file(nulls)) is is_kept
