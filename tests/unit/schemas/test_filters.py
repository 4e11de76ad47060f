"""Filters show what was asked for and never hide what would leave a reader's picture wrong."""

from __future__ import annotations

import pytest

from headwater.schemas.change import Change, KeyPath, Kind, Op, Operation
from headwater.schemas.filters import NO_FILTER, Filter


def operation(op: Op, key: KeyPath, *, type: str = "ICEBERG_TABLE", from_key: KeyPath | None = None) -> Operation:
    return Operation(op=op, key=key, content_id="c", type=type, from_key=from_key)


def change(*operations: Operation, kind: Kind = Kind.COMMIT) -> Change:
    return Change(
        realm="r", pointer="p", seq=1, entry_id="", kind=kind, commit_id="", parent_id="", head_before="", time="", author="",
        message="", headers={}, request_id="", operations=operations, objects_added=(), objects_released=(),
    )  # fmt: skip


PUT_ORDERS = change(operation(Op.PUT, ("db", "orders")))
PUT_ELSEWHERE = change(operation(Op.PUT, ("accounting", "orders")))
DELETE_ORDERS = change(operation(Op.DELETE, ("db", "orders")))
RENAME_OUT = change(operation(Op.RENAME, ("archive", "orders"), from_key=("db", "orders")))


def test_no_filter_shows_everything() -> None:
    assert NO_FILTER.asks_for_all
    assert all(NO_FILTER.shows(shown) for shown in (PUT_ORDERS, DELETE_ORDERS, change(kind=Kind.ASSIGN)))


def test_a_prefix_is_compared_level_by_level() -> None:
    assert Filter(prefix=("db",)).shows(PUT_ORDERS)
    assert Filter(prefix=("db", "orders")).shows(PUT_ORDERS)
    assert not Filter(prefix=("acc",)).shows(PUT_ELSEWHERE)


def test_a_rename_out_of_the_prefix_is_shown() -> None:
    assert Filter(prefix=("db",)).shows(RENAME_OUT)
    assert Filter(prefix=("archive",)).shows(RENAME_OUT)


def test_a_deletion_is_shown_whatever_type_was_asked_for() -> None:
    assert Filter(types=("ICEBERG_VIEW",)).shows(DELETE_ORDERS)
    assert not Filter(types=("ICEBERG_VIEW",)).shows(PUT_ORDERS)


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.ASSIGN, Kind.DELETE])
def test_moves_of_the_reference_are_shown_unless_other_kinds_are_asked_for_by_name(kind: Kind) -> None:
    assert Filter(prefix=("nowhere",), types=("UDF",), operations=(Op.PUT,), content_ids=("x",)).shows(change(kind=kind))
    assert not Filter(kinds=(Kind.COMMIT,)).shows(change(kind=kind))


def test_one_matching_operation_shows_the_whole_change() -> None:
    both = change(operation(Op.PUT, ("other", "t")), operation(Op.PUT, ("db", "orders")))
    assert Filter(prefix=("db",)).shows(both)
    assert not Filter(prefix=("db",), operations=(Op.DELETE,)).shows(both)
