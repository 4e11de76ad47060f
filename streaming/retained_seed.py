"""A realm's pointers enter; the rows that a retained set begins with leave: states at the floors, walked, and what followed.

⚠ A segment whose base lies below its pointer's floor cannot be followed any more: its first state is walked too, and the
segment stands on its own. So a set that was seeded never asks for what is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.persistence.backend import Backend
from headwater.persistence.log_entry import Logged, objects_added, objects_released
from headwater.schemas.change import COMMITTING_KINDS
from headwater.schemas.errors import ObjectNotFound
from headwater.streaming.fenced import pointer_rows
from headwater.streaming.identifiers import ENTRIES_PER_PAGE, Span, WalkedRealm, reachable_ids
from headwater.streaming.retained_store import RetainedState, RetainedStore
from headwater.streaming.segments import BaseAt, Bounds, Position

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


def current_spans(backend: Backend, realm: str) -> dict[str, Span]:
    """Floors and heads of now, without a fence."""
    rows = pointer_rows(backend, realm)
    return {name: Span(floor=row.floor, head=row.head, seq=row.seq) for name, row in rows if row.head}


def seed(backend: Backend, store: RetainedStore, *, number: int = 0) -> RetainedState:
    """Again from the start if a floor rises and history is swept meanwhile."""
    for attempt in range(TRIES_MAX):
        try:
            return _seed_once(backend, store, number)
        except ObjectNotFound:
            if attempt == TRIES_MAX - 1:
                raise
    raise AssertionError("unreachable")


def _seed_once(backend: Backend, store: RetainedStore, number: int) -> RetainedState:
    spans = current_spans(backend, store.realm)
    bounds: list[Bounds] = []

    def write(folder: str) -> int:
        return write_rows(folder, seed_rows(WalkedRealm(backend, store.realm, spans), bounds))

    positions = {pointer: Position(span.floor, span.seq, span.head.hex()) for pointer, span in spans.items()}
    before = RetainedState(realm=store.realm, number=max(number, store.next_number()))
    # The segments are known when the rows are written, and are read after that.
    return store.append(before, positions, bounds, write, fresh=True)


def seed_rows(walked: WalkedRealm, bounds: list[Bounds]) -> Iterator[SetRow]:
    """`bounds` is filled with the segments on the way."""
    floors = {pointer: span.floor for pointer, span in walked.spans.items()}
    for pointer, span in walked.spans.items():
        newest = walked.walk.load(span.head)
        segment = span.floor
        for first in range(span.floor, span.seq + 1, ENTRIES_PER_PAGE):
            for logged in walked.walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, span.seq)):
                segment = _segment_of(logged, segment, span.floor, floors, bounds)
                whole = logged.entry.seq == span.floor or bounds[-1] == Bounds(pointer, logged.entry.seq)
                yield from _rows_of(walked, logged, segment, whole_state=whole)


def _segment_of(logged: Logged, segment: int, floor: int, floors: Mapping[str, int], bounds: list[Bounds]) -> int:
    entry = logged.entry
    if entry.seq == floor:
        bounds.append(Bounds(entry.pointer, floor))
        return floor
    if entry.kind in COMMITTING_KINDS:
        return segment
    followed = entry.base is not None and entry.base.seq >= floors.get(entry.base.pointer, 2**63)
    base = BaseAt(entry.base.pointer, entry.base.seq) if entry.base is not None and followed else None
    bounds.append(Bounds(entry.pointer, entry.seq, base))
    return entry.seq


def _rows_of(walked: WalkedRealm, logged: Logged, segment: int, *, whole_state: bool) -> Iterator[SetRow]:
    entry = logged.entry
    if whole_state:
        for object_id in reachable_ids(walked, logged):
            yield SetRow(entry.pointer, segment, object_id, entry.seq, True)
        return
    for object_id in objects_added(entry, logged.object_id):
        yield SetRow(entry.pointer, segment, object_id, entry.seq, True)
    for object_id in objects_released(entry):
        yield SetRow(entry.pointer, segment, object_id, entry.seq, False)


def write_rows(folder: str, rows: Iterator[SetRow]) -> int:
    Path(folder).mkdir(parents=True, exist_ok=True)
    count = 0
    with pq.ParquetWriter(f"{folder}/part-00000.parquet", ROW_ARROW) as writer:
        while group := list(islice(rows, ROWS_PER_GROUP)):
            columns = [pa.array(column, field.type) for column, field in zip(zip(*group, strict=True), ROW_ARROW, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=ROW_ARROW))
            count += len(group)
    return count
