"""Reduces a Change to what a reader may see: all of it, a part, or nothing. Pure.

One that touches nothing the reader may see is withheld whole, like a filter does. Of one that touches both, the reader gets the
operations that it may see, so that its picture of those keys stays right, under the same entry id; the number of the others
stands in a header. Such a Change cannot be recomputed by itself: the Change after it still proves its id.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Change, KeyPath, Op, Operation

WITHHELD_HEADER = "headwater.withheld"
"""How many operations were left out. Nobody may commit a header of this name."""

MaySee = Callable[[KeyPath], bool]


def is_partial(change: Change) -> bool:
    return WITHHELD_HEADER in change.headers


def as_seen(change: Change, may_see: MaySee) -> Change | None:
    """The very same Change if nothing of it is hidden; None if all of it is."""
    if change.kind not in COMMITTING_KINDS:
        return change
    seen = [_operation_as_seen(operation, may_see) for operation in change.operations]
    if all(one is operation for one, operation in zip(seen, change.operations, strict=True)):
        return change
    shown = tuple(one for one in seen if one is not None)
    if not shown:
        return None
    hidden = sum(one is not operation for one, operation in zip(seen, change.operations, strict=True))
    return msgspec.structs.replace(
        change,
        operations=shown,
        message="",  # it and the headers speak of the whole commit
        headers={WITHHELD_HEADER: str(hidden)},
        objects_added=(),
        objects_released=(),
        source=None,
        request_id="",
    )


def _operation_as_seen(operation: Operation, may_see: MaySee) -> Operation | None:
    """A rename into or out of what the reader may see appears as a put or a delete."""
    sees_key = may_see(operation.key)
    if operation.from_key is None:
        return operation if sees_key else None
    sees_source = may_see(operation.from_key)
    if sees_key and sees_source:
        return operation
    if sees_key:
        return msgspec.structs.replace(operation, op=Op.PUT, from_key=None, before=None)
    if sees_source:
        return msgspec.structs.replace(operation, op=Op.DELETE, key=operation.from_key, from_key=None, after=None)
    return None
