"""A retained set's files as the model of segments in memory, which thousands of histories have proved."""

from __future__ import annotations

import pyarrow.parquet as pq

from headwater.streaming.reachability.segments import Histories, Segment
from headwater.streaming.retained.retained_store import RetainedState


def in_memory(state: RetainedState) -> Histories:
    histories = Histories()
    histories.positions = dict(state.positions)
    for bound in sorted(state.bounds, key=lambda it: it.start):
        histories.segments.setdefault(bound.pointer, []).append(Segment(start=bound.start, base=bound.base))
    rows = [row for folder in state.folders for row in pq.read_table(folder).to_pylist()]
    for row in sorted(rows, key=lambda it: (it["seq"], not it["added"])):
        segment = next(it for it in histories.segments[row["pointer"]] if it.start == row["segment"])
        (segment.add if row["added"] else segment.release)(row["object"], row["seq"])
    return histories
