"""Object rows: written in batches and read in bulk, each within one partition.

Ids are Snowflakes (millisecond, node, sequence), so the objects of one commit batch were numbered by one node within a few
milliseconds. A shard holds the ids that differ in their last 4 bits only: 16 at most, of one node and one millisecond. So
the 200 rows of a lane's batch are some 20 requests instead of 200 (measured: 4 to 6 times the rows/s of one request per row),
while no partition grows, and even ids of one burst, or counted from 1, spread evenly over the ring for parallel scans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cassandra.query import BatchStatement, BatchType

from headwater.persistence.backend import ObjectKey
from headwater.persistence.backends.cassandra.calls import Call, Calls
from headwater.persistence.backends.cassandra.cassandra_errors import RequestKind
from headwater.persistence.rows import ObjectRow

SHARD_BITS = 4
"""Part of the schema: another number would look for objects where they are not."""
BATCH_ROWS_MAX = 64
BATCH_BYTES_MAX = 256_000
"""A row may be larger than this, and is then sent alone; far below the server's mutation limit (half a commit log segment)."""
FETCH_IDS_MAX = 32
FETCH_PAGE_ROWS = 40
"""One page of the largest rows is 14 MB; one page of ordinary rows answers a read of FETCH_IDS_MAX ids."""

_INSERT = """INSERT INTO {ks}.objects (realm, shard, id, part, type, parts, created_at, payload)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_FETCH = """SELECT id, type, created_at, payload, part, parts FROM {ks}.objects
            WHERE realm = ? AND shard = ? AND id IN ?"""
_REMOVE = "DELETE FROM {ks}.objects WHERE realm = ? AND shard = ? AND id = ? AND part = ?"


def shard_of(id: int) -> int:
    return id >> SHARD_BITS


def write_calls(calls: Calls, realm: str, rows: Sequence[ObjectRow]) -> list[Call]:
    """Idempotent requests that write the rows, each within one partition and under a bound of bytes."""
    by_shard: defaultdict[int, list[ObjectRow]] = defaultdict(list)
    # All rows of a batch have one timestamp, so of two with one key the value would decide and not the order.
    for row in {(row.id, row.part): row for row in rows}.values():
        by_shard[shard_of(row.id)].append(row)
    return [
        batch_call([_bind_insert(calls, realm, shard, row) for row in batch])
        for shard, shard_rows in by_shard.items()
        for batch in _batches(shard_rows)
    ]


def batch_call(statements: Sequence[Any]) -> Call:
    """One partition's statements as one request: unlogged, which within a partition is one atomic mutation."""
    if len(statements) == 1:
        return Call(statements[0], RequestKind.IDEMPOTENT_WRITE)
    batch = BatchStatement(BatchType.UNLOGGED)
    batch.add_all(statements, [None] * len(statements))
    return Call(batch, RequestKind.IDEMPOTENT_WRITE)


def fetch_objects(calls: Calls, realm: str, ids: Iterable[int]) -> dict[int, list[ObjectRow]]:
    reads = [calls.read(_FETCH, (realm, shard, some_ids), page_rows=FETCH_PAGE_ROWS) for shard, some_ids in by_shard(ids)]
    found: dict[int, list[ObjectRow]] = {}
    for read, first in zip(reads, calls.run_all(reads), strict=True):
        for page in calls.pages_after(read, first):
            for row in page.rows:
                found.setdefault(row[0], []).append(ObjectRow(*row))
    return found


def by_shard(ids: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
    """Distinct ids by partition, few enough at a time for one read."""
    shards: defaultdict[int, list[int]] = defaultdict(list)
    for id in dict.fromkeys(ids):
        shards[shard_of(id)].append(id)
    for shard, shard_ids in shards.items():
        for start in range(0, len(shard_ids), FETCH_IDS_MAX):
            yield shard, shard_ids[start : start + FETCH_IDS_MAX]


def remove_calls(calls: Calls, realm: str, keys: Sequence[ObjectKey]) -> list[Call]:
    """⚠ Newer than every insert of them that this process has sent: one that the driver sends again stays gone."""
    by_shard: defaultdict[int, list[Any]] = defaultdict(list)
    for id, part in keys:
        by_shard[shard_of(id)].append(calls.bind(_REMOVE, (realm, shard_of(id), id, part)))
    return [
        batch_call(statements[start : start + BATCH_ROWS_MAX])
        for statements in by_shard.values()
        for start in range(0, len(statements), BATCH_ROWS_MAX)
    ]


def _bind_insert(calls: Calls, realm: str, shard: int, row: ObjectRow) -> Any:
    return calls.bind(_INSERT, (realm, shard, row.id, row.part, row.type, row.parts, row.created_at, row.payload))


def _batches(rows: Sequence[ObjectRow]) -> Iterator[list[ObjectRow]]:
    batch: list[ObjectRow] = []
    size = 0
    for row in rows:
        if batch and (len(batch) >= BATCH_ROWS_MAX or size + len(row.payload) > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row.payload)
    if batch:
        yield batch
