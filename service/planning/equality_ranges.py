"""Whether equality deletes can concern a data file, by the bounds and null counts of both.

The rules are those of Iceberg's own planner (DeleteFileIndex), so that both list the same delete files.
"""

from __future__ import annotations

import struct
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType


def may_delete_from(delete: DataFile, data: DataFile, schema: Schema) -> bool:
    """False only if some column of the deletes has no value in common with the data."""
    for id in delete.equality_ids or ():
        try:
            field = schema.find_field(id)
        except ValueError:  # dropped since: nothing is known of it
            continue
        if isinstance(field.field_type, PrimitiveType) and _is_apart(delete, data, field):
            return False
    return True


def _is_apart(delete: DataFile, data: DataFile, field: NestedField) -> bool:
    if _may_hold_null(data, field) and _may_hold_null(delete, field):
        return False
    if _holds_only_null(data, field) and not _may_hold_null(delete, field):
        return True
    if _holds_only_null(delete, field) and not _may_hold_null(data, field):
        return True
    bounds = [(one.lower_bounds or {}, one.upper_bounds or {}) for one in (delete, data)]
    values = [_value(field, side.get(field.field_id)) for pair in bounds for side in pair]
    if any(value is None for value in values):
        return False
    delete_lower, delete_upper, data_lower, data_upper = values
    return bool(delete_upper < data_lower or data_upper < delete_lower)


def _value(field: NestedField, raw: bytes | None) -> Any:
    if raw is None or not isinstance(field.field_type, PrimitiveType):
        return None
    try:
        return from_bytes(field.field_type, raw)
    except (ValueError, TypeError, struct.error):  # written with another type: nothing is known
        return None


def _may_hold_null(file: DataFile, field: NestedField) -> bool:
    count = (file.null_value_counts or {}).get(field.field_id)
    return not field.required and (count is None or count > 0)


def _holds_only_null(file: DataFile, field: NestedField) -> bool:
    nulls, values = (file.null_value_counts or {}).get(field.field_id), (file.value_counts or {}).get(field.field_id)
    return not field.required and nulls is not None and nulls == values
