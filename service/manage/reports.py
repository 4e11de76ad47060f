"""What a realm reports of itself: what was denied, newest first; its rows and bytes, as the last background scan found them."""

from __future__ import annotations

from headwater.schemas.entry_ids import micros_of, time_text
from headwater.schemas.http.manage_json import DenialInfo, DenialsPage, RealmUsage
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import IN_REALM, Over
from headwater.service.usage.usage_records import read_usage


def list_denials(call: ManageCall) -> Response:
    limit: int = call.query["limit"]
    token = call.query["token"]
    before = None if token is None else micros_of(token, field="token")
    call.access.denials.flush()  # those of this worker are in the list, not a moment later
    found = call.access.denials.list(call.kernel.realm, before=before, limit=limit)
    denials = [
        DenialInfo(
            time=time_text(one.time),
            principal=one.principal,
            right=one.right,
            catalog=one.catalog,
            path=list(one.key),
            count=one.count,
            unwritten=one.unwritten,
        )
        for one in found
    ]
    return json_response(DenialsPage(denials=denials, next_token=denials[-1].time if len(denials) == limit else None))


def realm_usage(call: ManageCall) -> Response:
    return json_response(read_usage(call.kernel))


ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/denials",
        "Denied requests, newest first.",
        list_denials,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        parameters=parameters.PAGE,
        answer=DenialsPage,
    ),
    Route(
        "GET",
        f"{IN_REALM}/usage",
        "Rows and bytes of the realm, by type.",
        realm_usage,
        Over.REALM.needs(Right.METRICS_READ),
        answer=RealmUsage,
    ),
)
