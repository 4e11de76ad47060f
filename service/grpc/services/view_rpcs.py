"""ViewService, on the operations of Iceberg REST."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc import common_pb2, view_pb2
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import Named, named
from headwater.service.grpc.contents.table_metadata import load_view, view_message
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import VIEW, canonical_path, json_object, prefix, set_outcome
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, joined
from headwater.service.grpc.sibling_routes import sibling
from headwater.service.http.responses import Response
from headwater.service.iceberg.call import Identifier
from headwater.service.iceberg.content_handlers import Renaming, ViewCommit
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.iceberg.routes import LAKE, NAMESPACE
from headwater.service.iceberg.routes import VIEW as ONE

SERVICE = "io.headwater.catalog.v1.ViewService"
_ALL = f"{NAMESPACE}/views"
_LIST, _CREATE, _GET = sibling("GET", _ALL), sibling("POST", _ALL), sibling("GET", ONE)
_UPDATE, _DELETE, _RENAME = sibling("POST", ONE), sibling("DELETE", ONE), sibling("POST", f"{LAKE}/views/rename")


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
        raise InvalidInput("a view has a namespace.", field="path", remedy="Name the namespace too.")
    return {
        "prefix": prefix(found.catalog, call.message.reference),
        "namespace": joined(found.key[:-1], "path"),
        "view": found.key[-1],
    }


async def _get(call: RpcCall) -> Bound:
    found = await named(call, call.message.view, call.message.reference, VIEW, "view")
    return Bound(route=_GET, names=_names(call, found))


def _create(call: RpcCall) -> Bound:
    message = call.message
    names = _names(call, Named(message.name.catalog, tuple(canonical_path(message.name.path, "name.path"))))
    version: dict[str, Any] = {
        "version-id": 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": one.sql, "dialect": one.dialect} for one in message.representations],
        "default-namespace": list(message.default_namespace),
    }
    body = ViewCreation(
        name=names.pop("view"),
        schema=json_object(message.schema, "schema"),
        view_version=version,
        location=message.location or None,
        properties=dict(message.properties),
    )
    return Bound(route=_CREATE, names=names, body=body)


async def _update(call: RpcCall) -> Bound:
    message = call.message
    paths = masked(message.update_mask, ("name", "properties"))
    found = await named(call, message.target, message.reference, VIEW, "target")
    names = _names(call, found)
    if "name" in paths:
        if len(paths) > 1:
            raise InvalidInput("a move is a commit of its own.", field="update_mask", remedy="Name `name` alone.")
        wanted = canonical_path(message.view.name.path, "view.name.path")
        if len(wanted) < 2 or message.view.name.catalog not in ("", found.catalog):
            raise InvalidInput("it is no view of this catalog.", field="view.name", remedy="Name a namespace and a name.")
        body = Renaming(Identifier(list(found.key[:-1]), found.key[-1]), Identifier(wanted[:-1], wanted[-1]))
        return Bound(route=_RENAME, names={"prefix": names["prefix"]}, body=body)
    return Bound(
        route=_UPDATE,
        names=names,
        body=ViewCommit([{"action": "set-properties", "updates": dict(message.view.properties)}]),
    )


async def _delete(call: RpcCall) -> Bound:
    found = await named(call, call.message.view, call.message.reference, VIEW, "view")
    return Bound(route=_DELETE, names=_names(call, found))


def _page(call: RpcCall, request: RpcIcebergCall, response: Response) -> view_pb2.ListViewsResponse:
    page = msgspec.json.decode(response.body)
    shown = view_pb2.ListViewsResponse()
    for one in page["identifiers"]:
        shown.views.append(common_pb2.Name(catalog=request.branch_name, path=[*one["namespace"], one["name"]]))
    shown.page.next_token = next_token(call, page.get("next-page-token"))
    return shown


async def _got(call: RpcCall, request: RpcIcebergCall) -> view_pb2.GetViewResponse:
    loaded = await load_view(call, request, request.view)
    return view_pb2.GetViewResponse(view=view_message(call, request, loaded))


async def _created(call: RpcCall, request: RpcIcebergCall) -> view_pb2.CreateViewResponse:
    await request.handle()
    loaded = await load_view(call, request, (*request.namespace, request.read(ViewCreation).name))
    shown = view_pb2.CreateViewResponse(view=view_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _updated(call: RpcCall, request: RpcIcebergCall) -> view_pb2.UpdateViewResponse:
    if request.route is _RENAME:
        key = request.read(Renaming).destination.key
    else:
        key = request.view
        await _replace_properties(call, request)
    await request.handle()
    loaded = await load_view(call, request, key)
    shown = view_pb2.UpdateViewResponse(view=view_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _replace_properties(call: RpcCall, request: RpcIcebergCall) -> None:
    """The mask replaces all properties: those that are not named go."""
    there = (await load_view(call, request, request.view)).file.plain.get("properties", {})
    gone = [name for name in there if name not in call.message.view.properties]
    if gone:
        body = request.read(ViewCommit)
        request.decoded_as(ViewCommit([*body.updates, {"action": "remove-properties", "removals": gone}]))


async def _deleted(call: RpcCall, request: RpcIcebergCall) -> view_pb2.DeleteViewResponse:
    await request.handle()
    shown = view_pb2.DeleteViewResponse()
    set_outcome(shown.meta, request)
    return shown


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListViews", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(method=f"{SERVICE}/GetView", routes=(_GET,), bind=_get, answer=_got)
    yield Rpc(method=f"{SERVICE}/CreateView", routes=(_CREATE,), bind=_create, answer=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateView", routes=(_UPDATE, _RENAME), bind=_update, answer=_updated, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteView", routes=(_DELETE,), bind=_delete, answer=_deleted, is_keyed=True)


ROWS = tuple(_rows())
