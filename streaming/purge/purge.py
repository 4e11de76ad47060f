"""Deletes all rows of PURGING realms, of instances that no list names, and of dropped catalogs.

A realm becomes PURGED only when a scan has found nothing. Rows of an instance are orphans if the list, read after the scan that
found them, does not name it: a realm is listed before its first row is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.realms.realm_purge import (
    TABLES_IN_ORDER,
    DeleteByScan,
    PurgeCounts,
    delete_by_scan,
    purge_by_scans,
    purge_rows,
    rows_left,
)
from headwater.persistence.realms.realm_records import Realm, RealmRead
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.schemas.errors import HeadwaterError, MaintenanceStopped, MaintenanceSuperseded
from headwater.streaming.purge.catalog_purge import CATALOG_AGE_SECONDS, CatalogPurge, PurgedCatalog
from headwater.streaming.purge.external_resources import ExternalResources
from headwater.streaming.runs.realm_sets import all_realms, realm_sets, realms_to_purge
from headwater.streaming.runs.run_counts import Counts
from headwater.streaming.runs.runs import Run

_INSTANCE = re.compile(r"[A-Za-z0-9._-]+#[0-9a-f]{16}")
ROWS, POINTERS = "(rows)", "(pointers)"
"""The type under which a purge counts rows: it does not look at what they are."""
FAILURES_KEPT = 100


class PurgedRealm(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    instance: str
    listed: bool
    rounds: int = 0
    deleted: int | None = None
    """Rows; None if the database deletes in bulk and does not say."""
    failure: str = ""


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    realms: list[PurgedRealm]
    catalogs: list[PurgedCatalog]


def purge_all(
    store: Store,
    run: Run,
    *,
    realms: Sequence[Realm] | None = None,
    unlisted: bool = True,
    catalogs: bool = True,
    belongings: Sequence[ExternalResources] = (),
    catalog_age_seconds: int = CATALOG_AGE_SECONDS,
    before_catalog: Callable[[str, Catalog], None] = lambda _realm, _catalog: None,
    scan: DeleteByScan = delete_by_scan,
) -> Purged:
    """Purges all that may be purged, or the given realms. Failures and counts are in the run's record. `scan` deletes if the
    database does not delete by realm."""
    if run.record.dry_run:
        return _would_purge(store, realms, unlisted, catalogs, catalog_age_seconds)
    chosen = realms_to_purge(store) if realms is None else realms
    by_scan = not store.backend.abilities.can_delete_realms
    if by_scan:
        done = SharedScans(store, belongings, run.check, scan).purge(chosen, unlisted=unlisted) if chosen or unlisted else []
    else:
        done = purge_realms(store, chosen, belongings=belongings, before_each=run.check)
    failures = remove_late_external_resources(store, belongings)
    if unlisted and not by_scan:
        done += purge_unlisted(store, belongings=belongings, before_each=run.check)
    failures += [f"{it.instance}: {it.failure}" for it in done if it.failure]
    dropped: list[PurgedCatalog] = []
    for realm in realm_sets(store).retain if catalogs else []:
        run.check()
        try:
            kernel = store.kernel(realm.instance)
            dropped += CatalogPurge(
                kernel, age_seconds=catalog_age_seconds, before_each=run.check, before_catalog=before_catalog
            ).run()
        except (MaintenanceStopped, MaintenanceSuperseded):
            raise
        except HeadwaterError as error:
            failures.append(f"catalogs of {realm.name}: {error}")
    run.record.failures = failures[:FAILURES_KEPT]
    for it in done:
        run.record.counts.setdefault(it.instance, {})[ROWS] = Counts(purged=it.deleted or 0, failed=int(bool(it.failure)))
    for gone in dropped:
        if not gone.waiting:
            run.record.counts.setdefault(gone.realm, {}).setdefault(POINTERS, Counts()).add(Counts(purged=gone.pointers))
    return Purged(realms=done, catalogs=dropped)


def _would_purge(store: Store, realms: Sequence[Realm] | None, unlisted: bool, catalogs: bool, age_seconds: int) -> Purged:
    chosen = realms_to_purge(store) if realms is None else realms
    would = [PurgedRealm(realm=it.name, instance=it.instance, listed=True) for it in chosen]
    orphans = unlisted_instances(store) if unlisted else []
    would += [PurgedRealm(realm=realm_name_of(it), instance=it, listed=False) for it in orphans]
    dropped: list[PurgedCatalog] = []
    for realm in realm_sets(store).retain if catalogs else []:
        dropped += CatalogPurge(store.kernel(realm.instance), age_seconds=age_seconds).run(dry_run=True)
    return Purged(realms=would, catalogs=dropped)


def purge_realms(
    store: Store,
    realms: Sequence[Realm],
    *,
    belongings: Sequence[ExternalResources] = (),
    before_each: Callable[[], None] = lambda: None,
) -> list[PurgedRealm]:
    """A realm that fails is reported and stays PURGING; the others continue."""
    done = []
    for realm in realms:
        before_each()
        try:
            done.append(finish_purge(store, realm, belongings))
        except HeadwaterError as error:
            done.append(PurgedRealm(realm=realm.name, instance=realm.instance, listed=True, failure=str(error)))
    return done


def finish_purge(store: Store, realm: Realm, belongings: Sequence[ExternalResources]) -> PurgedRealm:
    """⚠ What the realm has elsewhere goes first: as long as its record says PURGING, the next run finds it."""
    for kind in belongings:
        kind.remove(realm.instance)
    _, counts = Realms(store).finish_purge(realm.name)
    return _purged(realm.name, realm.instance, counts, listed=True)


def remove_late_external_resources(store: Store, belongings: Sequence[ExternalResources]) -> list[str]:
    """Deletes what a publisher or job that was suspended during the purge has written again. Returns failures."""
    failures = []
    for realm in all_realms(store):
        try:
            for kind in belongings if realm.status is RealmStatus.PURGED else ():
                kind.remove(realm.instance)
        except HeadwaterError as error:
            failures.append(f"{realm.instance}: {error}")
    return failures


class SharedScans:
    """Without deletion by realm: the same scans delete and confirm all realms, and find instances that have no record."""

    def __init__(
        self, store: Store, belongings: Sequence[ExternalResources], before_each: Callable[[], None], scan: DeleteByScan
    ) -> None:
        self._store = store
        self._scan = scan
        self._realms = Realms(store)
        self._belongings = belongings
        self._before_each = before_each
        self._done: list[PurgedRealm] = []

    def purge(self, realms: Sequence[Realm], *, unlisted: bool) -> list[PurgedRealm]:
        """A realm that fails is reported and stays PURGING; the others continue."""
        records = {realm.instance: record for realm in realms if (record := self._begun(realm)) is not None}
        orphans: list[str] = []

        def also(found: set[str]) -> list[str]:
            orphans.extend(one for one in _not_listed(self._store, found) if self._can_go(one))
            return orphans

        try:
            counts = purge_by_scans(
                self._store.backend,
                records,
                also=also if unlisted else lambda _: (),
                before_batch=self._before_each,
                scan=self._scan,
            )
        except (MaintenanceStopped, MaintenanceSuperseded):
            raise
        except HeadwaterError as error:
            for instance in (*records, *orphans):
                self._failed(instance, error, listed=instance in records)
            return self._done
        for instance in (*records, *orphans):
            self._end(instance, records.get(instance), counts.get(instance))
        return self._done

    def _begun(self, realm: Realm) -> RealmRead | None:
        """⚠ What the realm has outside the store is deleted first: the realm's rows say where that is."""
        self._before_each()
        try:
            for kind in self._belongings:
                kind.remove(realm.instance)
            return self._realms.begin_purge(realm.name)
        except HeadwaterError as error:
            self._failed(realm.instance, error, listed=True)
            return None

    def _can_go(self, instance: str) -> bool:
        try:
            for kind in self._belongings:
                kind.remove(instance)
        except HeadwaterError as error:
            self._failed(instance, error, listed=False)
            return False
        return True

    def _end(self, instance: str, record: RealmRead | None, counts: PurgeCounts | None) -> None:
        try:
            if counts is None:
                raise rows_left(instance)
            if record is not None:
                self._realms.end_purge(record)
            self._done.append(_purged(realm_name_of(instance), instance, counts, listed=record is not None))
        except HeadwaterError as error:
            self._failed(instance, error, listed=record is not None)

    def _failed(self, instance: str, error: HeadwaterError, *, listed: bool) -> None:
        name = realm_name_of(instance)
        self._done.append(PurgedRealm(realm=name, instance=instance, listed=listed, failure=str(error)))


def unlisted_instances(store: Store) -> list[str]:
    """Instances that have rows but no record, neither by name nor as another creation of that name."""
    return _not_listed(store, _instances(store.backend))


def _not_listed(store: Store, found: set[str]) -> list[str]:
    """⚠ The list is read after the scan that found them."""
    listed = {realm.instance for realm in all_realms(store)}
    return [instance for instance in sorted(found) if instance not in listed and _INSTANCE.fullmatch(instance)]


def purge_unlisted(
    store: Store, *, belongings: Sequence[ExternalResources] = (), before_each: Callable[[], None] = lambda: None
) -> list[PurgedRealm]:
    done = []
    copy = store.backend.data_copy()  # ⚠ read before the list: in another copy of the data the list may name the instance
    for instance in unlisted_instances(store):
        before_each()
        name = realm_name_of(instance)
        try:
            for kind in belongings:
                kind.remove(instance)
            done.append(_purged(name, instance, purge_rows(store.backend, instance, of=copy), listed=False))
        except HeadwaterError as error:
            done.append(PurgedRealm(realm=name, instance=instance, listed=False, failure=str(error)))
    return done


def _instances(backend: Backend) -> set[str]:
    return {row.realm for table in TABLES_IN_ORDER for split in backend.splits(table, 1) for row in backend.scan(split)}


def _purged(name: str, instance: str, counts: PurgeCounts, *, listed: bool) -> PurgedRealm:
    return PurgedRealm(realm=name, instance=instance, listed=listed, rounds=counts.rounds, deleted=counts.deleted)
