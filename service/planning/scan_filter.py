"""A scan's filter: JSON of the Iceberg REST specification, kept as it came and parsed by PyIceberg."""

from __future__ import annotations

import msgspec
from pydantic import ValidationError
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundTerm
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluationVisitor, _InclusiveMetricsEvaluator, visit
from pyiceberg.manifest import DataFile
from pyiceberg.typedef import L, LiteralValue
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

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


class MetricsTest(_InclusiveMetricsEvaluator):
    """Whether a file may hold rows of a filter, by its metrics."""

    def eval(self, file: DataFile) -> bool:
        return file.record_count < 0 or (file.record_count > 0 and visit(self.expr, _MetricsVisitor(file)))


class _MetricsVisitor(_InclusiveMetricsEvaluationVisitor):
    def __init__(self, file: DataFile) -> None:
        super().__init__(file)
        self._nulls = file.null_value_counts

    def _may_contain_null(self, field_id: int) -> bool:
        """As Iceberg's own planner has it; PyIceberg's takes a count of 0 for "perhaps"."""
        return self._nulls is None or self._nulls.get(field_id, 0) != 0

    def visit_not_equal(self, term: BoundTerm, literal: LiteralValue) -> bool:
        return not self._holds_one_of(term, {literal.value})

    def visit_not_in(self, term: BoundTerm, literals: set[L]) -> bool:
        return not self._holds_one_of(term, literals)

    def _holds_one_of(self, term: BoundTerm, values: set[L]) -> bool:
        """Whether all rows hold the same one of these values. ⚠ Bounds that differ may be no values of the file."""
        id, type = term.ref().field.field_id, term.ref().field.field_type
        bound = self.lower_bounds.get(id)
        if bound is None or bound != self.upper_bounds.get(id) or self.null_counts.get(id) != 0:
            return False
        if isinstance(type, FloatType | DoubleType) and self.nan_counts.get(id) != 0:
            return False
        return isinstance(type, PrimitiveType) and any(to_bytes(type, value) == bound for value in values)


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
