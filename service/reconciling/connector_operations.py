"""What can be done with connectors, free of any transport: for the management API, the command line, and gRPC later."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta, Written
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.connectors.connector_records import Connector, Connectors, ConnectorStatus
from headwater.producer.connectors.connector_views import spec_of, status_of
from headwater.producer.connectors.polled_names import checked_scope, scope_refused
from headwater.producer.connectors.reconcile_jobs import Job, ReconcileJobs
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import LogSource
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, InvalidInput, RecordNotFound
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorChange, ConnectorValid
from headwater.service.reconciling.reconcile_run import ReconcileRun
from headwater.service.reconciling.source_factories import ReconcileOptions, source_factories
from headwater.service.reconciling.source_secrets import read_secret


class ConnectorOperations:
    """One per realm instance."""

    def __init__(self, kernel: RealmKernel, options: ReconcileOptions) -> None:
        self._kernel = kernel
        self._options = options
        self._factories = source_factories(options)
        self._connectors = Connectors(kernel, self._factories)
        self._jobs = ReconcileJobs(kernel, kept_seconds=options.job_days * 86_400)

    def list(self, *, after: str = "", limit: int = 1_000) -> Sequence[Connector]:
        return self._connectors.list(after=after, limit=limit)

    def get(self, name: str) -> Connector:
        return self._connectors.get(name)

    def create(self, body: ConnectorBody, meta: WriteMeta) -> Written[Connector]:
        return self._connectors.create(
            body.name,
            spec_of(body),
            catalog=body.catalog,
            branch=body.branch,
            path=tuple(body.path),
            interval_seconds=body.interval_seconds,
            description=body.description,
            paused=body.paused,
            meta=meta,
        )

    def update(self, name: str, body: ConnectorChange, version: str | None, meta: WriteMeta) -> Written[Connector]:
        return self._connectors.update(
            name,
            status=status_of(body.status),
            interval_seconds=body.interval_seconds,
            description=body.description,
            properties=body.properties,
            secret_ref=body.secret_ref,
            version=version,
            meta=meta,
        )

    def remove(self, name: str, version: str | None, meta: WriteMeta) -> CommitOutcome:
        """Its position and its jobs end too: a connector re-created under the name starts over."""
        connector = self._connectors.get(name)
        outcome = self._connectors.delete(name, version=version, meta=meta)
        SourcePosition(self._kernel, connector.id).forget()
        self._jobs.cancel_all(connector.id)
        return outcome

    def validate(self, name: str) -> ConnectorValid:
        """Opens the source, reads one page, closes it; a typed error says what is wrong. Nothing is written."""
        connector = self._connectors.get(name)
        spec = self._connectors.check_spec(connector.spec)
        secret = read_secret(self._options.secrets_dir, self._kernel.realm_name, spec.secret_ref)
        source = self._factories[spec.source].open(spec, secret)
        try:
            source.check()
        finally:
            source.close()
        return ConnectorValid(connector=name, source=spec.source, has_log=isinstance(source, LogSource))

    def observe(self, name: str, catalog: str, reference: str, key: KeyPath) -> int:
        """Brings one table up to date with the source, in this moment, and says how many commits that took. ⚠ The table is the
        connector's: it lies below its destination, and only the connector writes it."""
        connector = self._connectors.get(name)
        to, levels = connector.destination, len(connector.destination.path)
        branch = reference or Catalogs(self._kernel).get(catalog).default_branch
        if (catalog, branch) != (to.catalog, to.branch) or key[:levels] != to.path or len(key) == levels:
            raise InvalidInput(
                f"{'.'.join(key)[:200]} is not below the destination of {name!r}.",
                field="upstream",
                remedy="Name a table below it, on its branch.",
            )
        if connector.status is ConnectorStatus.PAUSED:
            raise Conflict(f"{name!r} is paused.", field="upstream", remedy="Set its status to ACTIVE first.")
        self._connectors.check_spec(connector.spec)
        run = ReconcileRun(
            self._kernel, connector, self._factories, self._options, stopping=threading.Event(), tags={}, requested_by=""
        )
        return run.observe(key[levels:])

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────

    def trigger(self, name: str, *, full_rescan: bool, scope: Sequence[Sequence[str]] = (), requested_by: str) -> Job:
        connector = self._connectors.get(name)
        paths = checked_scope(scope, connector.destination.path)
        if paths and getattr(self._factories.get(connector.spec.source), "has_log", False):
            raise scope_refused(connector.spec.source)
        if connector.status is ConnectorStatus.PAUSED:
            raise Conflict(f"{name!r} is paused.", field="connector", remedy="Set its status to ACTIVE first.")
        return self._jobs.create(connector.name, connector.id, requested_by=requested_by, full_rescan=full_rescan, scope=paths)

    def jobs(self, name: str) -> Sequence[Job]:
        """Newest first."""
        return self._jobs.list(self._connectors.get(name).id)

    def job(self, name: str, id: str) -> Job:
        connector, job = self._connectors.get(name), self._jobs.get(id)
        if job.connector_id != connector.id:
            raise RecordNotFound(f"{name!r} has no job {id[:80]!r}.", field="job", remedy="List its jobs.")
        return job

    def cancel(self, name: str, id: str) -> Job:
        return self._jobs.cancel(self.job(name, id).id)


def paused(is_paused: bool) -> ConnectorChange:
    return ConnectorChange(status=ConnectorStatus.PAUSED if is_paused else ConnectorStatus.ACTIVE)
