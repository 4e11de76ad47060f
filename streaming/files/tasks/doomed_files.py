"""Deletes the files of realms and catalogs that are purged: everything below their claimed roots that no other needs.

Follows the protocol of a sweep, without the second look and the share check. There is no grace either, unless a catalog that
stays has a root at, above or below one of these: its writers may be at work there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.persistence.store import Store
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalog_settings import CLAIM_ROOT, Guard, guard_of
from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.doomed import Doomed
from headwater.streaming.files.sweep.file_sweep import (
    FILES_LEASE,
    LEASE_SECONDS,
    FileSweep,
    FileSweepOptions,
    FileSweepReport,
)
from headwater.streaming.files.sweep.roots import Root, roots_of
from headwater.streaming.runs.realm_sets import realm_sets
from headwater.streaming.runs.runs import Runs


class DoomedFiles:
    """Serves the realms of one purge (as one of their external resources) and dropped catalogs."""

    def __init__(self, store: Store, operations: Callable[[], FileOperations], options: FileSweepOptions) -> None:
        self._store = store
        self._operations = operations
        self._options = options
        self._realms: frozenset[str] = frozenset()

    def check(self, instances: Sequence[str]) -> None:
        """All of them go together: what one of them needs does not hold the files of another."""
        self._realms = frozenset(instances)

    def remove(self, instance: str) -> None:
        """`MaintenanceRefused` if a root could not be emptied: the realm stays PURGING."""
        if instance not in self._realms:  # purged before; its rows no longer name its roots
            return
        self._delete(Doomed(roots=tuple(roots_of(self._store, [instance])), realms=self._realms))

    def remove_catalog(self, realm: str, catalog: Catalog) -> None:
        if catalog.storage_root:
            root = Root(
                location=catalog.storage_root.rstrip("/") + "/",
                realm=realm,
                catalog=catalog.name,
                catalog_id=catalog.id,
                takes_claim=guard_of(catalog.properties, CLAIM_ROOT) is Guard.ALLOW,
            )
            self._delete(Doomed(roots=(root,), catalogs=frozenset({(realm, catalog.id)})))

    def _delete(self, doomed: Doomed) -> None:
        if not doomed.roots:
            return
        staying = [one.instance for one in realm_sets(self._store).retain]
        beside = [root for root in roots_of(self._store, staying) if any(_overlap(root, gone) for gone in doomed.roots)]
        doomed = Doomed(roots=doomed.roots, realms=doomed.realms, catalogs=doomed.catalogs, grace=bool(beside))
        operations = self._operations()
        runs = Runs(self._store.backend, self._store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with runs.run("files-purge") as run:
            report = FileSweep(self._store, operations, self._options, doomed=doomed).run(run)
        _require_done(report)
        if not beside:
            claims = Claims(self._store, operations.storages)
            for root in doomed.roots:
                claims.give_up(root)


def _overlap(one: Root, other: Root) -> bool:
    return one.place.startswith(other.place) or other.place.startswith(one.place)


def _require_done(report: FileSweepReport) -> None:
    for one in report.roots:
        failed = one.purge.failed if one.purge is not None else 0
        if one.refusal or failed:
            raise MaintenanceRefused(
                f"files below {one.root} are left: {one.refusal or f'{failed} could not be deleted'}",
                field="--files",
                remedy="Repair that and run it again, or purge without --files.",
            )
