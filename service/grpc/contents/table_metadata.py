"""Loads the metadata of a table or view as the load routes of Iceberg REST do, and says them in messages."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from headwater.producer.content.snapshots import ContentEntry
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import RequestTooLarge, Unsupported
from headwater.schemas.rpc import common_pb2, table_pb2, view_pb2
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import catalog_id
from headwater.service.grpc.messages.message_fields import TABLE, VIEW, resource_id
from headwater.service.grpc.rpc import RpcCall
from headwater.service.iceberg.operations.lake_branch import as_table, as_view
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataView
from headwater.service.iceberg.plans.view_relations import BASE_RELATIONS, read_declared

METADATA_BYTES_MAX = 2 * 1024 * 1024


class LoadedContent(NamedTuple):
    entry: ContentEntry
    file: MetadataFile
    catalog_id: int


async def load_table(call: RpcCall, request: RpcIcebergCall, key: KeyPath) -> LoadedContent:
    branch = await request.branch_on_loop()
    return await _loaded(call, request, as_table(key, await request.lakes.reads.get(branch, key)))


async def load_view(call: RpcCall, request: RpcIcebergCall, key: KeyPath) -> LoadedContent:
    branch = await request.branch_on_loop()
    return await _loaded(call, request, as_view(key, await request.lakes.reads.get(branch, key)))


async def committed_table(call: RpcCall, request: RpcIcebergCall, key: KeyPath) -> LoadedContent:
    """As the commit of this call left it."""
    return await _loaded(call, request, as_table(key, await _committed(request, key)))


async def committed_view(call: RpcCall, request: RpcIcebergCall, key: KeyPath) -> LoadedContent:
    return await _loaded(call, request, as_view(key, await _committed(request, key)))


async def _committed(request: RpcIcebergCall, key: KeyPath) -> ContentEntry | None:
    return await asyncio.to_thread(lambda: request.committed_state().get(key))


async def _loaded(call: RpcCall, request: RpcIcebergCall, entry: ContentEntry) -> LoadedContent:
    branch = await request.branch_on_loop()
    location = entry.value["metadata_location"]
    kept = branch.metadata.kept_and_there(location)
    file = kept if kept is not None else await asyncio.to_thread(branch.load_metadata_if_there, entry.key, location)
    return LoadedContent(entry, file, await catalog_id(call, request.branch_name))


def table_message(
    call: RpcCall, request: RpcIcebergCall, loaded: LoadedContent, *, with_metadata: bool = False
) -> table_pb2.Table:
    entry, file = loaded.entry, loaded.file
    table = file.table
    schema: dict[str, Any] = next((one for one in table["schemas"] if one.get("schema-id") == table["current-schema-id"]), {})
    shown = table_pb2.Table(
        resource_id=resource_id(call, TABLE, loaded.catalog_id, entry.content_id),
        name=common_pb2.Name(catalog=request.branch_name, path=entry.key),
        metadata_location=file.location,
        location=table["location"],
        properties=table["properties"],
        schema=msgspec.json.encode(schema).decode(),
        current_snapshot_id=table.get("current-snapshot-id"),
    )
    if with_metadata:
        json = file.view_json(MetadataView(gc_refused=request.branch.engine_gc_refused))
        if len(json) > METADATA_BYTES_MAX:
            raise RequestTooLarge(
                f"the metadata has {len(json)} bytes.", field="with_metadata", remedy="Load the table over Iceberg REST."
            )
        shown.metadata = json.decode()
    return shown


def view_message(call: RpcCall, request: RpcIcebergCall, loaded: LoadedContent) -> view_pb2.View:
    entry, file = loaded.entry, loaded.file
    view: dict[str, Any] = file.plain
    current = next(one for one in view["versions"] if one["version-id"] == view["current-version-id"])
    schema: dict[str, Any] = next((one for one in view["schemas"] if one.get("schema-id") == current["schema-id"]), {})
    return view_pb2.View(
        resource_id=resource_id(call, VIEW, loaded.catalog_id, entry.content_id),
        name=common_pb2.Name(catalog=request.branch_name, path=entry.key),
        metadata_location=file.location,
        location=view["location"],
        properties=view.get("properties", {}),
        schema=msgspec.json.encode(schema).decode(),
        representations=[
            view_pb2.SqlRepresentation(dialect=one.get("dialect", ""), sql=one.get("sql", ""))
            for one in current["representations"]
        ],
        default_namespace=current.get("default-namespace", []),
        base_relations=_declared(current),
    )


def _declared(version: dict[str, Any]) -> list[common_pb2.Name]:
    """Base relations; none of a declaration that another client has written and that cannot be read."""
    text = (version.get("summary") or {}).get(BASE_RELATIONS)
    try:
        return [common_pb2.Name(catalog=one.catalog, path=one.path) for one in read_declared(text or "[]")]
    except Unsupported:
        return []
