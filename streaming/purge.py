"""Realms that are PURGING, instances that no list names any more, and dropped catalogs enter; none of their rows is left.

A realm becomes PURGED only when a scan has found nothing. Rows of an instance are orphans if the list, read after the scan that
found them, does not name it: a realm is listed before its first row is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.log_entry import ENTRY
from headwater.persistence.realm_purge import TABLES_IN_ORDER, PurgeCounts, purge_rows
from headwater.persistence.realm_records import Realm
from headwater.persistence.realms import Realms
from headwater.persistence.records import DeleteRecord, RecordsRequest, Unchanged, head_records
from headwater.persistence.rows import PointerRow, Table
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.catalog_records import COUNTER_KEY, GONE, LIVE, Catalog, catalog_of, gone_key
from headwater.producer.catalogs import Catalogs
from headwater.producer.commit_meta import CommitMeta
from headwater.producer.pointer_names import CATALOGS, catalog_prefix
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import HeadwaterError, RecordChanged, RecordNotFound
from headwater.streaming.realm_sets import all_realms

_INSTANCE = re.compile(r"[A-Za-z0-9._-]+#[0-9a-f]{16}")
_CATALOG_POINTER = re.compile(r"cat/(\d+)/")
NAMES_PER_PAGE = 1_000
MICROS = 1_000_000
CATALOG_AGE_SECONDS = 30 * 86_400


class PurgedRealm(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    instance: str
    listed: bool
    rounds: int = 0
    deleted: int | None = None
    """Rows; None where the database deletes in bulk and does not say."""
    failure: str = ""


class PurgedCatalog(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    catalog_id: int
    name: str
    pointers: int
    waiting: str = ""
    """Why it is not gone yet."""


# ── realms ──────────────────────────────────────────────────────────────────────────────────────────────────


def purge_realms(store: Store, realms: Sequence[Realm], *, before_each: Callable[[], None] = lambda: None) -> list[PurgedRealm]:
    """One that fails is reported; the others go on."""
    done = []
    for realm in realms:
        before_each()
        try:
            _, counts = Realms(store).finish_purge(realm.name)
            done.append(_purged(realm.name, realm.instance, counts, listed=True))
        except HeadwaterError as error:
            done.append(PurgedRealm(realm=realm.name, instance=realm.instance, listed=True, failure=str(error)))
    return done


def unlisted_instances(store: Store) -> list[str]:
    """Instances that have rows and no record, neither by name nor by another creation of that name."""
    found = sorted(_instances(store.backend))
    listed = {realm.instance for realm in all_realms(store)}
    return [instance for instance in found if instance not in listed and _INSTANCE.fullmatch(instance)]


def purge_unlisted(store: Store, *, before_each: Callable[[], None] = lambda: None) -> list[PurgedRealm]:
    done = []
    for instance in unlisted_instances(store):
        before_each()
        name = instance.partition("#")[0]
        try:
            done.append(_purged(name, instance, purge_rows(store.backend, instance), listed=False))
        except HeadwaterError as error:
            done.append(PurgedRealm(realm=name, instance=instance, listed=False, failure=str(error)))
    return done


def _instances(backend: Backend) -> set[str]:
    return {row.realm for table in TABLES_IN_ORDER for split in backend.splits(table, 1) for row in backend.scan(split)}


def _purged(name: str, instance: str, counts: PurgeCounts, *, listed: bool) -> PurgedRealm:
    return PurgedRealm(realm=name, instance=instance, listed=listed, rounds=counts.rounds, deleted=counts.deleted)


# ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────────


class CatalogPurge:
    """Dropped catalogs of one realm: their pointers and names go; what these reached is garbage for the next sweep."""

    def __init__(self, kernel: RealmKernel, *, age_seconds: int = CATALOG_AGE_SECONDS, author: str = "maintenance") -> None:
        self._kernel = kernel
        self._backend = kernel.store.backend
        self._age_seconds = age_seconds
        self._author = author

    def run(self, *, dry_run: bool = False) -> list[PurgedCatalog]:
        now = self._kernel.store.clock.now_micros()
        done = [self._one(catalog, now, dry_run) for catalog in self._dropped()]
        return done + [self._orphan(catalog_id, now, dry_run) for catalog_id in self._unrecorded()]

    def _one(self, catalog: Catalog, now: int, dry_run: bool) -> PurgedCatalog:
        rows = list(self._rows(catalog.id))
        if not dry_run and self._any_lives(rows):
            Catalogs(self._kernel).finish_drop(catalog, meta=CommitMeta(self._author, ""))
            rows = list(self._rows(catalog.id))
        waiting = self._waits(rows, now)
        if not waiting and not dry_run:
            waiting = self._remove(catalog.id, rows) or self._unrecord(catalog)
        return PurgedCatalog(
            realm=self._kernel.realm_name, catalog_id=catalog.id, name=catalog.name, pointers=len(rows), waiting=waiting
        )

    def _orphan(self, catalog_id: int, now: int, dry_run: bool) -> PurgedCatalog:
        """What a writer that slept through the purge has left. It waits as long as a dropped catalog does."""
        rows = list(self._rows(catalog_id))
        waiting = self._is_young(rows, now)
        if not waiting and not dry_run:
            waiting = self._remove(catalog_id, rows)
        return PurgedCatalog(realm=self._kernel.realm_name, catalog_id=catalog_id, name="", pointers=len(rows), waiting=waiting)

    def _dropped(self) -> Iterator[Catalog]:
        yield from (catalog_of(record) for record in head_records(self._kernel, CATALOGS).all(GONE))

    def _unrecorded(self) -> list[int]:
        """⚠ Names first, records after: a catalog is recorded before its first pointer is named. Only ids that the counter has
        given out can have been a catalog's."""
        named = {int(match.group(1)) for name in self._names("cat/") if (match := _CATALOG_POINTER.match(name))}
        records = head_records(self._kernel, CATALOGS)
        known = {catalog_of(record).id for under in (LIVE, GONE) for record in records.all(under)}
        counter = records.get(COUNTER_KEY)
        given_out = 0 if counter is None else int(counter.value["next"]) - 1
        return sorted(catalog_id for catalog_id in named - known if catalog_id <= given_out)

    def _any_lives(self, rows: Sequence[tuple[str, PointerRow]]) -> bool:
        return any(entry_kind is not Kind.DELETE for _, entry_kind in self._heads(rows))

    def _waits(self, rows: Sequence[tuple[str, PointerRow]], now: int) -> str:
        """The delete entries are history too, and are kept as long."""
        return self._is_young(rows, now) or ("a branch or tag still lives" if self._any_lives(rows) else "")

    def _is_young(self, rows: Sequence[tuple[str, PointerRow]], now: int) -> str:
        times = [*(time for time, _ in self._heads(rows)), *(row.created_at for _, row in rows)]
        recent = max(times, default=0) > now - self._age_seconds * MICROS
        return f"dropped less than {self._age_seconds} seconds ago" if recent else ""

    def _heads(self, rows: Sequence[tuple[str, PointerRow]]) -> list[tuple[int, Kind]]:
        ids = [object_id_of(row.head) for _, row in rows if row.head]
        return [(entry.time, entry.kind) for entry in self._kernel.objects.fetch_many(ENTRY, ids).values()]

    def _remove(self, catalog_id: int, rows: Sequence[tuple[str, PointerRow]]) -> str:
        for name, row in rows:
            if not self._backend.delete_pointer(self._kernel.realm, name, row.version):
                return f"{name} was moved meanwhile"
        prefix = catalog_prefix(catalog_id)
        for split in self._backend.splits(Table.NAMES, 1):
            found = [row for row in self._backend.scan(split, realm=self._kernel.realm) if row.key.startswith(prefix)]
            self._backend.delete_scanned(found)
        return "a pointer came back" if any(True for _ in self._rows(catalog_id)) else ""

    def _unrecord(self, catalog: Catalog) -> str:
        record = head_records(self._kernel, CATALOGS).get(gone_key(catalog.id))
        if record is None:
            return ""
        operation = DeleteRecord(key=record.key, expect=Unchanged(record.object_id))
        request = RecordsRequest(operations=[operation], author=self._author, message=f"Purge catalog {catalog.name}")
        try:
            self._kernel.committer.commit(CATALOGS, request)
        except (RecordChanged, RecordNotFound):
            return "its record was changed meanwhile"
        return ""

    def _rows(self, catalog_id: int) -> Iterator[tuple[str, PointerRow]]:
        for name in self._names(catalog_prefix(catalog_id)):
            row = self._backend.read_pointer(self._kernel.realm, name)
            if row is not None:
                yield name, row

    def _names(self, prefix: str) -> Iterator[str]:
        after = ""
        while names := self._backend.list_names(self._kernel.realm, prefix=prefix, after=after, limit=NAMES_PER_PAGE):
            yield from names
            after = names[-1]
