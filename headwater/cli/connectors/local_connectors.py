"""Connectors of an open store, and the options of reconciling, from settings."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.connectors.connector_views import connector_info, job_info
from headwater.schemas.change import KeyPath
from headwater.schemas.extras import needs_extra
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorChange, ConnectorInfo, ConnectorValid, JobInfo
from headwater.settings import Settings

with needs_extra("connectors", "service"):
    from headwater.service.reconciling.connector_operations import ConnectorOperations
    from headwater.service.reconciling.source_factories import ReconcileOptions
    from headwater.service.storage.storage_options import server_storage
    from headwater.service.storage.storage_roots import storage_roots


def reconcile_options(settings: Settings, *, dev: bool = False) -> ReconcileOptions:
    return ReconcileOptions(
        secrets_dir=settings.connector_secrets_dir,
        private_hosts=frozenset(settings.connector_hosts.split()),
        storage_roots=storage_roots(settings.storage_roots, dev=dev),
        storage=server_storage(settings.storage_options).server,
        slots=settings.reconcile_slots,
        lease_seconds=settings.reconcile_lease_seconds,
        job_days=settings.reconcile_job_days,
    )


class LocalConnectors:
    """The connectors of one realm of an open store, with the author of everything written through this object."""

    def __init__(self, kernel: RealmKernel, settings: Settings, author: str) -> None:
        self._operations = ConnectorOperations(kernel, reconcile_options(settings))
        self._author = author

    def connectors(self) -> Sequence[ConnectorInfo]:
        return [connector_info(one) for one in self._operations.list()]

    def connector(self, name: str) -> ConnectorInfo:
        return connector_info(self._operations.get(name))

    def add(self, body: ConnectorBody) -> ConnectorInfo:
        return connector_info(self._operations.create(body, WriteMeta(self._author)).value)

    def change(self, name: str, body: ConnectorChange) -> ConnectorInfo:
        return connector_info(self._operations.update(name, body, None, WriteMeta(self._author)).value)

    def remove(self, name: str) -> None:
        self._operations.remove(name, None, WriteMeta(self._author))

    def validate(self, name: str) -> ConnectorValid:
        return self._operations.validate(name)

    def reconcile(self, name: str, *, full_rescan: bool, scope: Sequence[KeyPath] = ()) -> JobInfo:
        job = self._operations.trigger(name, full_rescan=full_rescan, scope=scope, requested_by=self._author)
        return job_info(job)

    def jobs(self, name: str) -> Sequence[JobInfo]:
        return [job_info(one) for one in self._operations.jobs(name)]

    def cancel(self, name: str, job: str) -> JobInfo:
        return job_info(self._operations.cancel(name, job))
