"""Connectors and jobs as the management API and the command line show them."""

from __future__ import annotations

import msgspec

from headwater.producer.connectors.connector_records import Connector, ConnectorStatus
from headwater.producer.connectors.reconcile_jobs import Job
from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorInfo, JobFailure, JobInfo


def connector_info(connector: Connector) -> ConnectorInfo:
    spec, destination = connector.spec, connector.destination
    return ConnectorInfo(
        name=connector.name,
        source=spec.source,
        uri=spec.uri,
        properties=spec.properties,
        secret_ref=spec.secret_ref,
        roots=list(spec.roots),
        catalog=destination.catalog,
        branch=destination.branch,
        path=list(destination.path),
        status=str(connector.status),
        interval_seconds=connector.interval_seconds,
        description=connector.description,
        version=connector.version,
    )


def job_info(job: Job) -> JobInfo:
    return JobInfo(
        id=job.id,
        connector=job.connector,
        state=str(job.state),
        full_rescan=job.full_rescan,
        scope=[list(path) for path in job.scope],
        requested_by=job.requested_by,
        created=time_text(job.created_at),
        started=time_text(job.started_at) if job.started_at else None,
        ended=time_text(job.ended_at) if job.ended_at else None,
        counters=msgspec.to_builtins(job.counters),
        failures=[JobFailure(key=list(one.key), code=one.code, message=one.message) for one in job.failures],
        error=job.error,
    )


def spec_of(body: ConnectorBody) -> ConnectorSpec:
    return ConnectorSpec(
        source=body.source,
        uri=body.uri,
        properties=body.properties,
        secret_ref=body.secret_ref,
        roots=tuple(body.roots),
    )


def status_of(text: str | None) -> ConnectorStatus | None:
    try:
        return None if text is None else ConnectorStatus(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r:.80} is not a status.", field="status", remedy=f"Use one of {', '.join(ConnectorStatus)}."
        ) from None
