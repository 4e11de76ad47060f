"""What can be done with the statistics of a table's snapshot: for HTTP, gRPC and plans."""

from __future__ import annotations

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.statistics.statistics_records import SetKey, StatisticsSet
from headwater.producer.statistics.statistics_sets import StatisticsPage, StatisticsSets
from headwater.producer.statistics.statistics_write import PutSummary, StatisticsWrite
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, SnapshotNotFound
from headwater.schemas.http.statistics_json import StatisticsBody, StatisticsInfo
from headwater.schemas.statistics import ColumnStatistics, FileStatistics, PutMode
from headwater.service.auth.obligation_guard import ObligationGuard
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.plans.plan_obligations import require_enforced_at
from headwater.service.statistics.snapshot_lookup import CURRENT, FoundSnapshot, find_snapshot, snapshot_id_of, table_on

PUBLISHED, SUMMARY = "published", "snapshot-summary"


class SnapshotRef(msgspec.Struct, frozen=True):
    """A snapshot as callers name it."""

    table: KeyPath
    snapshot: str
    """An id, or `current`."""
    branch: str | None = None
    """The default branch without."""


class StatisticsOperations:
    """One per caller and catalog."""

    def __init__(self, kernel: RealmKernel, lakes: Lakes, catalog: Catalog, guard: ObligationGuard) -> None:
        self._kernel, self._lakes, self._catalog, self._guard = kernel, lakes, catalog, guard
        self.sets = StatisticsSets(kernel, catalog.id)

    def get(self, ref: SnapshotRef) -> StatisticsInfo:
        found = self._find(ref)
        there = self.sets.find(found.key)
        return summary_info(found) if there is None else statistics_info(there, found)

    def columns(self, ref: SnapshotRef, *, token: str | None, limit: int) -> StatisticsPage[ColumnStatistics]:
        return self.sets.columns(self._enforced(ref).key, token=token, limit=limit)

    def files(self, ref: SnapshotRef, *, token: str | None, limit: int) -> StatisticsPage[FileStatistics]:
        return self.sets.files(self._enforced(ref).key, token=token, limit=limit)

    def write(self, ref: SnapshotRef, mode: PutMode) -> StatisticsWrite:
        found = self._find(ref)
        return self.sets.write(found.key, found.schema, mode)

    def put(self, ref: SnapshotRef, body: StatisticsBody, meta: WriteMeta) -> PutSummary:
        if body.table is None and not body.columns and not body.files:
            raise InvalidInput("there is nothing to publish.", field="table", remedy="Send totals, columns or files.")
        write = self.write(ref, body.mode)
        if body.table is not None:
            write.put_table(body.table)
        for column in body.columns:
            write.add_column(column)
        for file in body.files:
            write.add_file(file)
        return write.publish(meta)

    def delete(self, ref: SnapshotRef, *, version: str | None, meta: WriteMeta) -> CommitOutcome:
        """Also of a snapshot that the table does not list any more."""
        return self.sets.delete(self._key(ref), version=version, meta=meta)

    def _find(self, ref: SnapshotRef) -> FoundSnapshot:
        return find_snapshot(self._kernel, self._lakes, self._catalog, ref.table, ref.snapshot, ref.branch)

    def _enforced(self, ref: SnapshotRef) -> FoundSnapshot:
        """⚠ Bounds, histograms and sketches hold values, and rows of files name them: they go past masks and filters."""
        found = self._find(ref)
        branch = self._lakes.branch_of(self._kernel, self._catalog, ref.branch or "")
        require_enforced_at(self._guard, self._guard.now(), branch, self._lakes, ref.table, found.metadata)
        return found

    def _key(self, ref: SnapshotRef) -> SetKey:
        if ref.snapshot == CURRENT:
            return self._find(ref).key
        return SetKey(table_on(self._kernel, self._catalog, ref.table, ref.branch).content_id, snapshot_id_of(ref.snapshot))


def statistics_info(there: StatisticsSet, found: FoundSnapshot | None = None) -> StatisticsInfo:
    """Totals that were not published come from the summary of the snapshot."""
    stored = there.stored
    published = stored.table is not None or found is None
    return StatisticsInfo(
        table_id=stored.content_id,
        snapshot_id=stored.snapshot_id,
        source=PUBLISHED if published else SUMMARY,
        table=stored.table if found is None or stored.table is not None else found.totals,
        columns=stored.columns,
        files=stored.files,
        size_bytes=stored.size_bytes,
        digest=stored.digest,
        version=there.version,
    )


def summary_info(found: FoundSnapshot) -> StatisticsInfo:
    if found.totals is None:
        raise SnapshotNotFound(
            f"snapshot {found.key.snapshot_id} has no statistics, and its summary has no totals.",
            field="snapshot",
            remedy="Publish statistics first.",
        )
    return StatisticsInfo(table_id=found.key.content_id, snapshot_id=found.key.snapshot_id, source=SUMMARY, table=found.totals)
