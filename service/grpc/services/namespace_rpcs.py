"""NamespaceService, on the operations of `/manage/v1/{realm}/catalogs/{catalog}/namespaces`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import Gone, NamespaceBody, NamespaceInfo, NamespacesPage, NamespaceWritten
from headwater.schemas.rpc import common_pb2, namespace_pb2
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.route import BODY, Needs, Route
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import Named, catalog_id, named
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import (
    NAMESPACE,
    canonical_path,
    catalog_name,
    decoded,
    prefix,
    resource_id,
    set_meta,
    set_outcome,
    version_of,
)
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, joined, sibling
from headwater.service.http.responses import Response
from headwater.service.iceberg.operations import namespaces
from headwater.service.iceberg.plain_handlers import PropertiesUpdate
from headwater.service.iceberg.routes import LAKE
from headwater.service.iceberg.routes import NAMESPACE as ICEBERG_NAMESPACE
from headwater.service.manage.route import IN_CATALOG

SERVICE = "io.headwater.catalog.v1.NamespaceService"
_ALL, _ONE = f"{IN_CATALOG}/namespaces", f"{IN_CATALOG}/namespaces/{{namespace}}"
_LIST, _CREATE, _GET, _DELETE = sibling("GET", _ALL), sibling("POST", _ALL), sibling("GET", _ONE), sibling("DELETE", _ONE)
_UPDATE = sibling("POST", f"{ICEBERG_NAMESPACE}/properties")


class _NamespaceMove(msgspec.Struct, frozen=True):
    source: KeyPath
    target: KeyPath


def _on_branch(call: RpcCall) -> dict[str, str]:
    return {"branch": call.message.reference} if call.message.reference else {}


def _list(call: RpcCall) -> Bound:
    message, token = call.message, page_token(call)
    query = _on_branch(call) | {"limit": str(page_size(message)), "recursive": "true" if message.recursive else "false"}
    if token is not None:
        query["token"] = token
    if message.path:
        query["parent"] = joined(message.path, "path")
    if message.name_prefix:
        query["name_prefix"] = message.name_prefix
    return Bound(route=_LIST, names={"catalog": catalog_name(message.catalog, "catalog")}, query=query)


async def _get(call: RpcCall) -> Bound:
    found = await named(call, call.message.namespace, call.message.reference, NAMESPACE, "namespace")
    return Bound(route=_GET, names=_names(found), query=_on_branch(call))


def _create(call: RpcCall) -> Bound:
    message = call.message
    path = canonical_path(message.name.path, "name.path")
    joined(path, "name.path")
    catalog = catalog_name(message.name.catalog, "name.catalog")
    body = NamespaceBody(path=path, properties=dict(message.properties))
    return Bound(route=_CREATE, names={"catalog": catalog}, query=_on_branch(call), body=body)


async def _update(call: RpcCall) -> Bound:
    message = call.message
    paths = masked(message.update_mask, ("name", "properties"))
    found = await named(call, message.target, message.reference, NAMESPACE, "target")
    names, version = {"prefix": prefix(found.catalog, message.reference)}, version_of(message)
    if "name" in paths:
        return Bound(route=_MOVE, names=names, body=_moving(call, found, paths), version=version)
    body = PropertiesUpdate(updates=dict(message.namespace.properties))
    return Bound(route=_UPDATE, names=names | {"namespace": joined(found.key, "target")}, body=body, version=version)


def _moving(call: RpcCall, found: Named, paths: frozenset[str]) -> _NamespaceMove:
    if len(paths) > 1:
        raise InvalidInput("a move is a commit of its own.", field="update_mask", remedy="Name `name` alone.")
    name = call.message.namespace.name
    wanted = canonical_path(name.path, "namespace.name.path")
    joined(wanted, "namespace.name.path")
    if name.catalog not in ("", found.catalog):
        raise InvalidInput("it is another catalog.", field="namespace.name.catalog", remedy="Move it within its catalog.")
    return _NamespaceMove(found.key, tuple(wanted))


def _moved_rights(call: RpcIcebergCall) -> list[tuple[Right, Securable]]:
    """Everything below it moves too."""
    body, catalog = call.read(_NamespaceMove), call.branch_name
    source, target = body.source, body.target
    return [
        (Right.NAMESPACE_DROP, Securable(catalog, source)),
        (Right.COMMIT_WRITE, Securable(catalog, source)),
        (Right.NAMESPACE_CREATE, Securable(catalog, target[:-1])),
        (Right.COMMIT_WRITE, Securable(catalog, target)),
    ]


def _unused(call: RpcIcebergCall) -> Response:
    raise LookupError("moving a namespace has no HTTP sibling")


_MOVE = Route(
    "POST",
    f"{LAKE}/namespaces/move",
    "Move a namespace.",
    _unused,
    Needs(
        right=Right.NAMESPACE_DROP,
        where="the namespace that moves",
        also=Right.NAMESPACE_CREATE,
        body=_moved_rights,
        anywhere=(Right.NAMESPACE_DROP,),
    ),
    BODY,
    body=_NamespaceMove,
)
"""gRPC only: it is in no HTTP table."""


async def _delete(call: RpcCall) -> Bound:
    message = call.message
    found = await named(call, message.namespace, message.reference, NAMESPACE, "namespace")
    requires = not message.HasField("require_empty") or message.require_empty
    query = _on_branch(call) | {"require_empty": "true" if requires else "false"}
    return Bound(route=_DELETE, names=_names(found), query=query, version=version_of(message))


def _names(found: Named) -> dict[str, str]:
    return {"catalog": found.catalog, "namespace": joined(found.key, "namespace")}


def _info(call: RpcCall, request: Any, info: NamespaceInfo) -> namespace_pb2.Namespace:
    return namespace_pb2.Namespace(
        resource_id=resource_id(call, NAMESPACE, request.catalog.id, info.content_id),
        name=common_pb2.Name(catalog=request.names["catalog"], path=info.path),
        properties=info.properties,
    )


def _page(call: RpcCall, request: Any, response: Response) -> namespace_pb2.ListNamespacesResponse:
    page = decoded(response, NamespacesPage)
    shown = namespace_pb2.ListNamespacesResponse(namespaces=[_info(call, request, one) for one in page.namespaces])
    shown.page.next_token = next_token(call, page.next_token)
    return shown


def _got(call: RpcCall, request: Any, response: Response) -> namespace_pb2.GetNamespaceResponse:
    return namespace_pb2.GetNamespaceResponse(namespace=_info(call, request, decoded(response, NamespaceInfo)))


def _created(call: RpcCall, request: Any, response: Response) -> namespace_pb2.CreateNamespaceResponse:
    written = decoded(response, NamespaceWritten)
    shown = namespace_pb2.CreateNamespaceResponse(namespace=_info(call, request, written.namespace))
    set_meta(shown.meta, written.meta)
    return shown


async def _updated(call: RpcCall, request: RpcIcebergCall) -> namespace_pb2.UpdateNamespaceResponse:
    number = await catalog_id(call, request.branch_name)
    return await asyncio.to_thread(_moved if request.route is _MOVE else _replaced, call, request, number)


def _moved(call: RpcCall, request: RpcIcebergCall, number: int) -> namespace_pb2.UpdateNamespaceResponse:
    body = request.read(_NamespaceMove)
    namespaces.move_namespace(request.branch, request.author, body.source, body.target)
    return _shown(call, request, number, body.target)


def _replaced(call: RpcCall, request: RpcIcebergCall, number: int) -> namespace_pb2.UpdateNamespaceResponse:
    """The mask replaces all properties: those that are not named go."""
    key = request.namespace
    namespaces.replace_properties(request.branch, request.author, key, dict(call.message.namespace.properties))
    return _shown(call, request, number, key)


def _shown(call: RpcCall, request: RpcIcebergCall, number: int, key: KeyPath) -> namespace_pb2.UpdateNamespaceResponse:
    there = request.committed_state().require_namespace(key)
    namespace = namespace_pb2.Namespace(
        resource_id=resource_id(call, NAMESPACE, number, there.content_id),
        name=common_pb2.Name(catalog=request.branch_name, path=key),
        properties=there.value.get("properties", {}),
    )
    shown = namespace_pb2.UpdateNamespaceResponse(namespace=namespace)
    set_outcome(shown.meta, request)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> namespace_pb2.DeleteNamespaceResponse:
    shown = namespace_pb2.DeleteNamespaceResponse()
    set_meta(shown.meta, decoded(response, Gone).meta)
    return shown


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListNamespaces", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(method=f"{SERVICE}/GetNamespace", routes=(_GET,), bind=_get, reply=_got)
    yield Rpc(method=f"{SERVICE}/CreateNamespace", routes=(_CREATE,), bind=_create, reply=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateNamespace", routes=(_UPDATE, _MOVE), bind=_update, answer=_updated, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteNamespace", routes=(_DELETE,), bind=_delete, reply=_deleted, is_keyed=True)


ROWS = tuple(_rows())
