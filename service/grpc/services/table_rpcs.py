"""TableService, on the operations of Iceberg REST."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput, Unsupported
from headwater.schemas.rpc import common_pb2, table_pb2
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import Named, named
from headwater.service.grpc.contents.table_metadata import load_table, table_message
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import TABLE, canonical_path, json_object, prefix, set_outcome
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, joined
from headwater.service.grpc.sibling_routes import sibling
from headwater.service.http.responses import Response
from headwater.service.iceberg.call import Identifier
from headwater.service.iceberg.content_handlers import Renaming, TableCommit
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.routes import LAKE, NAMESPACE
from headwater.service.iceberg.routes import TABLE as ONE

SERVICE = "io.headwater.catalog.v1.TableService"
_ALL = f"{NAMESPACE}/tables"
_LIST, _CREATE, _GET = sibling("GET", _ALL), sibling("POST", _ALL), sibling("GET", ONE)
_UPDATE, _DELETE, _RENAME = sibling("POST", ONE), sibling("DELETE", ONE), sibling("POST", f"{LAKE}/tables/rename")


def _list(call: RpcCall) -> Bound:
    message, token = call.message, page_token(call)
    query = {"pageSize": str(page_size(message)), "pageToken": token or ""}
    names = {
        "prefix": prefix(message.namespace.catalog, message.reference),
        "namespace": joined(message.namespace.path, "namespace.path"),
    }
    return Bound(route=_LIST, names=names, query=query)


def _names(call: RpcCall, found: Named) -> dict[str, str]:
    if len(found.key) < 2:
        raise InvalidInput("a table has a namespace.", field="path", remedy="Name the namespace too.")
    return {
        "prefix": prefix(found.catalog, call.message.reference),
        "namespace": joined(found.key[:-1], "path"),
        "table": found.key[-1],
    }


async def _get(call: RpcCall) -> Bound:
    found = await named(call, call.message.table, call.message.reference, TABLE, "table")
    return Bound(route=_GET, names=_names(call, found))


def _create(call: RpcCall) -> Bound:
    message = call.message
    path = canonical_path(message.name.path, "name.path")
    names = _names(call, Named(message.name.catalog, tuple(path)))
    body = TableCreation(
        name=names.pop("table"),
        schema=json_object(message.schema, "schema"),
        location=message.location or None,
        partition_spec=json_object(message.partition_spec, "partition_spec") if message.partition_spec else None,
        write_order=json_object(message.write_order, "write_order") if message.write_order else None,
        properties=dict(message.properties),
    )
    return Bound(route=_CREATE, names=names, body=body)


async def _update(call: RpcCall) -> Bound:
    message = call.message
    paths = masked(message.update_mask, ("name", "properties", "schema"))
    found = await named(call, message.target, message.reference, TABLE, "target")
    names = _names(call, found)
    if "name" in paths:
        if len(paths) > 1:
            raise InvalidInput("a move is a commit of its own.", field="update_mask", remedy="Name `name` alone.")
        wanted = canonical_path(message.table.name.path, "table.name.path")
        if len(wanted) < 2 or message.table.name.catalog not in ("", found.catalog):
            raise InvalidInput("it is no table of this catalog.", field="table.name", remedy="Name a namespace and a name.")
        body = Renaming(Identifier(list(found.key[:-1]), found.key[-1]), Identifier(wanted[:-1], wanted[-1]))
        return Bound(route=_RENAME, names={"prefix": names["prefix"]}, body=body)
    updates: list[dict[str, Any]] = []
    if "schema" in paths:
        updates.append({"action": "add-schema", "schema": json_object(message.table.schema, "table.schema")})
        updates.append({"action": "set-current-schema", "schema-id": -1})
    if "properties" in paths:
        updates.append({"action": "set-properties", "updates": dict(message.table.properties)})
    return Bound(route=_UPDATE, names=names, body=table_commit(updates))


def table_commit(updates: list[dict[str, Any]]) -> TableCommit:
    return TableCommit([msgspec.Raw(msgspec.json.encode(one)) for one in updates])


async def _delete(call: RpcCall) -> Bound:
    found = await named(call, call.message.table, call.message.reference, TABLE, "table")
    query = {"purgeRequested": "true"} if call.message.purge else {}
    return Bound(route=_DELETE, names=_names(call, found), query=query)


def _page(call: RpcCall, request: RpcIcebergCall, response: Response) -> table_pb2.ListTablesResponse:
    page = msgspec.json.decode(response.body)
    shown = table_pb2.ListTablesResponse()
    for one in page["identifiers"]:
        shown.tables.append(common_pb2.Name(catalog=request.branch_name, path=[*one["namespace"], one["name"]]))
    shown.page.next_token = next_token(call, page.get("next-page-token"))
    return shown


async def _got(call: RpcCall, request: RpcIcebergCall) -> table_pb2.GetTableResponse:
    loaded = await load_table(call, request, request.table)
    return table_pb2.GetTableResponse(table=table_message(call, request, loaded, with_metadata=call.message.with_metadata))


async def _created(call: RpcCall, request: RpcIcebergCall) -> table_pb2.CreateTableResponse:
    if call.message.upstream:
        raise Unsupported("tables of other catalogs cannot be created here.", field="upstream", remedy="Leave it out.")
    await request.handle()
    body = request.read(TableCreation)
    loaded = await load_table(call, request, (*request.namespace, body.name))
    shown = table_pb2.CreateTableResponse(table=table_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _updated(call: RpcCall, request: RpcIcebergCall) -> table_pb2.UpdateTableResponse:
    if request.route is _RENAME:
        key = request.read(Renaming).destination.key
    else:
        key = request.table
        if "properties" in call.message.update_mask.paths:
            await _replace_properties(call, request)
    await request.handle()
    loaded = await load_table(call, request, key)
    shown = table_pb2.UpdateTableResponse(table=table_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _replace_properties(call: RpcCall, request: RpcIcebergCall) -> None:
    """The mask replaces all properties: those that are not named go."""
    there = (await load_table(call, request, request.table)).file.table["properties"]
    gone = [name for name in there if name not in call.message.table.properties]
    if gone:
        body = request.read(TableCommit)
        more = table_commit([{"action": "remove-properties", "removals": gone}])
        request.decoded_as(TableCommit([*body.updates, *more.updates]))


async def _deleted(call: RpcCall, request: RpcIcebergCall) -> table_pb2.DeleteTableResponse:
    await request.handle()
    shown = table_pb2.DeleteTableResponse()
    set_outcome(shown.meta, request)
    return shown


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListTables", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(method=f"{SERVICE}/GetTable", routes=(_GET,), bind=_get, answer=_got)
    yield Rpc(method=f"{SERVICE}/CreateTable", routes=(_CREATE,), bind=_create, answer=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateTable", routes=(_UPDATE, _RENAME), bind=_update, answer=_updated, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteTable", routes=(_DELETE,), bind=_delete, answer=_deleted, is_keyed=True)


ROWS = tuple(_rows())
