"""Creates, lists and updates catalogs of a realm, and drops empty ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from headwater.producer.access.writing import Written
from headwater.producer.catalogs import catalog_updates
from headwater.producer.catalogs.catalogs import CatalogRead, Catalogs
from headwater.producer.record_views import catalog_info
from headwater.schemas.http.manage_json import CatalogBody, CatalogChange, CatalogInfo, CatalogsPage, CatalogWritten, Gone
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_CATALOG, IN_REALM, Over


def list_catalogs(call: ManageCall) -> Response:
    """Those that the caller may see anything of."""
    limit: int = call.query["limit"]
    seen = list(itertools.islice(_visible(call, after=call.query["token"] or ""), limit + 1))
    if not seen:
        call.access.check(call.caller, Right.CATALOG_LIST)
    shown = seen[:limit]
    found = [catalog_info(one.catalog, one.version) for one in shown]
    return json_response(CatalogsPage(catalogs=found, next_token=shown[-1].catalog.name if len(seen) > limit else None))


def _visible(call: ManageCall, after: str) -> Iterator[CatalogRead]:
    """⚠ Filtered before the page is cut, so that a token names only what was shown."""
    for one in Catalogs(call.kernel).read_all(after=after):
        if call.access.allows_somewhere(call.caller, Right.CATALOG_LIST, one.catalog.name):
            yield one


def get_catalog(call: ManageCall) -> Response:
    read = Catalogs(call.kernel).read(call.names["catalog"])
    version = read.version
    return versioned(catalog_info(read.catalog, version), version)


def create_catalog(call: ManageCall) -> Response:
    body = call.read(CatalogBody)
    return _written(
        catalog_updates.create_catalog(
            call.kernel,
            body.name,
            storage_root=call.storage_roots.check(body.storage_root),
            default_branch=body.default_branch,
            properties=body.properties,
            meta=call.meta,
        ),
        201,
    )


def update_catalog(call: ManageCall) -> Response:
    body = call.read(CatalogChange)
    if body.storage_root is not None and body.storage_root != call.catalog.storage_root:
        call.storage_roots.check(body.storage_root)
    return _written(
        catalog_updates.update_catalog(
            call.kernel,
            call.names["catalog"],
            storage_root=body.storage_root,
            properties=body.properties,
            version=call.version,
            meta=call.meta,
        )
    )


def delete_catalog(call: ManageCall) -> Response:
    outcome = catalog_updates.drop_catalog(
        call.kernel,
        call.names["catalog"],
        require_empty=call.query["require_empty"] == "true",
        purge=call.query["purge"] == "true",
        version=call.version,
        meta=call.meta,
    )
    return json_response(Gone(meta=meta_of(outcome)))


def _written(written: Written[CatalogRead], status: int = 200) -> Response:
    version = written.value.version
    info = catalog_info(written.value.catalog, version)
    return versioned(CatalogWritten(catalog=info, meta=meta_of(written.outcome, version)), version, status)


ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/catalogs",
        "The catalogs that the caller may see, in order of name.",
        list_catalogs,
        Over.ANY_CATALOG.needs(Right.CATALOG_LIST),
        parameters=parameters.PAGE,
        answer=CatalogsPage,
    ),
    Route(
        "POST",
        f"{IN_REALM}/catalogs",
        "Create a catalog with its default branch.",
        create_catalog,
        Over.REALM.needs(Right.CATALOG_CREATE),
        BODY,
        body=CatalogBody,
        answer=CatalogWritten,
        status=201,
    ),
    Route("GET", IN_CATALOG, "One catalog.", get_catalog, Over.CATALOG.needs(Right.CATALOG_LIST), answer=CatalogInfo),
    Route(
        "PATCH",
        IN_CATALOG,
        "Change properties or the storage root of a catalog.",
        update_catalog,
        Over.CATALOG.needs(Right.CATALOG_UPDATE),
        BODY,
        body=CatalogChange,
        answer=CatalogWritten,
    ),
    Route(
        "DELETE",
        IN_CATALOG,
        "Drop a catalog: its name is free, maintenance removes its data.",
        delete_catalog,
        Over.CATALOG.needs(Right.CATALOG_DROP),
        parameters=parameters.DELETE_CATALOG,
        answer=Gone,
    ),
)
