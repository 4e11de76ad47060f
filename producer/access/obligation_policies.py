"""Reads what policies of the types `column-mask` and `row-filter` say. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput

COLUMN_MASK, ROW_FILTER = "column-mask", "row-filter"
OBLIGATION_TYPES = frozenset({COLUMN_MASK, ROW_FILTER})
_Sql = Annotated[str, Meta(min_length=1, max_length=10_000)]
_Name = Annotated[str, Meta(min_length=1, max_length=1_000)]


class ColumnMask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    columns: dict[_Name, _Sql]
    """Expressions by the names of columns, those of nested ones with dots."""
    dialect: str = "spark"


class RowFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: _Sql
    """A predicate: only rows for which it is true are shown."""
    dialect: str = "spark"


def check_obligation(type: str, content: Value) -> None:
    """`InvalidInput` unless an engine can enforce it. ⚠ Policies that older versions accepted remain obligations."""
    try:
        if type == ROW_FILTER:
            msgspec.convert(content, RowFilter)
        elif not msgspec.convert(content, ColumnMask).columns:
            raise msgspec.ValidationError("it masks no column")
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"a {type} policy cannot say that: {error}.",
            field="content",
            remedy='Write {"columns": {"email": "sha2(email, 256)"}}, or {"filter": "amount < 100"}.',
        ) from None
