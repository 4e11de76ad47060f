"""CatalogService, on the operations of `/manage/v1/{realm}/catalogs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.schemas.http.manage_json import CatalogBody, CatalogChange, CatalogInfo, CatalogsPage, CatalogWritten, Gone
from headwater.schemas.rpc import catalog_pb2
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import (
    CATALOG,
    canonical,
    catalog_name,
    decoded,
    resource_id,
    set_meta,
    version_of,
)
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.http.responses import Response
from headwater.service.manage.route import IN_CATALOG, IN_REALM

SERVICE = "io.headwater.catalog.v1.CatalogService"
_LIST, _CREATE = sibling("GET", f"{IN_REALM}/catalogs"), sibling("POST", f"{IN_REALM}/catalogs")
_GET, _UPDATE, _DELETE = sibling("GET", IN_CATALOG), sibling("PATCH", IN_CATALOG), sibling("DELETE", IN_CATALOG)


def _named(call: RpcCall) -> dict[str, str]:
    return {"catalog": catalog_name(call.message.name)}


def _list(call: RpcCall) -> Bound:
    token = page_token(call)
    query = {"limit": str(page_size(call.message))} | ({} if token is None else {"token": token})
    return Bound(route=_LIST, query=query)


def _create(call: RpcCall) -> Bound:
    message = call.message
    body = CatalogBody(
        name=canonical(message.name, "name"),
        storage_root=message.storage_root,
        default_branch=message.default_branch or "main",
        properties=dict(message.properties),
    )
    return Bound(route=_CREATE, body=body)


def _update(call: RpcCall) -> Bound:
    wanted = call.message.catalog
    paths = masked(call.message.update_mask, ("properties", "storage_root"))
    body = CatalogChange(
        storage_root=wanted.storage_root if "storage_root" in paths else None,
        properties=dict(wanted.properties) if "properties" in paths else None,
    )
    return Bound(route=_UPDATE, names=_named(call), body=body, version=version_of(call.message))


def _delete(call: RpcCall) -> Bound:
    message = call.message
    requires = not message.HasField("require_empty") or message.require_empty
    query = {"require_empty": "true" if requires else "false", "purge": "true" if message.purge else "false"}
    return Bound(route=_DELETE, names=_named(call), query=query, version=version_of(message))


def _info(call: RpcCall, info: CatalogInfo) -> catalog_pb2.Catalog:
    return catalog_pb2.Catalog(
        resource_id=resource_id(call, CATALOG, info.id),
        name=info.name,
        storage_root=info.storage_root,
        default_branch=info.default_branch,
        properties=info.properties,
        created=info.created,
        created_by=info.created_by,
        version=info.version,
    )


def _page(call: RpcCall, request: Any, response: Response) -> catalog_pb2.ListCatalogsResponse:
    page = decoded(response, CatalogsPage)
    shown = catalog_pb2.ListCatalogsResponse(catalogs=[_info(call, one) for one in page.catalogs])
    shown.page.next_token = next_token(call, page.next_token)
    return shown


def _got(call: RpcCall, request: Any, response: Response) -> catalog_pb2.GetCatalogResponse:
    return catalog_pb2.GetCatalogResponse(catalog=_info(call, decoded(response, CatalogInfo)))


def _created(call: RpcCall, request: Any, response: Response) -> catalog_pb2.CreateCatalogResponse:
    written = decoded(response, CatalogWritten)
    shown = catalog_pb2.CreateCatalogResponse(catalog=_info(call, written.catalog))
    set_meta(shown.meta, written.meta)
    return shown


def _updated(call: RpcCall, request: Any, response: Response) -> catalog_pb2.UpdateCatalogResponse:
    written = decoded(response, CatalogWritten)
    shown = catalog_pb2.UpdateCatalogResponse(catalog=_info(call, written.catalog))
    set_meta(shown.meta, written.meta)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> catalog_pb2.DeleteCatalogResponse:
    shown = catalog_pb2.DeleteCatalogResponse()
    set_meta(shown.meta, decoded(response, Gone).meta)
    return shown


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListCatalogs", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(
        method=f"{SERVICE}/GetCatalog",
        routes=(_GET,),
        bind=lambda call: Bound(route=_GET, names=_named(call)),
        reply=_got,
    )
    yield Rpc(method=f"{SERVICE}/CreateCatalog", routes=(_CREATE,), bind=_create, reply=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateCatalog", routes=(_UPDATE,), bind=_update, reply=_updated, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteCatalog", routes=(_DELETE,), bind=_delete, reply=_deleted, is_keyed=True)


ROWS = tuple(_rows())
