"""The routes of the Iceberg REST specification, with their handlers and rights."""

from __future__ import annotations

from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Api, Needs, Route
from headwater.service.gate.token_route import token_route
from headwater.service.http.parameters import Parameter
from headwater.service.http.responses import Response
from headwater.service.iceberg import content_handlers as content
from headwater.service.iceberg import event_handlers as events
from headwater.service.iceberg import plain_handlers as plain
from headwater.service.iceberg import plan_handlers as plans
from headwater.service.iceberg import rights
from headwater.service.iceberg.call import PREFIX, IcebergCall
from headwater.service.iceberg.error_shape import IcebergErrors
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.iceberg.table_access import without_credentials
from headwater.service.storage.remote_signing import SignRequest

LAKE = f"{PREFIX}/v1/{{prefix}}"
NAMESPACES = f"{LAKE}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{namespace}}"
TABLE = f"{NAMESPACE}/tables/{{table}}"
VIEW = f"{NAMESPACE}/views/{{view}}"

_R = Right


def _text(name: str, description: str) -> Parameter:
    return Parameter(name=name, description=description)


_PAGE = (_text("pageToken", "`next-page-token` of the previous page."), _text("pageSize", "How many at most."))
_WAREHOUSE = (_text("warehouse", "`lake` or `lake@branch`."),)
_PARENT = (_text("parent", "List below this namespace; levels separated by %1F."), *_PAGE)
_SNAPSHOTS = (Parameter(name="snapshots", choices=("all", "refs"), description="All snapshots, or those of references."),)
_PURGE = (Parameter(name="purgeRequested", choices=("true", "false"), description="Whether its files may go too."),)

_DELEGATION = (
    ("X-Iceberg-Access-Delegation", "`vended-credentials`, `remote-signing` or both: the access to files it wants."),
)


def _refused(method: str, path: str, needs: Needs) -> Route:
    return Route(method, path, "Not supported: 406.", None, needs)


def _also(route: Route) -> tuple[int, ...]:
    return (204, 304, 406, 409, 410, 422, *((408, 413) if route.method in ("POST", "DELETE") else ()))


async def _config(call: IcebergCall) -> Response:
    return await plain.config(call, endpoints())


ICEBERG = Api(
    name="iceberg",
    prefix=PREFIX,
    summary="The Iceberg REST catalog; a prefix is `lake`, or `lake@branch` for another branch.",
    errors=IcebergErrors(),
    is_lenient=True,
    also=_also,
    routes=(
        Route(
            "GET",
            f"{PREFIX}/v1/config",
            "What a client needs to know first.",
            _config,
            Needs(right=None, where="anywhere in the warehouse", somewhere=rights.catalog_of),
            parameters=_WAREHOUSE,
        ),
        token_route(f"{PREFIX}/v1/oauth/tokens"),
        Route(
            "GET",
            NAMESPACES,
            "Namespaces, one level.",
            plain.list_namespaces,
            rights.by_path(_R.NAMESPACE_LIST, "parent", rights.parent),
            parameters=_PARENT,
        ),
        Route(
            "POST",
            NAMESPACES,
            "Create a namespace.",
            plain.create_namespace,
            rights.by_body(_R.NAMESPACE_CREATE, "new namespace", rights.new_namespace),
            BODY,
            body=plain.NamespaceCreation,
        ),
        Route("GET", NAMESPACE, "Properties of a namespace.", plain.load_namespace, rights.over_namespace(_R.NAMESPACE_READ)),
        Route(
            "HEAD", NAMESPACE, "Whether a namespace exists.", plain.namespace_exists, rights.over_namespace(_R.NAMESPACE_READ)
        ),
        Route("DELETE", NAMESPACE, "Drop an empty namespace.", plain.drop_namespace, rights.over_namespace(_R.NAMESPACE_DROP)),
        Route(
            "POST",
            f"{NAMESPACE}/properties",
            "Set and remove properties of a namespace.",
            plain.update_namespace,
            rights.over_namespace(_R.NAMESPACE_WRITE),
            BODY,
            body=plain.PropertiesUpdate,
        ),
        Route(
            "GET",
            f"{NAMESPACE}/tables",
            "Tables of a namespace.",
            content.list_tables,
            rights.over_namespace(_R.TABLE_LIST),
            parameters=_PAGE,
        ),
        Route(
            "POST",
            f"{NAMESPACE}/tables",
            "Create a table, or stage its creation.",
            content.create_table,
            rights.by_body(_R.TABLE_CREATE, "new table", rights.new_table),
            BODY,
            headers=_DELEGATION,
            body=TableCreation,
            kept=without_credentials,
        ),
        _refused("GET", f"{NAMESPACE}/functions", rights.over_namespace(_R.TABLE_LIST)),
        _refused("GET", f"{NAMESPACE}/functions/{{function}}", rights.over_namespace(_R.TABLE_READ)),
        Route(
            "POST",
            f"{TABLE}/plan",
            "Plan a scan.",
            plans.plan_scan,
            rights.over_table(_R.TABLE_READ),
            BODY,
            body=plans.PlanRequest,
            is_keyed=False,
        ),
        Route("GET", f"{TABLE}/plan/{{plan-id}}", "A plan again.", plans.get_plan, rights.over_table(_R.TABLE_READ)),
        Route("DELETE", f"{TABLE}/plan/{{plan-id}}", "End a plan.", plans.end_plan, rights.over_table(_R.TABLE_READ)),
        Route(
            "POST",
            f"{TABLE}/tasks",
            "Files of a part of a plan.",
            plans.fetch_tasks,
            rights.over_table(_R.TABLE_READ),
            BODY,
            body=plans.TaskRequest,
            is_keyed=False,
        ),
        Route(
            "POST",
            f"{NAMESPACE}/register",
            "Register a table by its metadata file.",
            content.register_table,
            rights.by_body(_R.TABLE_CREATE, "registered", rights.registered_table),
            BODY,
            headers=_DELEGATION,
            body=content.Registration,
            kept=without_credentials,
        ),
        Route(
            "GET",
            TABLE,
            "Load a table.",
            content.load_table,
            rights.over_table(_R.TABLE_READ),
            parameters=_SNAPSHOTS,
            headers=_DELEGATION,
        ),
        Route(
            "POST",
            TABLE,
            "Commit updates of a table.",
            content.update_table,
            rights.over_table(_R.TABLE_WRITE, rights.creating),
            BODY,
            body=content.TableCommit,
        ),
        Route("DELETE", TABLE, "Drop a table.", content.drop_table, rights.over_table(_R.TABLE_DROP), parameters=_PURGE),
        Route("HEAD", TABLE, "Whether a table exists.", content.table_exists, rights.over_table(_R.TABLE_READ)),
        Route(
            "POST",
            f"{TABLE}/unregister",
            "Drop a table, and return its metadata.",
            content.unregister_table,
            rights.over_table(_R.TABLE_DROP, lambda call: [(_R.TABLE_READ, call.table)]),
        ),
        Route(
            "GET",
            f"{TABLE}/credentials",
            "What a client may know of the storage.",
            content.load_credentials,
            rights.over_table(_R.TABLE_READ),
        ),
        Route(
            "POST",
            f"{TABLE}/sign",
            "Sign a request for a file of the table.",
            content.sign,
            rights.over_table(_R.TABLE_READ, rights.signed_write),
            BODY,
            body=SignRequest,
            is_keyed=False,
        ),
        Route(
            "POST",
            f"{LAKE}/tables/rename",
            "Rename a table.",
            content.rename_table,
            rights.by_body(_R.TABLE_DROP, "renamed", rights.renamed(_R.TABLE_DROP, _R.TABLE_CREATE), also=_R.TABLE_CREATE),
            BODY,
            body=content.Renaming,
        ),
        Route(
            "POST",
            f"{TABLE}/metrics",
            "Accepted, and not kept.",
            content.report_metrics,
            rights.over_table(_R.TABLE_READ),
            BODY,
            body=content.MetricsReport,
            is_keyed=False,
        ),
        Route(
            "POST",
            f"{LAKE}/transactions/commit",
            "Commit updates of several tables, all or none.",
            content.commit_transaction,
            rights.by_body(_R.TABLE_WRITE, "changed tables", rights.changed_tables),
            BODY,
            body=content.Transaction,
        ),
        Route(
            "GET",
            f"{NAMESPACE}/views",
            "Views of a namespace.",
            content.list_views,
            rights.over_namespace(_R.VIEW_LIST),
            parameters=_PAGE,
        ),
        Route(
            "POST",
            f"{NAMESPACE}/views",
            "Create a view.",
            content.create_view,
            rights.by_body(_R.VIEW_CREATE, "new view", rights.new_view),
            BODY,
            body=ViewCreation,
        ),
        Route("GET", VIEW, "Load a view.", content.load_view, rights.over_view(_R.VIEW_READ)),
        Route(
            "POST",
            VIEW,
            "Commit updates of a view.",
            content.replace_view,
            rights.over_view(_R.VIEW_WRITE),
            BODY,
            body=content.ViewCommit,
        ),
        Route("DELETE", VIEW, "Drop a view.", content.drop_view, rights.over_view(_R.VIEW_DROP)),
        Route("HEAD", VIEW, "Whether a view exists.", content.view_exists, rights.over_view(_R.VIEW_READ)),
        Route(
            "POST",
            f"{LAKE}/views/rename",
            "Rename a view.",
            content.rename_view,
            rights.by_body(_R.VIEW_DROP, "renamed", rights.renamed(_R.VIEW_DROP, _R.VIEW_CREATE), also=_R.VIEW_CREATE),
            BODY,
            body=content.Renaming,
        ),
        Route(
            "POST",
            f"{NAMESPACE}/register-view",
            "Register a view by its metadata file.",
            content.register_view,
            rights.by_body(_R.VIEW_CREATE, "registered", rights.registered_view),
            BODY,
            body=content.Registration,
        ),
        Route(
            "POST",
            f"{LAKE}/events",
            "A page of events of the branch.",
            events.query_events,
            Needs(right=_R.FEED_READ, where="anywhere in the catalog", somewhere=rights.catalog_of),
            BODY,
            body=events.QueryEvents,
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
