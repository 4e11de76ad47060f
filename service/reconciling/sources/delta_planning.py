"""The files that a scan of a Delta table reads: those whose partition and statistics may hold rows of the filter."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headwater.producer.connectors.source_spi import DeletedRows, ScanFile
from headwater.schemas.errors import InvalidInput, MalformedMetadata, Unsupported
from headwater.service.planning.scan_filter import MetricsTest, ScanRequest, parsed_filter
from headwater.streaming.files.formats.delta_logs import resolved_path, vector_location
from headwater.streaming.files.formats.delta_states import Action, DeltaState

VECTOR_FORMAT = "delta-deletion-vector"
_TYPES: dict[str, PrimitiveType] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
}
_exact = msgspec.json.Decoder(float_hook=Decimal)
_BOUNDED = (BooleanType, IntegerType, LongType, DateType, StringType, DecimalType)
"""⚠ Of these Delta's statistics are bounds. Those of doubles know no NaN, and those of times are cut to milliseconds."""


def planned_files(root: str, state: DeltaState, filter: bytes) -> Iterator[ScanFile]:
    may_match = _test(state.schema, filter)
    for add in state.adds:
        if may_match(add):
            yield _scan_file(root, add)


def _scan_file(root: str, add: Action) -> ScanFile:
    statistics, size = _statistics(add), add.get("size")
    return ScanFile(
        path=resolved_path(root, add["path"]),
        format="parquet",
        size_bytes=size if isinstance(size, int) else 0,
        record_count=int(statistics.get("numRecords") or 0),
        partition=_partition(add),
        deleted=_deleted(root, add),
    )


def _deleted(root: str, add: Action) -> DeletedRows | None:
    vector = add.get("deletionVector")
    if not vector:
        return None
    path = vector_location(root, root, vector)
    if path is None:
        raise Unsupported("a deletion vector in the log itself is not supported.", field="deletionVector")
    return DeletedRows(
        path=path,
        format=VECTOR_FORMAT,
        offset=vector.get("offset"),
        size_bytes=int(vector.get("sizeInBytes") or 0),
        count=int(vector.get("cardinality") or 0),
    )


# ── pruning ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Column(msgspec.Struct, frozen=True):
    id: int
    type: PrimitiveType
    physical: str
    """What the log calls it."""


def _test(schema: Action, filter: bytes) -> Callable[[Action], bool]:
    wanted = parsed_filter(ScanRequest(filter))
    if isinstance(wanted, AlwaysTrue):
        return lambda add: True
    columns = list(_columns(schema))
    fields = [NestedField(one.id, name, one.type, required=False) for name, one in columns]
    try:
        evaluate = MetricsTest(Schema(*fields), wanted, False).eval
    except (ValueError, TypeError, NotImplementedError, RecursionError) as error:
        raise InvalidInput(
            f"the filter does not fit the table: {str(error)[:200]}", field="filter", remedy="Name columns of the table."
        ) from None

    def may_match(add: Action) -> bool:
        try:
            return bool(evaluate(_metrics([one for _, one in columns], add)))
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, struct.error):
            return True  # what cannot be judged stays

    return may_match


def _columns(schema: Action) -> Iterator[tuple[str, _Column]]:
    for id, field in enumerate(schema["fields"], 1):
        type = _type(field.get("type"))
        if type is not None:
            physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])
            yield str(field["name"]), _Column(id, type, str(physical))


def _type(name: Any) -> PrimitiveType | None:
    if isinstance(name, str) and name.startswith("decimal("):
        precision, _, scale = name[len("decimal(") : -1].partition(",")
        return DecimalType(int(precision), int(scale))
    return _TYPES.get(name) if isinstance(name, str) else None


def _metrics(columns: list[_Column], add: Action) -> DataFile:
    """As Iceberg's own of a data file: the columns of the partition hold one value each."""
    statistics, partition = _statistics(add), _partition(add)
    rows = int(statistics.get("numRecords") or 0)
    lower, upper, nulls, values = dict[int, bytes](), dict[int, bytes](), dict[int, int](), dict[int, int]()
    for one in columns:
        if one.physical in partition:
            text = partition[one.physical]
            values[one.id], nulls[one.id] = max(rows, 1), max(rows, 1) if text in (None, "") else 0
            if text not in (None, "") and isinstance(one.type, _BOUNDED):
                lower[one.id] = upper[one.id] = to_bytes(one.type, _value(one.type, text))
            continue
        count = (statistics.get("nullCount") or {}).get(one.physical)
        if isinstance(count, int) and rows:
            values[one.id], nulls[one.id] = rows, count
        else:
            values[one.id], nulls[one.id] = max(rows, 2), 1  # some may be null
        if isinstance(one.type, _BOUNDED):
            for bounds, name in ((lower, "minValues"), (upper, "maxValues")):
                value = (statistics.get(name) or {}).get(one.physical)
                if value is not None:
                    bounds[one.id] = to_bytes(one.type, _value(one.type, value))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=max(rows, 1),
        file_size_in_bytes=0,
        lower_bounds=lower,
        upper_bounds=upper,
        null_value_counts=nulls,
        value_counts=values,
    )


def _value(type: IcebergType, value: Any) -> Any:
    """A value from statistics, or from the text of a partition."""
    if isinstance(type, BooleanType):
        return value if isinstance(value, bool) else {"true": True, "false": False}[value]
    if isinstance(type, IntegerType | LongType):
        return int(value)
    if isinstance(type, DateType):
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    if isinstance(type, DecimalType):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-type.scale))
    return value


def _statistics(add: Action) -> dict[str, Any]:
    """⚠ Whole numbers and decimals as they are written: a double would lose digits."""
    text = add.get("stats")
    if not text:
        return {}
    try:
        found = _exact.decode(text)
    except (msgspec.DecodeError, TypeError, InvalidOperation):
        return {}
    return found if isinstance(found, dict) else {}


def _partition(add: Action) -> dict[str, str | None]:
    """A checkpoint in Parquet has a map as a list of pairs."""
    found = add.get("partitionValues") or {}
    try:
        return {str(name): None if value is None else str(value) for name, value in dict(found).items()}
    except (TypeError, ValueError):
        raise MalformedMetadata("a file of the log has no partition values that can be read.", field="location") from None
