"""TenantService, on the operations of `/manage/v1/realms`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import RealmBody, RealmChange, RealmInfo, RealmMade, RealmMoved, RealmsPage
from headwater.schemas.rpc import tenant_pb2
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import decoded, set_meta, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.http.responses import Response
from headwater.service.manage.route import REALMS

SERVICE = "io.headwater.tenant.v1.TenantService"
_ONE = f"{REALMS}/{{realm}}"
_LIST, _CREATE, _GET, _DELETE = sibling("GET", REALMS), sibling("POST", REALMS), sibling("GET", _ONE), sibling("DELETE", _ONE)
_UPDATE, _PURGE = sibling("PATCH", _ONE), sibling("POST", f"{_ONE}/purge")


def _named(call: RpcCall) -> dict[str, str]:
    if not call.message.name:
        raise InvalidInput("it is empty.", field="name", remedy="Name a tenant.")
    return {"realm": call.message.name}


def _list(call: RpcCall) -> Bound:
    token = page_token(call)
    query = {"limit": str(page_size(call.message))} | ({} if token is None else {"token": token})
    return Bound(route=_LIST, query=query)


def _create(call: RpcCall) -> Bound:
    return Bound(route=_CREATE, body=RealmBody(name=_named(call)["realm"], description=call.message.description))


def _update(call: RpcCall) -> Bound:
    return Bound(route=_UPDATE, names=_named(call), body=_change(call.message), version=version_of(call.message))


def _change(message: Any) -> RealmChange:
    mask, wanted = message.update_mask, message.tenant
    if message.status and mask.paths:
        raise InvalidInput("it is sent together with a mask.", field="status", remedy="Send `tenant.status` instead.")
    if message.status:  # from clients built before there was a mask
        return RealmChange(status=message.status)
    paths = masked(mask, ("description", "status"))
    return RealmChange(
        description=wanted.description if "description" in paths else None,
        status=wanted.status if "status" in paths else None,
    )


def _delete(call: RpcCall) -> Bound:
    route = _PURGE if call.message.purge else _DELETE
    return Bound(route=route, names=_named(call), version=version_of(call.message))


def _info(info: RealmInfo) -> tenant_pb2.Tenant:
    return tenant_pb2.Tenant(
        name=info.name,
        instance=info.instance,
        status=info.status,
        created=info.created,
        updated=info.updated,
        version=info.version,
        description=info.description,
    )


def _page(call: RpcCall, request: Any, response: Response) -> tenant_pb2.ListTenantsResponse:
    page = decoded(response, RealmsPage)
    shown = tenant_pb2.ListTenantsResponse(tenants=[_info(one) for one in page.realms])
    shown.page.next_token = next_token(call, page.next_token)
    return shown


def _got(call: RpcCall, request: Any, response: Response) -> tenant_pb2.GetTenantResponse:
    return tenant_pb2.GetTenantResponse(tenant=_info(decoded(response, RealmInfo)))


def _created(call: RpcCall, request: Any, response: Response) -> tenant_pb2.CreateTenantResponse:
    made = decoded(response, RealmMade)
    shown = tenant_pb2.CreateTenantResponse(tenant=_info(made.realm))
    if made.credentials is not None:
        shown.credentials.principal = made.credentials.principal
        shown.credentials.client_id = made.credentials.client_id
        shown.credentials.client_secret = made.credentials.client_secret or ""
    set_meta(shown.meta, made.meta)
    return shown


def _without_secret(message: Any) -> None:
    message.credentials.client_secret = ""


def _updated(call: RpcCall, request: Any, response: Response) -> tenant_pb2.UpdateTenantResponse:
    moved = decoded(response, RealmMoved)
    shown = tenant_pb2.UpdateTenantResponse(tenant=_info(moved.realm))
    set_meta(shown.meta, moved.meta)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> tenant_pb2.DeleteTenantResponse:
    shown = tenant_pb2.DeleteTenantResponse()
    if response.body:
        set_meta(shown.meta, decoded(response, RealmMoved).meta)
    return shown


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListTenants", routes=(_LIST,), bind=_list, reply=_page, is_system=True)
    yield Rpc(
        method=f"{SERVICE}/GetTenant",
        routes=(_GET,),
        bind=lambda call: Bound(route=_GET, names=_named(call)),
        reply=_got,
        is_system=True,
    )
    yield Rpc(
        method=f"{SERVICE}/CreateTenant",
        routes=(_CREATE,),
        bind=_create,
        reply=_created,
        is_keyed=True,
        is_system=True,
        without_secret=_without_secret,
    )
    yield Rpc(
        method=f"{SERVICE}/UpdateTenant",
        routes=(_UPDATE,),
        bind=_update,
        reply=_updated,
        is_keyed=True,
        is_system=True,
    )
    yield Rpc(
        method=f"{SERVICE}/DeleteTenant",
        routes=(_DELETE, _PURGE),
        bind=_delete,
        reply=_deleted,
        is_keyed=True,
        is_system=True,
    )


ROWS = tuple(_rows())
