"""Plans tables that connectors observe by their sources, where these plan scans themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.commits.owned_paths import OwnedPath, owned_in_realm
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.connectors.source_spi import AnySource, PlanningSource, ScanFile, SourceFactories
from headwater.producer.plans.plan_rows import PlanInput
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import PlanNotFound, Unsupported
from headwater.service.reconciling.source_factories import ReconcileOptions, source_factories
from headwater.service.reconciling.source_secrets import read_secret


class SourcePlans:
    """Source plans of one realm instance. Nothing is opened for tables that no source plans."""

    def __init__(self, kernel: RealmKernel, options: ReconcileOptions) -> None:
        self._kernel, self._options = kernel, options

    def planned(self, one: PlanInput, version: str) -> PlanInput | None:
        """The input as the connector's source plans it, asked now; None where it plans none of its type."""
        owner = self._owner(one.catalog_id, one.key)
        if owner is None:
            return None
        factories = source_factories(self._options)
        connector = Connectors(self._kernel, factories).get(owner.connector)
        if one.type not in getattr(factories.get(connector.spec.source), "planned_types", frozenset()):
            return None
        with closing(self._open(owner, factories)) as source:
            found = _planning(source).plan(one.key[len(owner.path) :], version, one.snapshot_id, b"")
        return msgspec.structs.replace(
            one, metadata_location=version, snapshot_id=found.snapshot_id, connector=owner.connector_id
        )

    def files(self, one: PlanInput, filter: bytes) -> Iterator[ScanFile]:
        """⚠ By the connector that was asked when the plan began."""
        owner = self._owner(one.catalog_id, one.key)
        if owner is None or owner.connector_id != one.connector:
            raise PlanNotFound("its connector was removed.", field="plan_id", remedy="Begin a new plan.")
        with closing(self._open(owner, source_factories(self._options))) as source:
            key = one.key[len(owner.path) :]
            yield from _planning(source).plan(key, one.metadata_location, one.snapshot_id, filter).files

    def _owner(self, catalog_id: int, key: KeyPath) -> OwnedPath | None:
        owners = owned_in_realm(self._kernel)
        return next((one for one in owners if one.catalog_id == catalog_id and one.covers(key)), None)

    def _open(self, owner: OwnedPath, factories: SourceFactories) -> AnySource:
        connectors = Connectors(self._kernel, factories)
        spec = connectors.check_spec(connectors.get(owner.connector).spec)
        secret = read_secret(self._options.secrets_dir, self._kernel.realm_name, spec.secret_ref)
        return factories[spec.source].open(spec, secret)


def _planning(source: AnySource) -> PlanningSource:
    if not isinstance(source, PlanningSource):
        raise Unsupported("its source plans no scans.", field="inputs", remedy="Plan other tables.")
    return source
