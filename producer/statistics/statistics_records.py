"""The record of a set of statistics: totals, counts, a digest, and the manifests that list its chunks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.records.records import Record, RecordType
from headwater.producer.access.writing import version_of
from headwater.producer.statistics.statistics_chunks import ChunkRef, ChunkStore, RowKind
from headwater.schemas.change import KeyPath
from headwater.schemas.statistics import TableStatistics

STATISTICS = RecordType("STATISTICS", 1)


class SetKey(msgspec.Struct, frozen=True):
    content_id: str
    snapshot_id: int

    @property
    def path(self) -> KeyPath:
        return (self.content_id, str(self.snapshot_id))


class StoredSet(msgspec.Struct, frozen=True, kw_only=True):
    """The record's value, and so what a Change shows."""

    content_id: str
    snapshot_id: int
    table: TableStatistics | None = None
    columns: int = 0
    files: int = 0
    size_bytes: int = 0
    digest: str = ""
    """Of all rows of columns and files."""
    column_manifests: list[str] = []
    file_manifests: list[str] = []

    @property
    def key(self) -> SetKey:
        return SetKey(self.content_id, self.snapshot_id)

    def manifests(self, kind: RowKind) -> list[str]:
        return self.column_manifests if kind is RowKind.COLUMNS else self.file_manifests

    def says_the_same(self, other: StoredSet) -> bool:
        """Whatever the chunks are called."""
        return msgspec.structs.replace(self, column_manifests=[], file_manifests=[]) == msgspec.structs.replace(
            other, column_manifests=[], file_manifests=[]
        )


class StatisticsSet(msgspec.Struct, frozen=True, kw_only=True):
    stored: StoredSet
    version: str


def set_of(record: Record) -> StatisticsSet:
    return StatisticsSet(stored=msgspec.convert(record.value, StoredSet), version=version_of(record))


def owner_of(pointer: str, key: SetKey) -> str:
    """What manifests carry."""
    return f"{pointer} {key.content_id} {key.snapshot_id}"


def chunks_of(chunks: ChunkStore, pointer: str, stored: StoredSet, kind: RowKind) -> Iterator[ChunkRef]:
    for id in stored.manifests(kind):
        yield from chunks.manifest(id, owner_of(pointer, stored.key)).chunks


def named_ids(chunks: ChunkStore, pointer: str, stored: StoredSet) -> frozenset[str]:
    """Of all manifests and chunks of a set."""
    named = {*stored.column_manifests, *stored.file_manifests}
    return frozenset(named.union(ref.id for kind in RowKind for ref in chunks_of(chunks, pointer, stored, kind)))
