"""ConnectorService, on the operations of `/manage/v1/{realm}/connectors`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.schemas.errors import InvalidInput
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
from headwater.schemas.rpc import connector_pb2
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import catalog_name, decoded, set_meta, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.http.responses import Response
from headwater.service.manage.route import IN_REALM

SERVICE = "io.headwater.connector.v1.ConnectorService"
_ALL = f"{IN_REALM}/connectors"
_ONE = f"{_ALL}/{{connector}}"
_JOBS, _JOB = f"{_ONE}/jobs", f"{_ONE}/jobs/{{job}}"
_LIST, _CREATE = sibling("GET", _ALL), sibling("POST", _ALL)
_GET, _UPDATE, _DELETE = sibling("GET", _ONE), sibling("PUT", _ONE), sibling("DELETE", _ONE)
_VALIDATE, _TRIGGER, _LIST_JOBS = sibling("POST", f"{_ONE}/validate"), sibling("POST", _JOBS), sibling("GET", _JOBS)
_GET_JOB, _CANCEL = sibling("GET", _JOB), sibling("POST", f"{_JOB}/cancel")

_CHANGEABLE = ("status", "interval_seconds", "description", "properties", "secret_ref")
_STATUSES = {
    connector_pb2.CONNECTOR_STATUS_ACTIVE: "ACTIVE",
    connector_pb2.CONNECTOR_STATUS_PAUSED: "PAUSED",
}
_NUMBERS = {text: number for number, text in _STATUSES.items()}


def _named(name: str, field: str) -> dict[str, str]:
    if not name:
        raise InvalidInput("it is empty.", field=field, remedy="Name a connector.")
    return {"connector": name}


def _job_names(call: RpcCall) -> dict[str, str]:
    if not call.message.job:
        raise InvalidInput("it is empty.", field="job", remedy="Send the id of a job.")
    return {**_named(call.message.connector, "connector"), "job": call.message.job}


def _list(call: RpcCall) -> Bound:
    token = page_token(call)
    query = {"limit": str(page_size(call.message))} | ({} if token is None else {"token": token})
    return Bound(route=_LIST, query=query)


def _create(call: RpcCall) -> Bound:
    wanted = call.message.connector
    body = ConnectorBody(
        name=wanted.name,
        source=wanted.source,
        uri=wanted.uri,
        properties=dict(wanted.properties),
        secret_ref=wanted.secret_ref,
        roots=list(wanted.roots),
        catalog=catalog_name(wanted.catalog, "connector.catalog"),
        branch=wanted.branch,
        path=list(wanted.path),
        interval_seconds=wanted.interval_seconds or 30,
        description=wanted.description,
        paused=wanted.status == connector_pb2.CONNECTOR_STATUS_PAUSED,
    )
    return Bound(route=_CREATE, body=body)


def _update(call: RpcCall) -> Bound:
    wanted = call.message.connector
    paths = masked(call.message.update_mask, _CHANGEABLE)
    if "status" in paths and wanted.status not in _STATUSES:
        raise InvalidInput("it is unspecified.", field="connector.status", remedy="Use ACTIVE or PAUSED.")
    body = ConnectorChange(
        status=_STATUSES[wanted.status] if "status" in paths else None,
        interval_seconds=wanted.interval_seconds if "interval_seconds" in paths else None,
        description=wanted.description if "description" in paths else None,
        properties=dict(wanted.properties) if "properties" in paths else None,
        secret_ref=wanted.secret_ref if "secret_ref" in paths else None,
    )
    return Bound(route=_UPDATE, names=_named(call.message.name, "name"), body=body, version=version_of(call.message))


def _delete(call: RpcCall) -> Bound:
    return Bound(route=_DELETE, names=_named(call.message.name, "name"), version=version_of(call.message))


def _trigger(call: RpcCall) -> Bound:
    scope = [list(one.path) for one in call.message.scope]
    body = JobBody(full_rescan=call.message.full_rescan, scope=scope)
    return Bound(route=_TRIGGER, names=_named(call.message.connector, "connector"), body=body)


def _info(info: ConnectorInfo) -> connector_pb2.Connector:
    return connector_pb2.Connector(
        name=info.name,
        source=info.source,
        uri=info.uri,
        properties=info.properties,
        secret_ref=info.secret_ref,
        roots=info.roots,
        catalog=info.catalog,
        branch=info.branch,
        path=info.path,
        status=_NUMBERS[info.status],
        interval_seconds=info.interval_seconds,
        description=info.description,
        version=info.version,
    )


def _job(info: JobInfo) -> connector_pb2.ReconcileJob:
    return connector_pb2.ReconcileJob(
        id=info.id,
        connector=info.connector,
        state=info.state,
        full_rescan=info.full_rescan,
        requested_by=info.requested_by,
        created=info.created,
        started=info.started or "",
        ended=info.ended or "",
        counters=info.counters,
        failures=[connector_pb2.ReconcileFailure(key=one.key, code=one.code, message=one.message) for one in info.failures],
        error=info.error,
        scope=[connector_pb2.ScopePath(path=path) for path in info.scope],
    )


def _page(call: RpcCall, request: Any, response: Response) -> connector_pb2.ListConnectorsResponse:
    page = decoded(response, ConnectorsPage)
    shown = connector_pb2.ListConnectorsResponse(connectors=[_info(one) for one in page.connectors])
    shown.page.next_token = next_token(call, page.next_token)
    return shown


def _got(call: RpcCall, request: Any, response: Response) -> connector_pb2.GetConnectorResponse:
    return connector_pb2.GetConnectorResponse(connector=_info(decoded(response, ConnectorInfo)))


def _created(call: RpcCall, request: Any, response: Response) -> connector_pb2.CreateConnectorResponse:
    written = decoded(response, ConnectorWritten)
    shown = connector_pb2.CreateConnectorResponse(connector=_info(written.connector))
    set_meta(shown.meta, written.meta)
    return shown


def _updated(call: RpcCall, request: Any, response: Response) -> connector_pb2.UpdateConnectorResponse:
    written = decoded(response, ConnectorWritten)
    shown = connector_pb2.UpdateConnectorResponse(connector=_info(written.connector))
    set_meta(shown.meta, written.meta)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> connector_pb2.DeleteConnectorResponse:
    shown = connector_pb2.DeleteConnectorResponse()
    set_meta(shown.meta, decoded(response, Gone).meta)
    return shown


def _valid(call: RpcCall, request: Any, response: Response) -> connector_pb2.ValidateConnectorResponse:
    found = decoded(response, ConnectorValid)
    return connector_pb2.ValidateConnectorResponse(source=found.source, has_log=found.has_log)


def _jobs(call: RpcCall, request: Any, response: Response) -> connector_pb2.ListReconcileJobsResponse:
    return connector_pb2.ListReconcileJobsResponse(jobs=[_job(one) for one in decoded(response, JobsPage).jobs])


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListConnectors", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(
        method=f"{SERVICE}/GetConnector",
        routes=(_GET,),
        bind=lambda call: Bound(route=_GET, names=_named(call.message.name, "name")),
        reply=_got,
    )
    yield Rpc(method=f"{SERVICE}/CreateConnector", routes=(_CREATE,), bind=_create, reply=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/UpdateConnector", routes=(_UPDATE,), bind=_update, reply=_updated, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteConnector", routes=(_DELETE,), bind=_delete, reply=_deleted, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/ValidateConnector",
        routes=(_VALIDATE,),
        bind=lambda call: Bound(route=_VALIDATE, names=_named(call.message.name, "name")),
        reply=_valid,
    )
    yield Rpc(
        method=f"{SERVICE}/TriggerReconcile",
        routes=(_TRIGGER,),
        bind=_trigger,
        reply=lambda call, request, response: connector_pb2.TriggerReconcileResponse(job=_job(decoded(response, JobInfo))),
        is_keyed=True,
    )
    yield Rpc(
        method=f"{SERVICE}/GetReconcileJob",
        routes=(_GET_JOB,),
        bind=lambda call: Bound(route=_GET_JOB, names=_job_names(call)),
        reply=lambda call, request, response: connector_pb2.GetReconcileJobResponse(job=_job(decoded(response, JobInfo))),
    )
    yield Rpc(
        method=f"{SERVICE}/ListReconcileJobs",
        routes=(_LIST_JOBS,),
        bind=lambda call: Bound(route=_LIST_JOBS, names=_named(call.message.connector, "connector")),
        reply=_jobs,
    )
    yield Rpc(
        method=f"{SERVICE}/CancelReconcileJob",
        routes=(_CANCEL,),
        bind=lambda call: Bound(route=_CANCEL, names=_job_names(call)),
        reply=lambda call, request, response: connector_pb2.CancelReconcileJobResponse(job=_job(decoded(response, JobInfo))),
        is_keyed=True,
    )


ROWS = tuple(_rows())
