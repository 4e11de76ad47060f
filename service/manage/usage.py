"""Rows and bytes of a realm by type, as the last background scan found them."""

from __future__ import annotations

from headwater.schemas.http.manage_json import RealmUsage
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import IN_REALM, Over
from headwater.service.usage.usage_records import read_usage


def realm_usage(call: ManageCall) -> Response:
    usage: RealmUsage = read_usage(call.kernel)
    return json_response(usage)


ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/usage",
        "Rows and bytes of the realm, by type.",
        realm_usage,
        Over.REALM.needs(Right.METRICS_READ),
        answer=RealmUsage,
    ),
)
