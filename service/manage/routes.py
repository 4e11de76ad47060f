"""All management routes."""

from __future__ import annotations

from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.route import Api
from headwater.service.gate.token_route import token_route
from headwater.service.manage import (
    audit,
    catalogs,
    connectors,
    merges,
    namespaces,
    policies,
    principals,
    realms,
    references,
    roles,
    usage,
)
from headwater.service.manage.route import IN_REALM
from headwater.service.manage.tables import statistics

MANAGE = Api(
    name="manage",
    prefix="/manage",
    summary="Realms, catalogs, references, identities, rights and policies.",
    errors=PROBLEMS,
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
        *audit.ROUTES,
        *usage.ROUTES,
    ),
)
