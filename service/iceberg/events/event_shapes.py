"""Turns a Change into the specification's events, one for each key that it touched, in order.

Events hold nothing that the Change does not: they are the same log in another shape, and so only what is committed is shown.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Change, KeyPath, Op, Operation
from headwater.schemas.entry_ids import micros_of
from headwater.service.iceberg.operations.lake_branch import NAMESPACE, TABLE, VIEW
from headwater.service.iceberg.operations.update_headers import OPERATION, PURGE, Updates, updates_from_headers

VENDOR = "x-headwater"
_OBJECT_TYPES = {NAMESPACE: "namespace", TABLE: "table", VIEW: "view"}


class Event(msgspec.Struct, frozen=True, rename="kebab"):
    event_id: str
    request_id: str
    request_event_count: int
    timestamp_ms: int
    actor: dict[str, str]
    operation: dict[str, Any]


class FilterableEvent(msgspec.Struct, frozen=True):
    """An event, and what filters ask about it."""

    event: Event
    operation_type: str
    keys: tuple[KeyPath, ...]
    uuid: str | None
    object_type: str | None


def events_of(change: Change) -> list[FilterableEvent]:
    if change.kind not in COMMITTING_KINDS:
        return [_told(change, 0, 1, {"operation-type": f"{VENDOR}.branch-{change.kind}", "commit-id": change.commit_id}, None)]
    updates = updates_from_headers(change.headers)
    count = len(change.operations)
    return [
        _told(change, number, count, _operation(change, one, updates.get(one.key, [])), one)
        for number, one in enumerate(change.operations)
    ]


def _told(change: Change, number: int, count: int, operation: dict[str, Any], touched: Operation | None) -> FilterableEvent:
    event = Event(
        event_id=f"{change.entry_id}-{number}",
        request_id=change.request_id,
        request_event_count=count,
        timestamp_ms=micros_of(change.time) // 1_000,
        actor={"id": change.author},
        operation=operation,
    )
    object_type = None if touched is None else _OBJECT_TYPES.get(touched.type)
    return FilterableEvent(
        event,
        operation["operation-type"],
        () if touched is None else tuple(key for key in (touched.key, touched.from_key) if key is not None),
        touched.content_id if touched is not None and object_type in ("table", "view") else None,
        object_type,
    )


def _operation(change: Change, one: Operation, updates: Updates) -> dict[str, Any]:
    if one.type == NAMESPACE:
        return _of_namespace(one)
    if one.type not in (TABLE, VIEW):
        return {"operation-type": f"{VENDOR}.{one.op}", "key": one.key, "type": one.type, "uuid": one.content_id}
    what = _OBJECT_TYPES[one.type]
    fields: dict[str, Any] = {f"{what}-uuid": one.content_id}
    if one.op is Op.RENAME:
        source = _identifier(one.from_key or one.key)
        return {"operation-type": f"rename-{what}", "source": source, "destination": _identifier(one.key), **fields}
    fields["identifier"] = _identifier(one.key)
    if one.op is Op.DELETE:
        purge = {"purge": change.headers.get(PURGE) == "true"} if one.type == TABLE else {}
        return {"operation-type": f"drop-{what}", **fields, **purge}
    if change.headers.get(OPERATION) == "register-table":
        return {"operation-type": "register-table", **fields}
    verb = "create" if one.before is None else "update"
    return {"operation-type": f"{verb}-{what}", **fields, "updates": updates}


def _of_namespace(one: Operation) -> dict[str, Any]:
    before = (one.before or {}).get("properties", {})
    after = (one.after or {}).get("properties", {})
    if one.op is Op.DELETE:
        return {"operation-type": "drop-namespace", "namespace": one.key}
    if one.op is Op.RENAME:
        return {"operation-type": f"{VENDOR}.rename-namespace", "namespace": one.key, "source": one.from_key}
    if one.before is None:
        return {"operation-type": "create-namespace", "namespace": one.key, "properties": after}
    return {
        "operation-type": "update-namespace-properties",
        "namespace": one.key,
        "updated": [name for name, value in after.items() if before.get(name) != value],
        "removed": [name for name in before if name not in after],
    }


def _identifier(key: KeyPath) -> dict[str, Any]:
    return {"namespace": key[:-1], "name": key[-1]}
