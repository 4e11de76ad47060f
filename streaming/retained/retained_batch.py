"""Computes what of a batch of Changes is new to a retained set: a row for each object added or released.

⚠ Only entries that follow the set's last one by their ids are new. All others belong to the history that the set knows already,
or to another one: `present_history` asks the store which. Anything that is still inconsistent is a gap, and the set is seeded
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sql

from headwater.persistence.backend import Backend
from headwater.schemas.errors import ChainBroken, RetainedIncomplete
from headwater.streaming.reachability.segments import NEVER, BaseAt, Bounds, SegmentPosition
from headwater.streaming.retained.present_history import pointers_of_lost_entries, present_entries
from headwater.streaming.retained.retained_seed import ROW_DDL
from headwater.streaming.retained.retained_store import RetainedState
from headwater.streaming.retained.set_increment import OPENING
from headwater.streaming.retained.step_files import count_rows
from headwater.streaming.sources.linked_batches import LINK_COLUMNS, PointerBatch, pointer_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMNS = (*LINK_COLUMNS, "kind", "objects_added", "objects_released", "base")
"""The columns of a Change that a retained set needs."""


class NewEntries(NamedTuple):
    """What a batch adds to a set: for each pointer one unbroken chain after what the set knows."""

    changes: DataFrame
    positions: dict[str, SegmentPosition]
    """Positions of the pointers that move."""
    bounds: list[Bounds]


def new_entries(batch: DataFrame, state: RetainedState, backend: Backend, *, is_from_store: bool = False) -> NewEntries | None:
    """None if nothing is new. `RetainedIncomplete` if something is missing or the set belongs to another history. ⚠ Entries
    that were not read from the store itself may follow the set and still be lost, on a pointer that has not moved since the
    backup. So the last entry of each pointer must be in the store."""
    found = pointer_batches(batch)
    for one in found:
        if one.realm != state.realm:
            raise ChainBroken(f"the set is of realm {state.realm}, the batch of {one.realm}.")
    if any(not one.is_linked or one.first <= _known(state, one.pointer)[0] for one in found):
        batch = _behind(batch, {one.pointer: _known(state, one.pointer)[0] for one in found})
        found = pointer_batches(batch)
    following = {one.pointer: one.last_id for one in found if one.follows(*_known(state, one.pointer))}
    absent = set() if is_from_store else pointers_of_lost_entries(backend, state.realm, following)
    lost = {one.pointer: one.last for one in found if one.pointer not in following or one.pointer in absent}
    if lost:
        batch, resolved = _present(batch, state, lost, backend)
        found = [*(one for one in found if one.pointer not in lost), *pointer_batches(resolved)]
    positions = reached(state, found)
    return NewEntries(batch, positions, _opened(batch)) if positions else None


def reached(state: RetainedState, found: Iterable[PointerBatch]) -> dict[str, SegmentPosition]:
    """Positions of the pointers that move with this batch. Pure."""
    moved: dict[str, SegmentPosition] = {}
    for one in found:
        seq, entry_id = _known(state, one.pointer)
        if not one.follows(seq, entry_id):
            raise RetainedIncomplete(
                f"{one.pointer}: entries {one.first} to {one.last} do not follow entry {seq}, with which the set ends.",
                field="retained",
                remedy="Seed the set again: `headwater maintain retained --reseed`.",
                pointer=one.pointer,
            )
        first = state.positions[one.pointer].first if one.pointer in state.positions else 1
        moved[one.pointer] = SegmentPosition(first, one.last, one.last_id)
    return moved


def _known(state: RetainedState, pointer: str) -> tuple[int, str]:
    known = state.positions.get(pointer)
    return (0, "") if known is None else (known.seq, known.entry_id)


def _behind(batch: DataFrame, known: dict[str, int]) -> DataFrame:
    """Drops what the set knows, and repeated entries."""
    positions = batch.sparkSession.createDataFrame(list(known.items()), "pointer string, known bigint")
    joined = batch.join(sql.broadcast(positions), "pointer").where(sql.col("seq") > sql.col("known"))
    return joined.drop("known").dropDuplicates(["pointer", "seq", "entry_id"])


def _present(batch: DataFrame, state: RetainedState, lost: dict[str, int], backend: Backend) -> tuple[DataFrame, DataFrame]:
    """The batch, of whose lost pointers only the entries remain that the store's log holds now; and those entries alone."""
    spark = batch.sparkSession
    entries = list(present_entries(backend, state.realm, lost, state.positions))
    allowed = spark.createDataFrame(entries, "pointer string, seq bigint, entry_id string")
    resolved = batch.join(sql.broadcast(allowed), ["pointer", "seq", "entry_id"], "left_semi")
    pointers = spark.createDataFrame([(pointer,) for pointer in lost], "pointer string")
    return batch.join(sql.broadcast(pointers), "pointer", "left_anti").unionByName(resolved), resolved


def _opened(batch: DataFrame) -> list[Bounds]:
    """Where segments begin: a pointer's first entry always begins one."""
    opens = sql.col("kind").isin(*OPENING) | (sql.col("seq") == 1)
    found = batch.where(opens).select("pointer", "seq", "base.pointer", "base.seq").collect()
    return [
        Bounds(pointer, seq, None if base is None else BaseAt(base, base_seq)) for pointer, seq, base, base_seq in sorted(found)
    ]


def segments_of(state: RetainedState, opened: list[Bounds], moved: dict[str, SegmentPosition]) -> list[tuple[str, int, int]]:
    """(pointer, start, end) of the segments that may contain entries of this batch."""
    starts: dict[str, list[int]] = {pointer: [] for pointer in moved}
    for pointer, start in state.current_segment().items():
        if pointer in starts:
            starts[pointer].append(start)
    for bound in opened:
        starts[bound.pointer].append(bound.start)
    found = []
    for pointer, of_pointer in starts.items():
        ordered = sorted(of_pointer)
        found += [(pointer, start, end) for start, end in zip(ordered, [*ordered[1:], NEVER], strict=True)]
    return found


def object_rows(new: DataFrame, segments: list[tuple[str, int, int]]) -> DataFrame:
    """One row for each object that was added or released, with the segment that it belongs to."""
    names = new.sparkSession.createDataFrame(segments, "segment_pointer string, segment bigint, segment_end bigint")
    here = (
        (sql.col("pointer") == sql.col("segment_pointer"))
        & (sql.col("seq") >= sql.col("segment"))
        & (sql.col("seq") < sql.col("segment_end"))
    )
    placed = new.join(sql.broadcast(names), here)
    sides = [
        placed.select("pointer", "segment", sql.explode(column).alias("object"), "seq", sql.lit(added).alias("added"))
        for column, added in (("objects_added", True), ("objects_released", False))
    ]
    return sides[0].unionByName(sides[1]).selectExpr(*(part.split()[0] for part in ROW_DDL.split(", ")))


def write_parquet(rows: DataFrame, folder: str) -> int:
    rows.write.mode("overwrite").parquet(f"file://{folder}")
    return count_rows(Path(folder))
