"""Connectors of a realm and their reconcile jobs."""

from __future__ import annotations

from headwater.producer.connectors.connector_views import connector_info, job_info
from headwater.producer.pointer_names import CONNECTORS
from headwater.schemas.http.connector_json import (
    ConnectorBody,
    ConnectorChange,
    ConnectorInfo,
    ConnectorsPage,
    ConnectorValid,
    ConnectorWritten,
    JobBody,
    JobInfo,
    JobsPage,
)
from headwater.schemas.http.manage_json import Gone
from headwater.service.auth.rights.rights import REALM, Right, Securable
from headwater.service.gate.route import BODY, Needs, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_REALM, Over
from headwater.service.reconciling.connector_operations import ConnectorOperations


def _operations(call: ManageCall) -> ConnectorOperations:
    return ConnectorOperations(call.kernel, call.service.config.reconcile)


def list_connectors(call: ManageCall) -> Response:
    found, next_token = call.page(_operations(call).list)
    return json_response(ConnectorsPage(connectors=[connector_info(one) for one in found], next_token=next_token))


def get_connector(call: ManageCall) -> Response:
    found = _operations(call).get(call.names["connector"])
    return versioned(connector_info(found), found.version)


def create_connector(call: ManageCall) -> Response:
    written = _operations(call).create(call.read(ConnectorBody), call.meta)
    found = written.value
    body = ConnectorWritten(connector=connector_info(found), meta=meta_of(written.outcome, found.version))
    return versioned(body, found.version, 201)


def update_connector(call: ManageCall) -> Response:
    written = _operations(call).update(call.names["connector"], call.read(ConnectorChange), call.version, call.meta)
    found = written.value
    body = ConnectorWritten(connector=connector_info(found), meta=meta_of(written.outcome, found.version))
    return versioned(body, found.version)


def remove_connector(call: ManageCall) -> Response:
    name = call.names["connector"]
    return call.gone(CONNECTORS, lambda: _operations(call).remove(name, call.version, call.meta))


def validate_connector(call: ManageCall) -> Response:
    return json_response(_operations(call).validate(call.names["connector"]))


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────


def list_jobs(call: ManageCall) -> Response:
    return json_response(JobsPage(jobs=[job_info(one) for one in _operations(call).jobs(call.names["connector"])]))


def get_job(call: ManageCall) -> Response:
    return json_response(job_info(_operations(call).job(call.names["connector"], call.names["job"])))


def trigger(call: ManageCall) -> Response:
    body = call.read(JobBody)
    job = _operations(call).trigger(
        call.names["connector"], full_rescan=body.full_rescan, scope=body.scope, requested_by=call.caller.name
    )
    return json_response(job_info(job), 202)


def cancel_job(call: ManageCall) -> Response:
    return json_response(job_info(_operations(call).cancel(call.names["connector"], call.names["job"])))


_CREATING = Needs(
    right=Right.CONNECTOR_MANAGE,
    where="the realm, and `catalog.manage` over the destination",
    path=lambda call: [(Right.CONNECTOR_MANAGE, REALM)],
    body=lambda call: [(Right.CATALOG_MANAGE, Securable(call.read(ConnectorBody).catalog))],
)
_CONNECTOR = f"{IN_REALM}/connectors/{{connector}}"
_READ, _MANAGE = Right.CONNECTOR_READ, Right.CONNECTOR_MANAGE
ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/connectors",
        "The connectors, in order of name.",
        list_connectors,
        Over.REALM.needs(_READ),
        parameters=parameters.PAGE,
        answer=ConnectorsPage,
    ),
    Route(
        "POST",
        f"{IN_REALM}/connectors",
        "Add a connector.",
        create_connector,
        _CREATING,
        BODY,
        body=ConnectorBody,
        answer=ConnectorWritten,
        status=201,
    ),
    Route("GET", _CONNECTOR, "One connector.", get_connector, Over.REALM.needs(_READ), answer=ConnectorInfo),
    Route(
        "PUT",
        _CONNECTOR,
        "Pause, resume or change a connector.",
        update_connector,
        Over.REALM.needs(_MANAGE),
        BODY,
        body=ConnectorChange,
        answer=ConnectorWritten,
    ),
    Route(
        "DELETE",
        _CONNECTOR,
        "Remove a connector; what it committed stays.",
        remove_connector,
        Over.REALM.needs(_MANAGE),
        answer=Gone,
    ),
    Route(
        "POST",
        f"{_CONNECTOR}/validate",
        "Reach the source and read one page of it.",
        validate_connector,
        Over.REALM.needs(_MANAGE),
        answer=ConnectorValid,
    ),
    Route(
        "GET",
        f"{_CONNECTOR}/jobs",
        "The reconcile jobs of a connector, newest first.",
        list_jobs,
        Over.REALM.needs(_READ),
        answer=JobsPage,
    ),
    Route(
        "POST",
        f"{_CONNECTOR}/jobs",
        "Reconcile now.",
        trigger,
        Over.REALM.needs(_MANAGE),
        BODY,
        body=JobBody,
        answer=JobInfo,
        status=202,
    ),
    Route("GET", f"{_CONNECTOR}/jobs/{{job}}", "One job.", get_job, Over.REALM.needs(_READ), answer=JobInfo),
    Route("POST", f"{_CONNECTOR}/jobs/{{job}}/cancel", "Cancel a job.", cancel_job, Over.REALM.needs(_MANAGE), answer=JobInfo),
)
