"""Deletes statistics of snapshots that no branch or tag lists any more and no plan reads, a day after they were published.

⚠ In doubt they stay: of a table whose metadata cannot be read nothing is deleted. Statistics may be published before the commit
that adds their snapshot, which is what the day is for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from headwater.persistence.clock import MICROS
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.content_types import ICEBERG_TABLE
from headwater.producer.content.snapshots import Snapshots
from headwater.producer.plans.plan_rows import live_plans
from headwater.producer.statistics.statistics_records import SetKey, StatisticsSet
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, HeadwaterError, NotFound
from headwater.service.iceberg.operations.lakes import Lakes

KEPT_SECONDS = 24 * 3_600
AUTHOR = WriteMeta("headwater")


class UnlistedStatistics:
    """Catalog after catalog; one worker's place in that order."""

    def __init__(self, store: Store, lakes: Lakes, kept_seconds: int = KEPT_SECONDS) -> None:
        self._store, self._lakes = store, lakes
        self._kept_micros = kept_seconds * MICROS
        self._waiting: Iterator[tuple[RealmKernel, Catalog]] | None = None

    def slice(self) -> bool:
        """One catalog. Whether the round is complete: then the next slice starts over."""
        if self._waiting is None:
            self._waiting = self._catalogs()
        found = next(self._waiting, None)
        if found is None:
            self._waiting = None
            return True
        self.delete(*found)
        return False

    def delete(self, kernel: RealmKernel, catalog: Catalog) -> int:
        """How many sets went."""
        sets = StatisticsSets(kernel, catalog.id)
        old: dict[str, list[StatisticsSet]] = defaultdict(list)
        before = kernel.store.clock.now_micros() - self._kept_micros
        for one in sets.all():
            if id_time_micros(int(one.version, 16)) < before:
                old[one.stored.content_id].append(one)
        if not old:
            return 0
        listed = self._listed(kernel, catalog, old.keys())
        return sum(_deleted(sets, one) for id, of_table in old.items() for one in of_table if not _is_in(listed, id, one))

    def _listed(self, kernel: RealmKernel, catalog: Catalog, ids: Collection[str]) -> dict[str, set[int] | None]:
        """By table the snapshots that still count; None where that cannot be known."""
        listed: dict[str, set[int] | None] = {id: set() for id in ids}
        locations = dict[tuple[str, str], KeyPath]()
        references = Catalogs(kernel).references(catalog)
        for reference in references.all():
            at = references.resolve(reference.name, type=reference.type).logged
            for entry in Snapshots(kernel, catalog.id).entries(at, types=[ICEBERG_TABLE.name]):
                if entry.content_id in listed:
                    locations[entry.content_id, str(entry.value["metadata_location"])] = entry.key
        for (content_id, location), key in locations.items():
            known = listed[content_id]
            try:
                metadata = self._lakes.metadata_at(kernel, catalog, key, location).load(location)
                found = {one["snapshot-id"] for one in metadata.table["snapshots"]}
                listed[content_id] = None if known is None else known | found
            except HeadwaterError:
                listed[content_id] = None
        for plan in live_plans(kernel):
            for one in plan.inputs:
                known = listed.get(one.content_id)
                if known is not None and one.snapshot_id is not None:
                    known.add(one.snapshot_id)
        return listed

    def _catalogs(self) -> Iterator[tuple[RealmKernel, Catalog]]:
        for realm in Realms(self._store).all():
            if realm.status is RealmStatus.ACTIVE:
                kernel = self._store.kernel(realm.instance)
                yield from ((kernel, catalog) for catalog in Catalogs(kernel).list())


def _is_in(listed: dict[str, set[int] | None], content_id: str, one: StatisticsSet) -> bool:
    known = listed[content_id]
    return known is None or one.stored.snapshot_id in known


def _deleted(sets: StatisticsSets, one: StatisticsSet) -> int:
    """Not if it was published again meanwhile."""
    try:
        sets.delete(SetKey(one.stored.content_id, one.stored.snapshot_id), meta=AUTHOR, version=one.version)
    except (Conflict, NotFound):
        return 0
    return 1
