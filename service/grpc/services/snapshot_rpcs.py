"""SnapshotService: the Iceberg snapshots of a table, on the load and update routes of Iceberg REST."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.schemas.errors import InvalidInput, NotFound
from headwater.schemas.rpc import snapshot_pb2
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import named
from headwater.service.grpc.contents.table_metadata import committed_table, load_table
from headwater.service.grpc.messages.message_fields import TABLE, prefix, set_outcome, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token, parts_of
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, joined, sibling
from headwater.service.grpc.services.table_rpcs import table_commit
from headwater.service.iceberg.routes import TABLE as ONE

SERVICE = "io.headwater.catalog.v1.SnapshotService"
_GET, _UPDATE = sibling("GET", ONE), sibling("POST", ONE)


async def _names(call: RpcCall) -> dict[str, str]:
    found = await named(call, call.message.table, call.message.reference, TABLE, "table")
    if len(found.key) < 2:
        raise InvalidInput("a table has a namespace.", field="table.name.path", remedy="Name the namespace too.")
    return {
        "prefix": prefix(found.catalog, call.message.reference),
        "namespace": joined(found.key[:-1], "table.name.path"),
        "table": found.key[-1],
    }


async def _reading(call: RpcCall) -> Bound:
    return Bound(route=_GET, names=await _names(call))


async def _creating(call: RpcCall) -> Bound:
    one = call.message.snapshot
    if one.snapshot_id <= 0 or not one.manifest_list:
        raise InvalidInput("it has no id or no manifest list.", field="snapshot", remedy="Send it as Iceberg writes it.")
    snapshot: dict[str, Any] = {
        "snapshot-id": one.snapshot_id,
        "sequence-number": one.sequence_number,
        "timestamp-ms": one.timestamp_ms,
        "manifest-list": one.manifest_list,
        "summary": dict(one.summary) or {"operation": "append"},
    }
    if one.HasField("parent_snapshot_id"):
        snapshot["parent-snapshot-id"] = one.parent_snapshot_id
    if one.HasField("schema_id"):
        snapshot["schema-id"] = one.schema_id
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": one.snapshot_id}
    body = table_commit([{"action": "add-snapshot", "snapshot": snapshot}, ref])
    return Bound(route=_UPDATE, names=await _names(call), body=body, version=version_of(call.message))


async def _deleting(call: RpcCall) -> Bound:
    body = table_commit([{"action": "remove-snapshots", "snapshot-ids": [call.message.snapshot_id]}])
    return Bound(route=_UPDATE, names=await _names(call), body=body, version=version_of(call.message))


async def _list(call: RpcCall, request: RpcIcebergCall) -> snapshot_pb2.ListSnapshotsResponse:
    """A page continues after a snapshot; where that one is gone, behind those that were older."""
    snapshots = await _snapshots(call, request)
    ordered = sorted(snapshots, key=lambda one: (one.get("timestamp-ms", 0), one["snapshot-id"]))
    token, size = page_token(call), page_size(call.message)
    if token is not None:
        after = _position(token)
        ordered = [one for one in ordered if (one.get("timestamp-ms", 0), one["snapshot-id"]) > after]
    shown = snapshot_pb2.ListSnapshotsResponse(snapshots=[_message(one) for one in ordered[:size]])
    last = ordered[size - 1] if len(ordered) > size else None
    inner = None if last is None else f"{last.get('timestamp-ms', 0)}:{last['snapshot-id']}"
    shown.page.next_token = next_token(call, inner)
    return shown


def _position(token: str) -> tuple[int, int]:
    time, id = parts_of(token, 2)
    try:
        return int(time), int(id)
    except ValueError:
        raise InvalidInput("it holds no numbers.", field="page.token", remedy="Send it as received.") from None


async def _get(call: RpcCall, request: RpcIcebergCall) -> snapshot_pb2.GetSnapshotResponse:
    found = _found(await _snapshots(call, request), call.message.snapshot_id)
    return snapshot_pb2.GetSnapshotResponse(snapshot=_message(found))


async def _created(call: RpcCall, request: RpcIcebergCall) -> snapshot_pb2.CreateSnapshotResponse:
    """⚠ The parent must be known: a chain of snapshots has no gap."""
    one = call.message.snapshot
    if one.HasField("parent_snapshot_id") and not await request.was_done():
        known = {there["snapshot-id"] for there in await _snapshots(call, request)}
        if one.parent_snapshot_id not in known:
            raise InvalidInput(
                f"the table has no snapshot {one.parent_snapshot_id}.", field="snapshot.parent_snapshot_id", remedy="List them."
            )
    await request.handle()
    table = (await committed_table(call, request, request.table)).file.table
    added = _found(list(table.get("snapshots") or []), one.snapshot_id)
    shown = snapshot_pb2.CreateSnapshotResponse(snapshot=_message(added))
    set_outcome(shown.meta, request)
    return shown


async def _deleted(call: RpcCall, request: RpcIcebergCall) -> snapshot_pb2.DeleteSnapshotResponse:
    if not await request.was_done():
        _found(await _snapshots(call, request), call.message.snapshot_id)
    await request.handle()
    shown = snapshot_pb2.DeleteSnapshotResponse()
    set_outcome(shown.meta, request)
    return shown


async def _snapshots(call: RpcCall, request: RpcIcebergCall) -> list[dict[str, Any]]:
    table = (await load_table(call, request, request.table)).file.table
    return list(table.get("snapshots") or [])


def _found(snapshots: list[dict[str, Any]], id: int) -> dict[str, Any]:
    for one in snapshots:
        if one["snapshot-id"] == id:
            return one
    raise NotFound(f"the table has no snapshot {id}.", field="snapshot_id", remedy="List the snapshots.")


def _message(one: dict[str, Any]) -> snapshot_pb2.Snapshot:
    return snapshot_pb2.Snapshot(
        snapshot_id=one["snapshot-id"],
        parent_snapshot_id=one.get("parent-snapshot-id"),
        sequence_number=one.get("sequence-number") or 0,
        timestamp_ms=one.get("timestamp-ms") or 0,
        manifest_list=one.get("manifest-list") or "",
        summary={name: str(value) for name, value in (one.get("summary") or {}).items()},
        schema_id=one.get("schema-id"),
    )


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListSnapshots", routes=(_GET,), bind=_reading, answer=_list)
    yield Rpc(method=f"{SERVICE}/GetSnapshot", routes=(_GET,), bind=_reading, answer=_get)
    yield Rpc(method=f"{SERVICE}/CreateSnapshot", routes=(_UPDATE,), bind=_creating, answer=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteSnapshot", routes=(_UPDATE,), bind=_deleting, answer=_deleted, is_keyed=True)


ROWS = tuple(_rows())
