"""Pushes a query's filters down to the log: which pointers, seqs, times and kinds are read at all.

Filters that are accepted here are answered exactly, and Spark does not filter again; all others go back to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = 2**63 - 1


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All conditions must hold."""

    pointers: tuple[frozenset[str], ...] = ()
    prefixes: tuple[str, ...] = ()
    kinds: tuple[frozenset[str], ...] = ()
    seq_min: int = 1
    seq_max: int = NEVER
    time_min: int = 0
    """Microseconds, inclusive."""
    time_max: int = NEVER
    """Microseconds, inclusive."""

    def reads_pointer(self, name: str) -> bool:
        return all(name in names for names in self.pointers) and all(name.startswith(prefix) for prefix in self.prefixes)

    def shows_kind(self, kind: str) -> bool:
        return all(kind in kinds for kinds in self.kinds)

    @property
    def has_time(self) -> bool:
        return self.time_min > 0 or self.time_max < NEVER


def push(filters: Iterable[Filter]) -> tuple[LogFilter, list[Filter]]:
    """The filters that the log accepts, and those left for Spark."""
    taken, left = LogFilter(), []
    for one in filters:
        narrowed = _narrowed(taken, one)
        if narrowed is None:
            left.append(one)
        else:
            taken = narrowed
    return taken, left


def _narrowed(taken: LogFilter, one: Filter) -> LogFilter | None:
    match one:
        case IsNotNull(attribute=("pointer" | "seq" | "kind" | "time",)):
            return taken  # these are never null
        case StringStartsWith(attribute=("pointer",), value=prefix):
            return msgspec.structs.replace(taken, prefixes=(*taken.prefixes, prefix))
        case EqualTo(attribute=("pointer" | "kind" as column,), value=str(name)):
            return _one_of(taken, column, [name])
        case In(attribute=("pointer" | "kind" as column,), value=names):
            return _one_of(taken, column, [name for name in names if name is not None])
        case (
            EqualTo(attribute=(("seq" | "time") as column,))
            | GreaterThan(attribute=(("seq" | "time") as column,))
            | GreaterThanOrEqual(attribute=(("seq" | "time") as column,))
            | LessThan(attribute=(("seq" | "time") as column,))
            | LessThanOrEqual(attribute=(("seq" | "time") as column,))
        ):
            return _within(taken, column, one)
    return None


def _one_of(taken: LogFilter, column: str, names: Iterable[str]) -> LogFilter:
    if column == "pointer":
        return msgspec.structs.replace(taken, pointers=(*taken.pointers, frozenset(names)))
    return msgspec.structs.replace(taken, kinds=(*taken.kinds, frozenset(names)))


def _within(taken: LogFilter, column: str, one: Filter) -> LogFilter | None:
    value = _number(getattr(one, "value", None))
    if value is None:
        return None
    low, high = (taken.seq_min, taken.seq_max) if column == "seq" else (taken.time_min, taken.time_max)
    for bound, is_low in _bounds(one, value):
        low, high = (max(low, bound), high) if is_low else (low, min(high, bound))
    if column == "seq":
        return msgspec.structs.replace(taken, seq_min=low, seq_max=high)
    return msgspec.structs.replace(taken, time_min=low, time_max=high)


def _bounds(one: Filter, value: int) -> Iterator[tuple[int, bool]]:
    match one:
        case EqualTo():
            yield value, True
            yield value, False
        case GreaterThan():
            yield value + 1, True
        case GreaterThanOrEqual():
            yield value, True
        case LessThan():
            yield value - 1, False
        case LessThanOrEqual():
            yield value, False


def _number(value: object) -> int | None:
    """Spark hands a timestamp over as an aware datetime."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
