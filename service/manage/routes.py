"""All management routes."""

from __future__ import annotations

from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.route import READING, Api, Route
from headwater.service.gate.token_route import token_route
from headwater.service.manage import (
    catalogs,
    connectors,
    merges,
    namespaces,
    policies,
    principals,
    realms,
    references,
    reports,
    roles,
)
from headwater.service.manage.route import IN_REALM
from headwater.service.manage.tables import statistics


def _also(route: Route) -> tuple[int, ...]:
    """410 for expired history, on the routes that read branches."""
    return (*(() if route.method in READING else (409, 412, 413)), *((410,) if "{catalog}" in route.path else ()))


MANAGE = Api(
    name="manage",
    prefix="/manage",
    summary="Realms, catalogs, references, identities, rights and policies.",
    errors=PROBLEMS,
    also=_also,
    routes=(
        token_route(f"{IN_REALM}/oauth/tokens"),
        *realms.ROUTES,
        *catalogs.ROUTES,
        *namespaces.ROUTES,
        *references.ROUTES,
        *merges.ROUTES,
        *principals.ROUTES,
        *roles.ROUTES,
        *policies.ROUTES,
        *connectors.ROUTES,
        *statistics.ROUTES,
        *reports.ROUTES,
    ),
)
