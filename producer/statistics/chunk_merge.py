"""Merges sorted rows into sorted chunks. Chunks that no new row falls into are kept as they are."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

from headwater.producer.statistics.statistics_chunks import CHUNK_BYTES, ChunkRef, ChunkWriter, StatisticsRow

ReadChunk = Callable[[ChunkRef], Sequence[StatisticsRow]]


def merged_chunks(
    there: Sequence[ChunkRef], new: Iterable[StatisticsRow], read: ReadChunk, writer: ChunkWriter, *, old_wins: bool
) -> Iterator[ChunkRef]:
    """`there` and `new` are in order of key, and no key comes twice in either."""
    rows = _Peeked(new)
    for position, ref in enumerate(there):
        is_open = (
            position == len(there) - 1 and ref.size_bytes < CHUNK_BYTES // 2
        )  # a short last chunk gets the rows that follow it
        fitting = rows.take() if is_open else rows.take_up_to(ref.last)
        first = next(fitting, None)
        if first is None:
            yield ref
        else:
            yield from writer.chunks(_merged(read(ref), chain([first], fitting), old_wins))
    yield from writer.chunks(rows.take())


def sorted_runs(runs: Sequence[Sequence[ChunkRef]], read: ReadChunk, writer: ChunkWriter) -> list[ChunkRef]:
    """Runs that were sorted each by itself, as one. Those that follow each other are taken as they are."""
    found = sorted((run for run in runs if run), key=lambda run: run[0].first)
    if all(one[-1].last < other[0].first for one, other in pairwise(found)):
        return [ref for run in found for ref in run]
    rows = heapq.merge(*(_rows(run, read) for run in found), key=lambda row: row.key)
    return list(writer.chunks(rows))


def _rows(run: Sequence[ChunkRef], read: ReadChunk) -> Iterator[StatisticsRow]:
    for ref in run:
        yield from read(ref)


def _merged(old: Sequence[StatisticsRow], new: Iterable[StatisticsRow], old_wins: bool) -> Iterator[StatisticsRow]:
    """Where both have a key, one of the rows counts."""
    held: StatisticsRow | None = None
    for row, _ in heapq.merge(((row, 0) for row in old), ((row, 1) for row in new), key=lambda pair: (pair[0].key, pair[1])):
        if held is not None and held.key != row.key:
            yield held
        elif held is not None and old_wins:
            continue
        held = row
    if held is not None:
        yield held


class _Peeked:
    """Returns rows up to a key, and keeps the next one."""

    def __init__(self, rows: Iterable[StatisticsRow]) -> None:
        self._rows = iter(rows)
        self._next = next(self._rows, None)

    def take_up_to(self, last: bytes) -> Iterator[StatisticsRow]:
        while self._next is not None and self._next.key <= last:
            yield self._pop(self._next)

    def take(self) -> Iterator[StatisticsRow]:
        while self._next is not None:
            yield self._pop(self._next)

    def _pop(self, row: StatisticsRow) -> StatisticsRow:
        self._next = next(self._rows, None)
        return row
