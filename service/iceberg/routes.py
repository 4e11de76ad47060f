"""The routes of the Iceberg REST specification, with their handlers and rights."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, NO_BODY, Api, Handler, Needs, Route
from headwater.service.gate.token_route import token_route
from headwater.service.http.parameters import Parameter
from headwater.service.http.responses import Response
from headwater.service.iceberg import content_handlers as content
from headwater.service.iceberg import event_handlers as events
from headwater.service.iceberg import plain_handlers as plain
from headwater.service.iceberg import rights
from headwater.service.iceberg.call import PREFIX, IcebergCall
from headwater.service.iceberg.error_shape import IcebergErrors
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.storage.remote_signing import SignRequest

LAKE = f"{PREFIX}/v1/{{prefix}}"
NAMESPACES = f"{LAKE}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{namespace}}"
TABLE = f"{NAMESPACE}/tables/{{table}}"
VIEW = f"{NAMESPACE}/views/{{view}}"

_R = Right


def _text(name: str, description: str) -> Parameter:
    return Parameter(name=name, description=description)


_PAGE = (_text("pageToken", "`next-page-token` of the page before."), _text("pageSize", "How many at most."))
_WAREHOUSE = (_text("warehouse", "`lake` or `lake@branch`."),)
_PARENT = (_text("parent", "List below this namespace; levels separated by %1F."), *_PAGE)
_SNAPSHOTS = (Parameter(name="snapshots", choices=("all", "refs"), description="All snapshots, or those of references."),)
_PURGE = (Parameter(name="purgeRequested", choices=("true", "false"), description="Whether its files may go too."),)


def _route(
    method: str,
    path: str,
    summary: str,
    handler: Handler | None,
    needs: Needs,
    body: type[msgspec.Struct] | None = None,
    *,
    parameters: tuple[Parameter, ...] = (),
    body_is_optional: bool = False,
    is_keyed: bool = True,
    kept: Callable[[Response], Response] | None = None,
) -> Route:
    return Route(
        method=method,
        path=path,
        summary=summary,
        handler=handler,
        needs=needs,
        budget=NO_BODY if body is None else BODY,
        parameters=parameters,
        body=body,
        body_is_optional=body_is_optional,
        also=(204, 304, 406, 409, 410, 422, *((408, 413) if method in ("POST", "DELETE") else ())),
        is_keyed=is_keyed,
        kept=kept,
    )


def _refused(method: str, path: str, needs: Needs) -> Route:
    return _route(method, path, "Not supported: 406.", None, needs)


async def _config(call: IcebergCall) -> Response:
    return await plain.config(call, endpoints())


ICEBERG = Api(
    name="iceberg",
    prefix=PREFIX,
    summary="The Iceberg REST catalog; a prefix is `lake`, or `lake@branch` for another branch.",
    errors=IcebergErrors(),
    is_lenient=True,
    routes=(
        _route(
            "GET",
            f"{PREFIX}/v1/config",
            "What a client needs to know first.",
            _config,
            Needs(right=None, where="anywhere in the warehouse", somewhere=rights.catalog_of),
            parameters=_WAREHOUSE,
        ),
        token_route(f"{PREFIX}/v1/oauth/tokens"),
        _route(
            "GET",
            NAMESPACES,
            "Namespaces, one level.",
            plain.list_namespaces,
            rights.by_path(_R.NAMESPACE_LIST, "parent", rights.parent),
            parameters=_PARENT,
        ),
        _route(
            "POST",
            NAMESPACES,
            "Create a namespace.",
            plain.create_namespace,
            rights.by_body(_R.NAMESPACE_CREATE, "new namespace", rights.new_namespace),
            plain.NamespaceCreation,
        ),
        _route("GET", NAMESPACE, "Properties of a namespace.", plain.load_namespace, rights.over_namespace(_R.NAMESPACE_READ)),
        _route(
            "HEAD",
            NAMESPACE,
            "Whether a namespace exists.",
            plain.namespace_exists,
            rights.over_namespace(_R.NAMESPACE_READ),
        ),
        _route("DELETE", NAMESPACE, "Drop an empty namespace.", plain.drop_namespace, rights.over_namespace(_R.NAMESPACE_DROP)),
        _route(
            "POST",
            f"{NAMESPACE}/properties",
            "Set and remove properties of a namespace.",
            plain.update_namespace,
            rights.over_namespace(_R.NAMESPACE_WRITE),
            plain.PropertiesUpdate,
        ),
        _route(
            "GET",
            f"{NAMESPACE}/tables",
            "Tables of a namespace.",
            content.list_tables,
            rights.over_namespace(_R.TABLE_LIST),
            parameters=_PAGE,
        ),
        _route(
            "POST",
            f"{NAMESPACE}/tables",
            "Create a table, or stage its creation.",
            content.create_table,
            rights.by_body(_R.TABLE_CREATE, "new table", rights.new_table),
            TableCreation,
            kept=content.without_credentials,
        ),
        _refused("GET", f"{NAMESPACE}/functions", rights.over_namespace(_R.TABLE_LIST)),
        _refused("GET", f"{NAMESPACE}/functions/{{function}}", rights.over_namespace(_R.TABLE_READ)),
        _refused("POST", f"{TABLE}/plan", rights.over_table(_R.TABLE_READ)),
        _refused("GET", f"{TABLE}/plan/{{plan-id}}", rights.over_table(_R.TABLE_READ)),
        _refused("DELETE", f"{TABLE}/plan/{{plan-id}}", rights.over_table(_R.TABLE_READ)),
        _refused("POST", f"{TABLE}/tasks", rights.over_table(_R.TABLE_READ)),
        _route(
            "POST",
            f"{NAMESPACE}/register",
            "Register a table by its metadata file.",
            content.register_table,
            rights.by_body(_R.TABLE_CREATE, "registered", rights.registered_table),
            content.Registration,
            kept=content.without_credentials,
        ),
        _route("GET", TABLE, "Load a table.", content.load_table, rights.over_table(_R.TABLE_READ), parameters=_SNAPSHOTS),
        _route(
            "POST",
            TABLE,
            "Commit updates of a table.",
            content.update_table,
            rights.over_table(_R.TABLE_WRITE, rights.creating),
            content.TableCommit,
        ),
        _route("DELETE", TABLE, "Drop a table.", content.drop_table, rights.over_table(_R.TABLE_DROP), parameters=_PURGE),
        _route("HEAD", TABLE, "Whether a table exists.", content.table_exists, rights.over_table(_R.TABLE_READ)),
        _route(
            "POST",
            f"{TABLE}/unregister",
            "Drop a table, and return its metadata.",
            content.unregister_table,
            rights.over_table(_R.TABLE_DROP, lambda call: [(_R.TABLE_READ, call.table)]),
        ),
        _route(
            "GET",
            f"{TABLE}/credentials",
            "What a client may know of the storage.",
            content.load_credentials,
            rights.over_table(_R.TABLE_READ),
        ),
        _route(
            "POST",
            f"{TABLE}/sign",
            "Sign a request for a file of the table.",
            content.sign,
            rights.over_table(_R.TABLE_READ, rights.signed_write),
            SignRequest,
            is_keyed=False,
        ),
        _route(
            "POST",
            f"{LAKE}/tables/rename",
            "Rename a table.",
            content.rename_table,
            rights.by_body(_R.TABLE_DROP, "renamed", rights.renamed(_R.TABLE_DROP, _R.TABLE_CREATE), also=_R.TABLE_CREATE),
            content.Renaming,
        ),
        _route(
            "POST",
            f"{TABLE}/metrics",
            "Accepted, and not kept.",
            content.report_metrics,
            rights.over_table(_R.TABLE_READ),
            content.MetricsReport,
            is_keyed=False,
        ),
        _route(
            "POST",
            f"{LAKE}/transactions/commit",
            "Commit updates of several tables, all or none.",
            content.commit_transaction,
            rights.by_body(_R.TABLE_WRITE, "changed tables", rights.changed_tables),
            content.Transaction,
        ),
        _route(
            "GET",
            f"{NAMESPACE}/views",
            "Views of a namespace.",
            content.list_views,
            rights.over_namespace(_R.VIEW_LIST),
            parameters=_PAGE,
        ),
        _route(
            "POST",
            f"{NAMESPACE}/views",
            "Create a view.",
            content.create_view,
            rights.by_body(_R.VIEW_CREATE, "new view", rights.new_view),
            ViewCreation,
        ),
        _route("GET", VIEW, "Load a view.", content.load_view, rights.over_view(_R.VIEW_READ)),
        _route(
            "POST",
            VIEW,
            "Commit updates of a view.",
            content.replace_view,
            rights.over_view(_R.VIEW_WRITE),
            content.ViewCommit,
        ),
        _route("DELETE", VIEW, "Drop a view.", content.drop_view, rights.over_view(_R.VIEW_DROP)),
        _route("HEAD", VIEW, "Whether a view exists.", content.view_exists, rights.over_view(_R.VIEW_READ)),
        _route(
            "POST",
            f"{LAKE}/views/rename",
            "Rename a view.",
            content.rename_view,
            rights.by_body(_R.VIEW_DROP, "renamed", rights.renamed(_R.VIEW_DROP, _R.VIEW_CREATE), also=_R.VIEW_CREATE),
            content.Renaming,
        ),
        _route(
            "POST",
            f"{NAMESPACE}/register-view",
            "Register a view by its metadata file.",
            content.register_view,
            rights.by_body(_R.VIEW_CREATE, "registered", rights.registered_view),
            content.Registration,
        ),
        _route(
            "POST",
            f"{LAKE}/events",
            "A page of events of the branch.",
            events.query_events,
            Needs(right=_R.FEED_READ, where="anywhere in the catalog", somewhere=rights.catalog_of),
            events.QueryEvents,
            body_is_optional=True,
            is_keyed=False,
        ),
    ),
)


def endpoints() -> list[str]:
    """What the configuration tells clients, as the specification writes it."""
    return _ENDPOINTS


_ENDPOINTS = [
    f"{route.method} {route.path.removeprefix(PREFIX)}"
    for route in ICEBERG.routes
    if route.handler is not None and route.path not in (f"{PREFIX}/v1/config", f"{PREFIX}/v1/oauth/tokens")
]
