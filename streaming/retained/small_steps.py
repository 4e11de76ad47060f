"""Merges small steps of a retained set: a stream writes one every few seconds, and a reader would have to open each of them.

Only rows are combined. Every position at which a step has ended is kept: a sweep looks up each of them in the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.schemas.errors import RetainedMoved
from headwater.streaming.retained.retained_seed import ROW_ARROW
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.step_files import ROWS, StepMeta

MERGE_STEPS = 64
SMALL_ROWS = 20_000
"""Steps with more rows are left as they are."""


def merge_small_steps(store: RetainedStore, state: RetainedState) -> RetainedState:
    """Returns the same set. Steps are checked only once every so many; a set that another process moves meanwhile is left as it
    is."""
    if state.number - store.looked_at < MERGE_STEPS:
        return state
    store.looked_at = state.number
    tail: list[tuple[Path, StepMeta]] = []
    for path, meta in reversed(store.live()):
        if meta.fresh or meta.rows > SMALL_ROWS:
            break
        tail.append((path, meta))
    if len(tail) < MERGE_STEPS // 2:
        return state
    tail.reverse()
    folders = [path / ROWS for path, meta in tail if meta.rows]
    with contextlib.suppress(RetainedMoved):
        return store.merge([meta for _, meta in tail], lambda folder: _write_merged(folders, folder))
    return state


def _write_merged(folders: Sequence[Path], folder: str) -> int:
    rows = [pq.read_table(one, schema=ROW_ARROW) for one in folders]
    Path(folder).mkdir(parents=True)
    merged = pa.concat_tables(rows) if rows else ROW_ARROW.empty_table()
    pq.write_table(merged, f"{folder}/part-00000.parquet")
    return int(merged.num_rows)
