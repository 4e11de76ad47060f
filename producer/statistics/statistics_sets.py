"""Statistics of a catalog's tables, one set per table and snapshot, as records under the pointer `cat/N/stats`.

A set is published by one commit: its chunks are written before, under ids that are not read yet. The record, and so the Change,
holds the totals, counts and a digest, never the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.records import (
    PAGE_RECORDS_MAX,
    DeleteRecord,
    Record,
    Unchanged,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta, commit_records, expected_version, version_of
from headwater.producer.page_tokens import check_limit, make_token, read_token
from headwater.producer.pointer_names import statistics_pointer
from headwater.producer.statistics.statistics_checks import SnapshotSchema
from headwater.producer.statistics.statistics_chunks import ChunkStore, RowKind, StatisticsRow
from headwater.producer.statistics.statistics_journal import JournaledWrite, delete_superseded
from headwater.producer.statistics.statistics_records import SetKey, StatisticsSet, named_ids, owner_of, set_of
from headwater.producer.statistics.statistics_write import StatisticsWrite
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CursorExpired, InvalidInput, ObjectNotFound
from headwater.schemas.statistics import ColumnStatistics, FileStatistics, PutMode

PAGE_ROWS_MAX = 1_000

T = TypeVar("T")


class StatisticsPage(msgspec.Struct, Generic[T], frozen=True):
    rows: list[T]
    next_token: str | None


class _Position(msgspec.Struct, frozen=True, array_like=True):
    """⚠ Of a listing: it continues in the manifests that it began with, whatever is published meanwhile."""

    owner: str
    kind: RowKind
    manifests: list[str]
    after: bytes


class StatisticsSets:
    """One per catalog. Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel, catalog_id: int) -> None:
        self._kernel = kernel
        self._chunks = ChunkStore(kernel)
        self.pointer = statistics_pointer(catalog_id)

    def find(self, key: SetKey) -> StatisticsSet | None:
        record = self._record(key)
        return None if record is None else set_of(record)

    def as_of_now(self) -> Callable[[SetKey], StatisticsSet | None]:
        """`find` for many sets, all in the newest state of this moment."""
        records = head_records(self._kernel, self.pointer)

        def find(key: SetKey) -> StatisticsSet | None:
            record = records.get(key.path)
            return None if record is None else set_of(record)

        return find

    def all(self) -> Iterator[StatisticsSet]:
        return (set_of(record) for record in head_records(self._kernel, self.pointer).all())

    def page(self, *, after: KeyPath | None = None, limit: int = PAGE_RECORDS_MAX) -> list[StatisticsSet]:
        return [set_of(one) for one in head_records(self._kernel, self.pointer).page(after=after, limit=limit)]

    def columns(self, key: SetKey, *, token: str | None = None, limit: int = 100) -> StatisticsPage[ColumnStatistics]:
        return self._rows(key, RowKind.COLUMNS, ColumnStatistics, token, limit)

    def files(self, key: SetKey, *, token: str | None = None, limit: int = 100) -> StatisticsPage[FileStatistics]:
        return self._rows(key, RowKind.FILES, FileStatistics, token, limit)

    def delete(self, key: SetKey, *, meta: WriteMeta, version: str | None = None) -> CommitOutcome:
        record = self._record(key)
        expect = expected_version(version)
        if record is not None and version in (None, version_of(record)):
            expect = Unchanged(record.object_id)
            named = named_ids(self._chunks, self.pointer, set_of(record).stored)
            JournaledWrite(self._kernel, self.pointer, key.path).supersede(sorted(named))
        delete = DeleteRecord(key=key.path, expect=expect)
        message = f"Delete statistics of snapshot {key.snapshot_id}"
        return commit_records(self._kernel, self.pointer, [delete], meta, message)

    def write(self, key: SetKey, schema: SnapshotSchema, mode: PutMode) -> StatisticsWrite:
        return StatisticsWrite(self._kernel, self.pointer, key, schema, mode)

    def _record(self, key: SetKey) -> Record | None:
        return head_records(self._kernel, self.pointer).get(key.path)

    def _rows(self, key: SetKey, kind: RowKind, type: type[T], token: str | None, limit: int) -> StatisticsPage[T]:
        check_limit(limit, PAGE_ROWS_MAX)
        position = self._position(key, kind, token)
        found: list[StatisticsRow] = []
        try:
            for row in self._rows_after(position):
                if len(found) == limit:
                    position = msgspec.structs.replace(position, after=found[-1].key)
                    return StatisticsPage([_decoded(one, type) for one in found], make_token(position))
                found.append(row)
        except ObjectNotFound:
            raise CursorExpired(
                "the statistics were replaced meanwhile.", field="page_token", remedy="Begin with the first page."
            ) from None
        return StatisticsPage([_decoded(one, type) for one in found], None)

    def _position(self, key: SetKey, kind: RowKind, token: str | None) -> _Position:
        owner = owner_of(self.pointer, key)
        if token is None:
            there = self.find(key)
            manifests = [] if there is None else there.stored.manifests(kind)
            return _Position(owner, kind, manifests, b"")
        position = read_token(token, _Position)
        if position.owner != owner or position.kind is not kind:
            raise InvalidInput(
                "the token is of another listing.", field="page_token", remedy="Pass the token of the previous page, unchanged."
            )
        return position

    def _rows_after(self, position: _Position) -> Iterator[StatisticsRow]:
        for id in position.manifests:
            for ref in self._chunks.manifest(id, position.owner).chunks:
                if ref.last > position.after or not position.after:
                    rows = self._chunks.rows(ref)
                    yield from (row for row in rows if row.key > position.after or not position.after)


def clean_statistics(kernel: RealmKernel) -> tuple[int, bool]:
    """Delete chunks that no record names any more, in all catalogs of the realm: how many, and whether more are due."""
    chunks = ChunkStore(kernel)

    def named(pointer: str, key: KeyPath) -> frozenset[str]:
        record = head_records(kernel, pointer).get(key)
        return frozenset() if record is None else named_ids(chunks, pointer, set_of(record).stored)

    return delete_superseded(kernel, named)


def _decoded(row: StatisticsRow, type: type[T]) -> T:
    return msgspec.msgpack.decode(row.value, type=type)
