"""Catalogs and realms over gRPC."""

from __future__ import annotations

from urllib.parse import parse_qsl

from google.protobuf.field_mask_pb2 import FieldMask

from headwater.consumers.clients.grpc_stream.exchange import (
    Answered,
    Exchange,
    HttpQuestion,
    answered,
    not_over_grpc,
    unary,
)
from headwater.schemas.http import manage_json as json
from headwater.schemas.rpc import catalog_pb2, common_pb2, tenant_pb2


def meta_of(meta: common_pb2.MutationMeta) -> json.MutationMeta:
    return json.MutationMeta(
        pointer=meta.pointer,
        seq=meta.seq,
        entry_id=meta.entry_id,
        version=meta.version or None,
        etag=meta.etag or None,
        time=meta.time or None,
        changed=meta.changed,
        replayed=meta.replayed,
    )


# ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────────


def catalogs(question: HttpQuestion) -> Exchange:
    page = yield from unary("CatalogService/ListCatalogs", page=question.page)
    found = [_catalog(one) for one in page.catalogs]
    return answered(json.CatalogsPage(catalogs=found, next_token=page.page.next_token or None))


def catalog(question: HttpQuestion) -> Exchange:
    found = yield from unary("CatalogService/GetCatalog", name=question.parts[2])
    return answered(_catalog(found.catalog))


def create_catalog(question: HttpQuestion) -> Exchange:
    body: json.CatalogBody = question.read(json.CatalogBody)
    done = yield from unary(
        "CatalogService/CreateCatalog",
        idempotency=question.key,
        name=body.name,
        storage_root=body.storage_root,
        default_branch=body.default_branch,
        properties=body.properties,
    )
    return answered(json.CatalogWritten(catalog=_catalog(done.catalog), meta=meta_of(done.meta)), 201)


def update_catalog(question: HttpQuestion) -> Exchange:
    body: json.CatalogChange = question.read(json.CatalogChange)
    given = {"storage_root": body.storage_root, "properties": body.properties}
    done = yield from unary(
        "CatalogService/UpdateCatalog",
        idempotency=question.key,
        name=question.parts[2],
        catalog=catalog_pb2.Catalog(storage_root=body.storage_root, properties=body.properties),
        update_mask=FieldMask(paths=[name for name, value in given.items() if value is not None]),
        precondition=question.precondition,
    )
    return answered(json.CatalogWritten(catalog=_catalog(done.catalog), meta=meta_of(done.meta)))


def delete_catalog(question: HttpQuestion) -> Exchange:
    done = yield from unary(
        "CatalogService/DeleteCatalog",
        idempotency=question.key,
        name=question.parts[2],
        require_empty=question.one("require_empty", "true") == "true",
        purge=question.one("purge") == "true",
        precondition=question.precondition,
    )
    return answered(json.Gone(meta=meta_of(done.meta)))


def _catalog(one: catalog_pb2.Catalog) -> json.CatalogInfo:
    return json.CatalogInfo(
        name=one.name,
        id=one.resource_id.catalog_id,
        storage_root=one.storage_root,
        default_branch=one.default_branch,
        properties=dict(one.properties),
        created=one.created,
        created_by=one.created_by,
        version=one.version,
    )


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


def token(question: HttpQuestion) -> Exchange:
    """Of a client's id and secret, which come as a form."""
    form = dict(parse_qsl(question.body.decode("ascii")))
    made = yield from unary("TokenService/CreateToken", client_id=form["client_id"], client_secret=form["client_secret"])
    return answered({"access_token": made.access_token, "expires_in": made.expires_in_seconds})


# ── realms ──────────────────────────────────────────────────────────────────────────────────────────────────


def realms(question: HttpQuestion) -> Exchange:
    page = yield from unary("TenantService/ListTenants", page=question.page)
    found = [_realm(one) for one in page.tenants]
    return answered(json.RealmsPage(realms=found, next_token=page.page.next_token or None))


def realm(question: HttpQuestion) -> Exchange:
    found = yield from unary("TenantService/GetTenant", name=question.parts[2])
    return answered(_realm(found.tenant))


def create_realm(question: HttpQuestion) -> Exchange:
    body: json.RealmBody = question.read(json.RealmBody)
    if not body.initialize:
        raise not_over_grpc(question)
    done = yield from unary(
        "TenantService/CreateTenant", idempotency=question.key, name=body.name, description=body.description
    )
    shown = done.credentials
    credentials = json.SecretShown(
        principal=shown.principal, client_id=shown.client_id, client_secret=shown.client_secret or None
    )
    made = json.RealmMade(
        realm=_realm(done.tenant),
        credentials=credentials if done.HasField("credentials") else None,
        meta=meta_of(done.meta),
    )
    return answered(made, 201)


def move_realm(question: HttpQuestion) -> Exchange:
    *_, name, move = question.parts
    if move == "purge":
        yield from unary(
            "TenantService/DeleteTenant", idempotency=question.key, name=name, purge=True, precondition=question.precondition
        )
        found = yield from unary("TenantService/GetTenant", name=name)
        meta = common_pb2.MutationMeta(changed=True)
        return answered(json.RealmMoved(realm=_realm(found.tenant), meta=meta_of(meta)))
    status = {"activate": "ACTIVE", "deactivate": "INACTIVE"}.get(move)
    if status is None:
        raise not_over_grpc(question)
    return (yield from _update_realm(question, name, {"status": status}))


def update_realm(question: HttpQuestion) -> Exchange:
    body: json.RealmChange = question.read(json.RealmChange)
    given = {"description": body.description, "status": body.status}
    sent = {name: value for name, value in given.items() if value is not None}
    return (yield from _update_realm(question, question.parts[2], sent))


def _update_realm(question: HttpQuestion, name: str, sent: dict[str, str]) -> Exchange:
    done = yield from unary(
        "TenantService/UpdateTenant",
        idempotency=question.key,
        name=name,
        tenant=tenant_pb2.Tenant(**sent),
        update_mask=FieldMask(paths=list(sent)),
        precondition=question.precondition,
    )
    return answered(json.RealmMoved(realm=_realm(done.tenant), meta=meta_of(done.meta)))


def delete_realm(question: HttpQuestion) -> Exchange:
    yield from unary(
        "TenantService/DeleteTenant",
        idempotency=question.key,
        name=question.parts[2],
        precondition=question.precondition,
    )
    return Answered(204, b"")


def _realm(one: tenant_pb2.Tenant) -> json.RealmInfo:
    return json.RealmInfo(
        name=one.name,
        instance=one.instance,
        status=one.status,
        created=one.created,
        updated=one.updated,
        version=one.version,
        description=one.description,
    )
