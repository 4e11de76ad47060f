"""Takes the statistics of one table and snapshot, and publishes them by one commit."""

from __future__ import annotations

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.records import Expect, Expectation, PutRecord, Record, Unchanged, head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta, commit_records
from headwater.producer.statistics.chunk_merge import merged_chunks, sorted_runs
from headwater.producer.statistics.statistics_checks import SnapshotSchema, check_column, check_file, check_table
from headwater.producer.statistics.statistics_chunks import (
    CHUNKS_MAX,
    ChunkRef,
    ChunkStore,
    ChunkWriter,
    RowKind,
    StatisticsRow,
    checked_row,
    digest_of,
)
from headwater.producer.statistics.statistics_journal import JournaledWrite
from headwater.producer.statistics.statistics_records import (
    STATISTICS,
    SetKey,
    StatisticsSet,
    StoredSet,
    chunks_of,
    named_ids,
    owner_of,
    set_of,
)
from headwater.schemas.errors import Conflict, InvalidInput, RecordChanged, RecordExists, RecordNotFound
from headwater.schemas.statistics import ColumnStatistics, FileStatistics, PutMode, TableStatistics

RUN_BYTES = 4_000_000
"""Rows of a write that are held in memory and sorted together."""
PUBLISH_TRIES_MAX = 10


class PutSummary(msgspec.Struct, frozen=True, kw_only=True):
    set: StatisticsSet
    outcome: CommitOutcome
    columns_sent: int
    files_sent: int


class StatisticsWrite:
    """Takes rows of one table and snapshot as they arrive, in any order, and publishes all of them or none.

    Memory stays bounded: rows are written as sorted runs of chunks, and merged at the end.
    """

    def __init__(self, kernel: RealmKernel, pointer: str, key: SetKey, schema: SnapshotSchema, mode: PutMode) -> None:
        self._kernel, self._pointer, self._key, self._schema, self._mode = kernel, pointer, key, schema, mode
        self._chunks = ChunkStore(kernel)
        self._journal = JournaledWrite(kernel, pointer, key.path)
        self._writer = ChunkWriter(self._chunks, self._journal.next_id)
        self._table: TableStatistics | None = None
        self._runs = {kind: _Runs(self._writer) for kind in RowKind}

    def put_table(self, table: TableStatistics) -> None:
        if self._table is not None:
            raise InvalidInput("the totals come twice.", field="table", remedy="Send them once.")
        self._table = check_table(table)

    def add_column(self, column: ColumnStatistics) -> None:
        runs = self._runs[RowKind.COLUMNS]
        field = f"columns[{runs.added}]"
        check_column(column, self._schema, field)
        runs.add(checked_row(column.column_id.to_bytes(4, "big"), msgspec.msgpack.encode(column), field))

    def add_file(self, file: FileStatistics) -> None:
        runs = self._runs[RowKind.FILES]
        field = f"files[{runs.added}]"
        check_file(file, self._schema, field)
        runs.add(checked_row(file.path.encode(), msgspec.msgpack.encode(file), field))

    def publish(self, meta: WriteMeta) -> PutSummary:
        """One commit. Equal statistics that are there already add no entry."""
        sent = {kind: runs.sorted(self._chunks) for kind, runs in self._runs.items()}
        for _ in range(PUBLISH_TRIES_MAX):
            self._journal.require_time()
            record = head_records(self._kernel, self._pointer).get(self._key.path)
            try:
                return self._publish(record, sent, meta)
            except (RecordChanged, RecordExists):  # another write of the same set: merged with what it left
                continue
        raise Conflict("other writers kept changing the same statistics.", field="snapshot", remedy="Send them again.")

    def _publish(self, record: Record | None, sent: dict[RowKind, list[ChunkRef]], meta: WriteMeta) -> PutSummary:
        before = None if record is None else set_of(record).stored
        merged = {kind: self._merged(before, kind, refs) for kind, refs in sent.items()}
        stored = self._stored(before, merged)
        if before is not None and record is not None and before.says_the_same(stored):
            put = PutRecord(type=STATISTICS, key=self._key.path, value=record.value, expect=Unchanged(record.object_id))
        else:
            named = frozenset() if before is None else named_ids(self._chunks, self._pointer, before)
            self._journal.supersede(sorted(named - {ref.id for refs in merged.values() for ref in refs}))
            stored = self._with_manifests(stored, merged)
            expect: Expectation = Expect.ABSENT if record is None else Unchanged(record.object_id)
            put = PutRecord(type=STATISTICS, key=self._key.path, value=msgspec.to_builtins(stored), expect=expect)
        message = f"Publish statistics of snapshot {self._key.snapshot_id}"
        outcome = commit_records(self._kernel, self._pointer, [put], meta, message, history=self._journal.history)
        published = head_records(self._kernel, self._pointer).get(self._key.path)
        if published is None:
            raise RecordNotFound("the statistics were deleted right after they were published.", field="snapshot")
        return PutSummary(
            set=set_of(published),
            outcome=outcome,
            columns_sent=self._runs[RowKind.COLUMNS].added,
            files_sent=self._runs[RowKind.FILES].added,
        )

    def _merged(self, before: StoredSet | None, kind: RowKind, sent: list[ChunkRef]) -> list[ChunkRef]:
        there = [] if before is None else list(chunks_of(self._chunks, self._pointer, before, kind))
        if not sent or (there and self._mode is not PutMode.REPLACE):
            new = (row for ref in sent for row in self._chunks.rows(ref))
            old_wins = self._mode is PutMode.IF_ABSENT
            sent = list(merged_chunks(there, new, self._chunks.rows, self._writer, old_wins=old_wins)) if sent else there
        if len(sent) > CHUNKS_MAX:
            raise InvalidInput(
                f"the set would have {len(sent)} chunks.", field="rows", remedy=f"A set has at most {CHUNKS_MAX}: send less."
            )
        return sent

    def _stored(self, before: StoredSet | None, merged: dict[RowKind, list[ChunkRef]]) -> StoredSet:
        table = None if before is None else before.table
        if self._table is not None and not (table is not None and self._mode is PutMode.IF_ABSENT):
            table = self._table
        columns, files = merged[RowKind.COLUMNS], merged[RowKind.FILES]
        return StoredSet(
            content_id=self._key.content_id,
            snapshot_id=self._key.snapshot_id,
            table=table,
            columns=sum(ref.rows for ref in columns),
            files=sum(ref.rows for ref in files),
            size_bytes=sum(ref.size_bytes for ref in (*columns, *files)),
            digest=digest_of((*columns, *files)).hex(),
        )

    def _with_manifests(self, stored: StoredSet, merged: dict[RowKind, list[ChunkRef]]) -> StoredSet:
        owner = owner_of(self._pointer, self._key)
        columns, files = (list(self._writer.manifests(owner, kind, merged[kind])) for kind in RowKind)
        return msgspec.structs.replace(stored, column_manifests=columns, file_manifests=files)


class _Runs:
    """Rows of one kind, in sorted runs."""

    def __init__(self, writer: ChunkWriter) -> None:
        self._writer = writer
        self._held: list[StatisticsRow] = []
        self._held_bytes = 0
        self._written: list[list[ChunkRef]] = []
        self.added = 0

    def add(self, row: StatisticsRow) -> None:
        self._held.append(row)
        self._held_bytes += len(row.key) + len(row.value)
        self.added += 1
        if self._held_bytes >= RUN_BYTES:
            self._flush()

    def sorted(self, chunks: ChunkStore) -> list[ChunkRef]:
        self._flush()
        self._written = [sorted_runs(self._written, chunks.rows, self._writer)]
        return self._written[0]

    def _flush(self) -> None:
        held = sorted(self._held, key=lambda row: row.key)
        self._held, self._held_bytes = [], 0
        self._written.append(list(self._writer.chunks(held)))
