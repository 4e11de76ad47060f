"""ViewService, on the operations of Iceberg REST."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headwater.persistence.clock import now_millis
from headwater.schemas.rpc import view_pb2
from headwater.service.grpc.contents.content_routes import ContentRoutes
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.table_metadata import committed_view, load_view, view_message
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import VIEW, json_object, set_outcome, version_of
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.content_handlers import Renaming, ViewCommit
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.update_headers import Updates
from headwater.service.iceberg.operations.views import ViewCreation, change_view
from headwater.service.iceberg.plans.view_relations import BASE_RELATIONS, BaseRelation, declared

SERVICE = "io.headwater.catalog.v1.ViewService"
VIEWS = ContentRoutes("view", VIEW)


def _create(call: RpcCall) -> Bound:
    message = call.message
    names, name = VIEWS.new_names(call)
    version: dict[str, Any] = {
        "version-id": 1,
        "timestamp-ms": now_millis(),
        "schema-id": 0,
        "summary": _summary(message.base_relations),
        "representations": [{"type": "sql", "sql": one.sql, "dialect": one.dialect} for one in message.representations],
        "default-namespace": list(message.default_namespace),
    }
    body = ViewCreation(
        name=name,
        schema=json_object(message.schema, "schema"),
        view_version=version,
        location=message.location or None,
        properties=dict(message.properties),
    )
    return Bound(route=VIEWS.create, names=names, body=body)


def _summary(base_relations: Sequence[Any]) -> dict[str, str]:
    relations = [BaseRelation(tuple(one.path), one.catalog) for one in base_relations]
    return {BASE_RELATIONS: declared(relations)} if relations else {}


async def _update(call: RpcCall) -> Bound:
    message = call.message
    paths = masked(message.update_mask, ("name", "properties"))
    found = await VIEWS.target(call)
    names = VIEWS.names(call, found)
    if "name" in paths:
        return VIEWS.bind_rename(call, found, paths)
    return Bound(
        route=VIEWS.update,
        names=names,
        body=ViewCommit([{"action": "set-properties", "updates": dict(message.view.properties)}]),
        version=version_of(message),
    )


async def _delete(call: RpcCall) -> Bound:
    return await VIEWS.bind_one(call, VIEWS.delete, {})


def _page(call: RpcCall, request: RpcIcebergCall, response: Response) -> view_pb2.ListViewsResponse:
    shown = view_pb2.ListViewsResponse()
    VIEWS.fill_page(call, request, response, shown)
    return shown


async def _got(call: RpcCall, request: RpcIcebergCall) -> view_pb2.GetViewResponse:
    loaded = await load_view(call, request, request.view)
    return view_pb2.GetViewResponse(view=view_message(call, request, loaded))


async def _created(call: RpcCall, request: RpcIcebergCall) -> view_pb2.CreateViewResponse:
    await request.handle()
    loaded = await committed_view(call, request, (*request.namespace, request.read(ViewCreation).name))
    shown = view_pb2.CreateViewResponse(view=view_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


async def _updated(call: RpcCall, request: RpcIcebergCall) -> view_pb2.UpdateViewResponse:
    if request.route is VIEWS.rename:
        key = request.read(Renaming).destination.key
        await request.handle()
    else:
        key = request.view
        replacing = partial(_replacing, call.message.view.properties)
        await asyncio.to_thread(change_view, await request.branch_on_loop(), request.author, key, replacing)
    loaded = await committed_view(call, request, key)
    shown = view_pb2.UpdateViewResponse(view=view_message(call, request, loaded))
    set_outcome(shown.meta, request)
    return shown


def _replacing(properties: Mapping[str, str], view: Plain) -> Updates:
    """The mask replaces all properties: those that are not named go."""
    updates: Updates = [{"action": "set-properties", "updates": dict(properties)}]
    gone = [name for name in view.get("properties", {}) if name not in properties]
    return [*updates, {"action": "remove-properties", "removals": gone}] if gone else updates


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListViews", routes=(VIEWS.list,), bind=VIEWS.bind_list, reply=_page)
    yield Rpc(method=f"{SERVICE}/GetView", routes=(VIEWS.get,), bind=VIEWS.bind_get, answer=_got)
    yield Rpc(method=f"{SERVICE}/CreateView", routes=(VIEWS.create,), bind=_create, answer=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateView", routes=(VIEWS.update, VIEWS.rename), bind=_update, answer=_updated, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/DeleteView",
        routes=(VIEWS.delete,),
        bind=_delete,
        answer=VIEWS.answer_deleted(view_pb2.DeleteViewResponse),
        is_keyed=True,
    )


ROWS = tuple(_rows())
