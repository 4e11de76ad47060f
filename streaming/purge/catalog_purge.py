"""Removes the pointers and names of dropped catalogs; what they reached is garbage for the next sweep.

⚠ Readers learn of a purge: each pointer ends with a delete entry, stays until every pin has passed that entry or is too old,
and leaves a row that says where its log ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.realm_fence import read_realm_fence
from headwater.persistence.log.log_entry import ENTRY
from headwater.persistence.log.purged_pointers import record_purge
from headwater.persistence.records.directory_checkpoints import DirectoryCheckpoints
from headwater.persistence.records.records import DeleteRecord, RecordsRequest, Unchanged, head_records
from headwater.persistence.rows import PointerRow, Table
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import COUNTER_KEY, GONE, LIVE, Catalog, catalog_of, gone_key
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import CATALOGS, catalog_prefix
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import MaintenanceRefused, RecordChanged, RecordNotFound
from headwater.streaming.expire.pins import history_pins

_CATALOG_POINTER = re.compile(r"cat/(\d+)/")
CATALOG_AGE_SECONDS = 30 * 86_400


class PurgedCatalog(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    catalog_id: int
    name: str
    pointers: int
    waiting: str = ""
    """Why it is not gone yet."""


class CatalogPurge:
    """Purges the dropped catalogs of one realm."""

    def __init__(
        self,
        kernel: RealmKernel,
        *,
        age_seconds: int = CATALOG_AGE_SECONDS,
        author: str = "maintenance",
        before_each: Callable[[], None] = lambda: None,
        before_catalog: Callable[[str, Catalog], None] = lambda _realm, _catalog: None,
    ) -> None:
        """⚠ `before_each` is called before each row is deleted, and raises if another run has taken over. `before_catalog`
        removes what a catalog has outside the store; if it raises, the catalog stays."""
        self._kernel = kernel
        self._backend = kernel.store.backend
        self._age_seconds = age_seconds
        self._author = author
        self._before_each = before_each
        self._before_catalog = before_catalog

    def run(self, *, dry_run: bool = False) -> list[PurgedCatalog]:
        now = self._kernel.store.clock.now_micros()
        if read_realm_fence(self._backend, self._kernel.realm).is_closed:  # a record can only be taken from an open one
            return [self._left_alone(catalog) for catalog in self._dropped()]
        done = [self._one(catalog, now, dry_run) for catalog in self._dropped()]
        return done + [self._orphan(catalog_id, now, dry_run) for catalog_id in self._unrecorded()]

    def _left_alone(self, catalog: Catalog) -> PurgedCatalog:
        rows = list(self._rows(catalog.id))
        realm = self._kernel.realm_name
        return PurgedCatalog(
            realm=realm, catalog_id=catalog.id, name=catalog.name, pointers=len(rows), waiting="the realm is closed"
        )

    def _one(self, catalog: Catalog, now: int, dry_run: bool) -> PurgedCatalog:
        rows = list(self._rows(catalog.id))
        if not dry_run and self._any_lives(rows):
            Catalogs(self._kernel).finish_drop(catalog, meta=CommitMeta(self._author, ""))
            rows = list(self._rows(catalog.id))
        waiting = self._waits(rows, now, 0 if catalog.purge_requested else self._age_seconds)
        if not waiting and not dry_run:
            waiting = self._without_belongings(catalog)
            rows = list(self._rows(catalog.id))  # they have been fenced meanwhile
            waiting = waiting or self._remove(catalog.id, rows) or self._unrecord(catalog)
        return PurgedCatalog(
            realm=self._kernel.realm_name, catalog_id=catalog.id, name=catalog.name, pointers=len(rows), waiting=waiting
        )

    def _without_belongings(self, catalog: Catalog) -> str:
        try:
            self._before_catalog(self._kernel.realm, catalog)
        except MaintenanceRefused as refused:
            return str(refused)
        return ""

    def _orphan(self, catalog_id: int, now: int, dry_run: bool) -> PurgedCatalog:
        """Removes what a writer that was suspended during the purge has left. It waits as long as a dropped catalog does."""
        rows = list(self._rows(catalog_id))
        waiting = self._is_young(rows, now, self._age_seconds) or self._pinned(rows, now)
        if not waiting and not dry_run:
            waiting = self._remove(catalog_id, rows)
        return PurgedCatalog(realm=self._kernel.realm_name, catalog_id=catalog_id, name="", pointers=len(rows), waiting=waiting)

    def _dropped(self) -> Iterator[Catalog]:
        yield from (catalog_of(record) for record in head_records(self._kernel, CATALOGS).all(GONE))

    def _unrecorded(self) -> list[int]:
        """⚠ Names first, records after: a catalog is recorded before its first pointer is named. Only ids that the counter has
        issued can belong to a catalog."""
        names = self._backend.all_names(self._kernel.realm, prefix="cat/")
        named = {int(match.group(1)) for name in names if (match := _CATALOG_POINTER.match(name))}
        records = head_records(self._kernel, CATALOGS)
        known = {catalog_of(record).id for under in (LIVE, GONE) for record in records.all(under)}
        counter = records.get(COUNTER_KEY)
        given_out = 0 if counter is None else int(counter.value["next"]) - 1
        return sorted(catalog_id for catalog_id in named - known if catalog_id <= given_out)

    def _any_lives(self, rows: Sequence[tuple[str, PointerRow]]) -> bool:
        return any(entry_kind is not Kind.DELETE for _, entry_kind in self._heads(rows))

    def _waits(self, rows: Sequence[tuple[str, PointerRow]], now: int, age_seconds: int) -> str:
        """The delete entries are history too, and are kept as long, unless the catalog was dropped in order to be purged."""
        lives = "one of its pointers still lives" if self._any_lives(rows) else ""
        return self._is_young(rows, now, age_seconds) or lives or self._pinned(rows, now)

    def _pinned(self, rows: Sequence[tuple[str, PointerRow]], now: int) -> str:
        """⚠ A reader that holds history back has not read the delete entries yet, and would otherwise never learn of them."""
        here = dict(rows)
        for pin in history_pins(self._kernel, now, here):
            if pin.until > now and pin.pointer in here and pin.seq < here[pin.pointer].seq:
                return f"{pin.holder} has read {pin.pointer} up to entry {pin.seq} of {here[pin.pointer].seq}"
        return ""

    def _is_young(self, rows: Sequence[tuple[str, PointerRow]], now: int, age_seconds: int) -> str:
        times = [*(time for time, _ in self._heads(rows)), *(row.created_at for _, row in rows)]
        recent = max(times, default=0) > now - age_seconds * MICROS
        return f"dropped less than {age_seconds} seconds ago" if recent else ""

    def _heads(self, rows: Sequence[tuple[str, PointerRow]]) -> list[tuple[int, Kind]]:
        ids = [object_id_of(row.head) for _, row in rows if row.head]
        return [(entry.time, entry.kind) for entry in self._kernel.objects.fetch_many(ENTRY, ids).values()]

    def _remove(self, catalog_id: int, rows: Sequence[tuple[str, PointerRow]]) -> str:
        for name, row in rows:
            self._before_each()
            record_purge(self._backend, self._kernel.realm, name, row, self._kernel.store.clock)
            if not self._backend.delete_pointer(self._kernel.realm, name, row):
                return f"{name} was moved meanwhile"
        self._before_each()
        DirectoryCheckpoints(self._kernel, catalog_id).delete()
        prefix = catalog_prefix(catalog_id)
        copy = self._backend.data_copy()
        self._before_each()
        for split in self._backend.splits(Table.NAMES, 1):
            found = [row for row in self._backend.scan(split, realm=self._kernel.realm) if row.key.startswith(prefix)]
            self._backend.delete_scanned(found, of=copy)
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
        return self._backend.all_pointers(self._kernel.realm, prefix=catalog_prefix(catalog_id))
