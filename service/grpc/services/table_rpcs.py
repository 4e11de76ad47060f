"""TableService, on the operations of Iceberg REST."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headwater.producer.access.writing import outcome_of
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc import common_pb2, table_pb2
from headwater.service.auth.rights.rights import Right
from headwater.service.grpc.contents.content_routes import ContentRoutes
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.table_metadata import committed_table, load_table, table_message
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import TABLE, json_object, resource_id, set_meta, set_outcome, version_of
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.content_handlers import Renaming, TableCommit
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import as_table
from headwater.service.iceberg.operations.table_commits import change_table
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.manage.call import meta_of
from headwater.service.reconciling.connector_operations import ConnectorOperations

SERVICE = "io.headwater.catalog.v1.TableService"
TABLES = ContentRoutes("table", TABLE)


def _create(call: RpcCall) -> Bound:
    message = call.message
    names, name = TABLES.new_names(call)
    if message.upstream:
        given = (message.schema, message.partition_spec, message.write_order, message.location, message.properties)
        if any(given):
            raise InvalidInput("the source says what the table is.", field="upstream", remedy="Send nothing but its name.")
        return Bound(route=TABLES.create, names=names, body=TableCreation(name=name, schema={}))
    body = TableCreation(
        name=name,
        schema=json_object(message.schema, "schema"),
        location=message.location or None,
        partition_spec=json_object(message.partition_spec, "partition_spec") if message.partition_spec else None,
        write_order=json_object(message.write_order, "write_order") if message.write_order else None,
        properties=dict(message.properties),
    )
    return Bound(route=TABLES.create, names=names, body=body)


async def _update(call: RpcCall) -> Bound:
    message = call.message
    paths = masked(message.update_mask, ("name", "properties", "schema"))
    found = await TABLES.target(call)
    names = TABLES.names(call, found)
    if "name" in paths:
        return TABLES.bind_rename(call, found, paths)
    updates: list[dict[str, Any]] = []
    if "schema" in paths:
        updates.append({"action": "add-schema", "schema": json_object(message.table.schema, "table.schema")})
        updates.append({"action": "set-current-schema", "schema-id": -1})
    if "properties" in paths:
        updates.append({"action": "set-properties", "updates": dict(message.table.properties)})
    return Bound(route=TABLES.update, names=names, body=table_commit(updates), version=version_of(message))


def table_commit(updates: list[dict[str, Any]]) -> TableCommit:
    return TableCommit([msgspec.Raw(msgspec.json.encode(one)) for one in updates])


async def _delete(call: RpcCall) -> Bound:
    return await TABLES.bind_one(call, TABLES.delete, {"purgeRequested": "true"} if call.message.purge else {})


def _page(call: RpcCall, request: RpcIcebergCall, response: Response) -> table_pb2.ListTablesResponse:
    shown = table_pb2.ListTablesResponse()
    TABLES.fill_page(call, request, response, shown)
    return shown


async def _got(call: RpcCall, request: RpcIcebergCall) -> table_pb2.GetTableResponse:
    loaded = await load_table(call, request, request.table)
    return table_pb2.GetTableResponse(table=table_message(call, request, loaded, with_metadata=call.message.with_metadata))


async def _created(call: RpcCall, request: RpcIcebergCall) -> table_pb2.CreateTableResponse:
    if call.message.upstream:
        return await _observed(call, request)
    await request.handle()
    body = request.read(TableCreation)
    loaded = await committed_table(call, request, (*request.namespace, body.name))
    shown = table_pb2.CreateTableResponse(table=table_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _observed(call: RpcCall, request: RpcIcebergCall) -> table_pb2.CreateTableResponse:
    """A table of a connector's source, without its schema: the catalog need not have a place where its metadata may be read.
    ⚠ The connector's secret is used, so this takes more than the right to create a table."""
    await request.access.require(call.caller, Right.CONNECTOR_MANAGE)
    key = (*request.namespace, request.read(TableCreation).name)
    operations = ConnectorOperations(request.kernel, request.service.config.reconcile)
    upstream, reference = call.message.upstream, call.message.reference
    commits = await asyncio.to_thread(operations.observe, upstream, request.branch_name, reference, key)
    state = await asyncio.to_thread(request.branch.state)
    entry = as_table(key, await asyncio.to_thread(state.get, key))
    table = table_pb2.Table(
        resource_id=resource_id(call, TABLE, request.branch.catalog.id, entry.content_id),
        name=common_pb2.Name(catalog=request.branch_name, path=key),
        metadata_location=str(entry.value["metadata_location"]),
        current_snapshot_id=entry.value.get("snapshot_id"),
    )
    shown = table_pb2.CreateTableResponse(table=table)
    meta = meta_of(outcome_of(request.branch.pointer, state.at, replayed=False), state.at.commit.hex())
    set_meta(shown.meta, msgspec.structs.replace(meta, changed=commits > 0))
    return shown


async def _updated(call: RpcCall, request: RpcIcebergCall) -> table_pb2.UpdateTableResponse:
    if request.route is TABLES.rename:
        key = request.read(Renaming).destination.key
        await request.handle()
    else:
        key = request.table
        await _changed(call, request, key)
    loaded = await committed_table(call, request, key)
    shown = table_pb2.UpdateTableResponse(table=table_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _changed(call: RpcCall, request: RpcIcebergCall, key: KeyPath) -> None:
    """The mask replaces all properties: those that are not named go, also what another writer sets at the same moment."""
    if "properties" not in call.message.update_mask.paths:
        await request.handle()
        return
    updates, properties = request.read(TableCommit).updates, call.message.table.properties

    def choose(table: Plain) -> Sequence[msgspec.Raw]:
        gone = [name for name in table["properties"] if name not in properties]
        more = [{"action": "remove-properties", "removals": gone}] if gone else []
        return [*updates, *table_commit(more).updates]

    branch = await request.branch_on_loop()
    async with request.lakes.turns.of((branch, key), request.connection):
        await asyncio.to_thread(change_table, branch, request.author, key, choose)


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListTables", routes=(TABLES.list,), bind=TABLES.bind_list, reply=_page)
    yield Rpc(method=f"{SERVICE}/GetTable", routes=(TABLES.get,), bind=TABLES.bind_get, answer=_got)
    yield Rpc(method=f"{SERVICE}/CreateTable", routes=(TABLES.create,), bind=_create, answer=_created, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/UpdateTable", routes=(TABLES.update, TABLES.rename), bind=_update, answer=_updated, is_keyed=True
    )
    yield Rpc(
        method=f"{SERVICE}/DeleteTable",
        routes=(TABLES.delete,),
        bind=_delete,
        answer=TABLES.answer_deleted(table_pb2.DeleteTableResponse),
        is_keyed=True,
    )


ROWS = tuple(_rows())
