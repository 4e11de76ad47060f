"""A scan's filter: JSON of the Iceberg REST specification, kept as it came and parsed by PyIceberg."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from pydantic import ValidationError
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    BoundTerm,
    LiteralPredicate,
    Not,
    Or,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import BinaryLiteral
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    _ExpressionEvaluationVisitor,
    _InclusiveMetricsEvaluationVisitor,
    _InclusiveMetricsEvaluator,
    bind,
    visit,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import L, LiteralValue, Record, StructProtocol
from pyiceberg.types import BinaryType, DoubleType, FixedType, FloatType, PrimitiveType, UUIDType

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


class PartitionTest:
    """Whether a file may hold rows of a projected filter, by its partition."""

    def __init__(self, schema: Schema, projected: BooleanExpression, case_sensitive: bool) -> None:
        self._bound = bind(schema, projected, case_sensitive)
        self._of_uuids = any(isinstance(field.field_type, UUIDType) for field in schema.fields)
        self._width = len(schema.fields)

    def eval(self, partition: StructProtocol) -> bool:
        """⚠ PyIceberg reads UUIDs as such from a manifest, and as bytes from a filter: none would equal another."""
        if self._of_uuids:
            values = [partition[at] for at in range(self._width)]
            partition = Record(*(one.bytes if isinstance(one, UUID) else one for one in values))
        return visit(self._bound, _PartitionVisitor(partition))


class _PartitionVisitor(_ExpressionEvaluationVisitor):
    """As in Iceberg's own planner, a partition without a value comes before all others; PyIceberg's leaves it out."""

    def visit_less_than(self, term: BoundTerm, literal: LiteralValue) -> bool:
        return term.eval(self.struct) is None or super().visit_less_than(term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: LiteralValue) -> bool:
        return term.eval(self.struct) is None or super().visit_less_than_or_equal(term, literal)


class MetricsTest(_InclusiveMetricsEvaluator):
    """Whether a file may hold rows of a filter, by its metrics."""

    def eval(self, file: DataFile) -> bool:
        return file.record_count < 0 or (file.record_count > 0 and visit(self.expr, _MetricsVisitor(file)))


class _MetricsVisitor(_InclusiveMetricsEvaluationVisitor):
    def __init__(self, file: DataFile) -> None:
        super().__init__(file)
        self._nulls = file.null_value_counts

    def _may_contain_null(self, field_id: int) -> bool:
        """As Iceberg's own planner has it. PyIceberg's takes a count of 0 for "perhaps", and one that is missing for 0."""
        return self._nulls is None or self._nulls.get(field_id) != 0

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


class _BytesFromText(BooleanExpressionVisitor[BooleanExpression]):
    """JSON has no bytes: literals of binary and fixed columns are hexadecimal texts, which PyIceberg does not read as such."""

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema, self._case_sensitive = schema, case_sensitive

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return Not(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        return predicate

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        if not isinstance(predicate, LiteralPredicate | SetPredicate):
            return predicate
        name = predicate.term.root if isinstance(predicate.term, Reference) else ""
        type = self._schema.find_field(name, self._case_sensitive).field_type
        if not isinstance(type, BinaryType | FixedType):
            return predicate
        if isinstance(predicate, SetPredicate):
            return predicate.__class__(predicate.term, {_bytes(one) for one in predicate.literals})
        return predicate.__class__(predicate.term, _bytes(predicate.literal))


def _bytes(literal: LiteralValue) -> BinaryLiteral:
    try:
        return BinaryLiteral(bytes.fromhex(str(literal.value)))
    except ValueError:
        raise ValueError(f"{str(literal.value)[:80]!r} is not hexadecimal") from None


def fitted(filter: BooleanExpression, schema: Schema, case_sensitive: bool) -> BooleanExpression:
    """The filter with literals of the columns' types. `ValueError` if it names a column that is not there."""
    return visit(filter, _BytesFromText(schema, case_sensitive))


def _without_transforms(expression: Any, negated: bool = False) -> Any:
    """Predicates on transformed columns say nothing here: all files may match them. ⚠ Also below a `not`."""
    if not isinstance(expression, dict):
        return expression
    kind = expression.get("type")
    if kind == "not":
        return {**expression, "child": _without_transforms(expression.get("child"), not negated)}
    if kind in ("and", "or"):
        return {**expression, **{side: _without_transforms(expression.get(side), negated) for side in ("left", "right")}}
    term = expression.get("term")
    if isinstance(term, dict) and term.get("type") == "transform" and isinstance(term.get("term"), str):
        return not negated
    return expression


def parsed_filter(request: ScanRequest) -> BooleanExpression:
    """`InvalidInput` if it is not an expression. Whether it fits a table is known when it is bound."""
    if not request.has_filter:
        return AlwaysTrue()
    if len(request.filter) > FILTER_BYTES_MAX:
        raise InvalidInput(
            f"a filter of {len(request.filter)} bytes.", field="filter", remedy=f"Use at most {FILTER_BYTES_MAX} bytes."
        )
    try:
        wanted = msgspec.json.encode({"filter": _without_transforms(msgspec.json.decode(request.filter))})
        found = PlanTableScanRequest.model_validate_json(wanted).filter
    except (msgspec.DecodeError, ValidationError, ValueError, TypeError, NotImplementedError, RecursionError):
        raise InvalidInput(
            "the filter is not an expression.", field="filter", remedy="Send an expression of the Iceberg REST specification."
        ) from None
    return AlwaysTrue() if found is None else found
