"""The first rows of a retained set: the states at the floors, found by walking, and what followed.

⚠ A segment whose base lies below its pointer's floor cannot be followed any more: its first state is walked too, and the
segment stands on its own. So a seeded set never needs what is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.persistence.backend import Backend
from headwater.persistence.log.log_entry import LogRecord, objects_added, objects_released
from headwater.schemas.change import COMMITTING_KINDS
from headwater.schemas.errors import ObjectNotFound
from headwater.streaming.reachability.retained_identifiers import ENTRIES_PER_PAGE, Span, WalkedRealm, WalkShare, reachable_ids
from headwater.streaming.reachability.segments import BaseAt, Bounds, SegmentPosition
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore

ROWS_PER_GROUP = 200_000
TRIES_MAX = 5
ROW_ARROW = pa.schema(
    [
        ("pointer", pa.string()),
        ("segment", pa.int64()),
        ("object", pa.int64()),
        ("seq", pa.int64()),
        ("added", pa.bool_()),
    ]
)
ROW_DDL = "pointer string, segment bigint, object bigint, seq bigint, added boolean"


class SetRow(NamedTuple):
    """An object was added to, or released from, a segment of a pointer at a seq."""

    pointer: str
    segment: int
    object: int
    seq: int
    added: bool


class SeedWriter(Protocol):
    def __call__(self, realm: str, spans: Mapping[str, Span], folder: str, on_bound: Callable[[Bounds], None], /) -> int:
        """Walk, write the rows, report the segments; returns the number of rows."""


def current_spans(backend: Backend, realm: str) -> dict[str, Span]:
    """Current floors and heads, without a fence."""
    rows = backend.all_pointers(realm)
    return {name: Span(floor=row.floor, head=row.head, seq=row.seq) for name, row in rows if row.head}


def seed(backend: Backend, store: RetainedStore, write: SeedWriter | None = None) -> RetainedState:
    """Starts over if a floor rises and history is swept meanwhile. `write` does the walking elsewhere."""
    writing = write or functools.partial(_walk_here, backend)
    for attempt in range(TRIES_MAX):
        try:
            return _seed_once(backend, store, writing)
        except ObjectNotFound:
            if attempt == TRIES_MAX - 1:
                raise
    raise AssertionError("unreachable")


def _seed_once(backend: Backend, store: RetainedStore, write: SeedWriter) -> RetainedState:
    spans = current_spans(backend, store.realm)
    bounds: list[Bounds] = []
    positions = {pointer: SegmentPosition(span.floor, span.seq, span.head.hex()) for pointer, span in spans.items()}
    before = RetainedState(realm=store.realm, number=store.next_number())
    # The segments are known once the rows are written, and are read after that.
    return store.append(before, positions, bounds, lambda folder: write(store.realm, spans, folder, bounds.append), fresh=True)


def _walk_here(backend: Backend, realm: str, spans: Mapping[str, Span], folder: str, on_bound: Callable[[Bounds], None]) -> int:
    shares = [WalkShare(0, pointer, span.floor, span.seq) for pointer, span in spans.items()]
    return write_rows(folder, seed_rows(WalkedRealm(backend, realm, spans), shares, on_bound))


def seed_rows(walked: WalkedRealm, shares: Iterable[WalkShare], on_bound: Callable[[Bounds], None]) -> Iterator[SetRow]:
    """Reports the segments on the way to `on_bound`. Shares are independent: each entry names its segment."""
    floors = {pointer: span.floor for pointer, span in walked.spans.items()}
    for share in shares:
        span = walked.spans[share.pointer]
        newest = walked.walk.load(span.head)
        for first in range(share.first, share.last + 1, ENTRIES_PER_PAGE):
            for logged in walked.walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, share.last)):
                opened = _opened_by(logged, span.floor, floors)
                if opened is not None:
                    on_bound(opened)
                segment = max(span.floor, logged.entry.segment_seq)
                yield from _rows_of(walked, logged, segment, whole_state=opened is not None and opened.base is None)


def _opened_by(logged: LogRecord, floor: int, floors: Mapping[str, int]) -> Bounds | None:
    entry = logged.entry
    if entry.seq == floor:
        return Bounds(entry.pointer, floor)
    if entry.kind in COMMITTING_KINDS:
        return None
    followed = entry.base is not None and entry.base.seq >= floors.get(entry.base.pointer, 2**63)
    return Bounds(
        entry.pointer, entry.seq, BaseAt(entry.base.pointer, entry.base.seq) if entry.base is not None and followed else None
    )


def _rows_of(walked: WalkedRealm, logged: LogRecord, segment: int, *, whole_state: bool) -> Iterator[SetRow]:
    entry = logged.entry
    if whole_state:
        for object_id in reachable_ids(walked, logged):
            yield SetRow(entry.pointer, segment, object_id, entry.seq, True)
        return
    for object_id in objects_added(entry, logged.object_id):
        yield SetRow(entry.pointer, segment, object_id, entry.seq, True)
    for object_id in objects_released(entry):
        yield SetRow(entry.pointer, segment, object_id, entry.seq, False)


def row_batches(rows: Iterator[SetRow], rows_each: int) -> Iterator[pa.RecordBatch]:
    while group := list(islice(rows, rows_each)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*group, strict=True), ROW_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=ROW_ARROW)


def write_rows(folder: str, rows: Iterator[SetRow]) -> int:
    Path(folder).mkdir(parents=True, exist_ok=True)
    count = 0
    with pq.ParquetWriter(f"{folder}/part-00000.parquet", ROW_ARROW) as writer:
        for batch in row_batches(rows, ROWS_PER_GROUP):
            writer.write_batch(batch)
            count += batch.num_rows
    return count
