"""A scan's filter: JSON of the Iceberg REST specification, kept as it came and parsed by PyIceberg."""

from __future__ import annotations

import msgspec
from pydantic import ValidationError
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from headwater.schemas.errors import InvalidInput

FILTER_BYTES_MAX = 64 * 1024


class ScanRequest(msgspec.Struct, frozen=True):
    """What a plan keeps of a request, so that every worker plans its parts in the same way. New fields come last."""

    filter: bytes = b""
    """JSON; empty for all rows."""
    case_sensitive: bool = True
    use_snapshot_schema: bool = False

    @property
    def has_filter(self) -> bool:
        return self.filter not in (b"", b"null", b"true")


def parsed_filter(request: ScanRequest) -> BooleanExpression:
    """`InvalidInput` if it is not an expression. Whether it fits a table is known when it is bound."""
    if not request.has_filter:
        return AlwaysTrue()
    if len(request.filter) > FILTER_BYTES_MAX:
        raise InvalidInput(
            f"a filter of {len(request.filter)} bytes.", field="filter", remedy=f"Use at most {FILTER_BYTES_MAX} bytes."
        )
    try:
        found = PlanTableScanRequest.model_validate_json(b'{"filter":' + request.filter + b"}").filter
    except (ValidationError, ValueError, TypeError, NotImplementedError, RecursionError):
        raise InvalidInput(
            "the filter is not an expression.", field="filter", remedy="Send an expression of the Iceberg REST specification."
        ) from None
    return AlwaysTrue() if found is None else found
