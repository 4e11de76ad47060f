"""A batch of Changes enters; what it holds of each pointer leaves, and a row for each object that was added or released.

All of it on executors: the driver learns of each pointer the first and last entry, and where segments begin.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as sql

from headwater.schemas.errors import ChainBroken, RetainedIncomplete
from headwater.streaming.reachability.segments import NEVER, BaseAt, Bounds, SegmentPosition
from headwater.streaming.retained.retained_seed import ROW_DDL
from headwater.streaming.retained.retained_store import RetainedState, count_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMNS = ("realm_instance", "pointer", "seq", "entry_id", "kind", "objects_added", "objects_released", "base")
"""Of a Change, all that a retained set needs."""
OPENING = ("create", "assign", "delete")


class PointerShare(msgspec.Struct, frozen=True):
    """What a batch holds of one pointer."""

    pointer: str
    first: int
    last: int
    rows: int
    """Different entries."""
    last_id: str
    again: bool = False
    """Whether one of them came twice."""
    opened: tuple[Bounds, ...] = ()
    known_id: str = ""
    """Of the entry that the set ends with, where the batch has it too."""


def reached(state: RetainedState, shares: list[PointerShare]) -> dict[str, SegmentPosition]:
    """Positions of the pointers that move with this batch. Pure."""
    moved: dict[str, SegmentPosition] = {}
    for share in shares:
        known = state.positions.get(share.pointer)
        if share.rows != share.last - share.first + 1:
            raise RetainedIncomplete(f"{share.pointer}: of entries {share.first} to {share.last} only {share.rows} came.")
        if share.first > (0 if known is None else known.seq) + 1:
            raise RetainedIncomplete(
                f"{share.pointer}: the set ends at {0 if known is None else known.seq}, the batch begins at {share.first}."
            )
        if known is not None and share.known_id not in ("", known.entry_id):  # e.g. a store that was put back, and went on
            raise RetainedIncomplete(f"{share.pointer}: another entry {known.seq} stands in the log than in the set.")
        if known is None or share.last > known.seq:
            moved[share.pointer] = SegmentPosition(1 if known is None else known.first, share.last, share.last_id)
    return moved


def pointer_shares(batch: DataFrame, state: RetainedState) -> list[PointerShare]:
    """What the driver learns of a batch: by two jobs whose sums are of plain numbers. (Asked for in one, with ids and segments,
    Spark would serialize a state for each entry.)"""
    entries = batch.groupBy("realm_instance", "pointer", "seq").agg(sql.count(sql.lit(1)).alias("times"))
    grouped = entries.groupBy("realm_instance", "pointer").agg(
        sql.min("seq"), sql.max("seq"), sql.count(sql.lit(1)), sql.sum("times")
    )
    counted = grouped.collect()
    for instance, *_ in counted:
        if instance != state.realm:
            raise ChainBroken(f"the set is of realm {state.realm}, the batch of {instance}.")
    lasts = {pointer: last for _, pointer, _, last, _, _ in counted}
    known = {pointer: known_seq(state, pointer) for pointer in lasts}
    ids, opened = _named_entries(batch, lasts, known)
    return [
        PointerShare(
            pointer,
            first,
            last,
            distinct,
            ids[pointer, last],
            rows != distinct,
            tuple(opened.get(pointer, ())),
            ids.get((pointer, known[pointer]), ""),
        )
        for _, pointer, first, last, distinct, rows in counted
    ]


def _named_entries(
    batch: DataFrame, lasts: dict[str, int], known: dict[str, int]
) -> tuple[dict[tuple[str, int], str], dict[str, set[Bounds]]]:
    """The ids of each pointer's last entry and of the one that the set ends with, and where segments begin: the first entry
    of a pointer begins one in any case."""
    if not lasts:
        return {}, {}
    rows = [(pointer, last, known[pointer]) for pointer, last in lasts.items()]
    positions = batch.sparkSession.createDataFrame(rows, "pointer string, last bigint, known bigint")
    opens = sql.col("kind").isin(*OPENING) | (sql.col("seq") == 1)
    at_an_end = (sql.col("seq") == sql.col("last")) | (sql.col("seq") == sql.col("known"))
    named = batch.join(sql.broadcast(positions), "pointer").where(opens | at_an_end)
    ids: dict[tuple[str, int], str] = {}
    opened: dict[str, set[Bounds]] = {}
    for pointer, seq, entry_id, is_opening, base, base_seq in named.select(
        "pointer", "seq", "entry_id", opens, "base.pointer", "base.seq"
    ).collect():
        if is_opening:
            opened.setdefault(pointer, set()).add(Bounds(pointer, seq, None if base is None else BaseAt(base, base_seq)))
        if ids.setdefault((pointer, seq), entry_id) != entry_id:
            raise ChainBroken(f"{pointer}: two different entries {seq} came in one batch.")
    return ids, opened


def unknown(batch: DataFrame, known: dict[str, int]) -> DataFrame:
    """Without what the set knows, and each entry once."""
    positions = batch.sparkSession.createDataFrame(list(known.items()), "pointer string, known bigint")
    joined = batch.join(sql.broadcast(positions), "pointer").where(sql.col("seq") > sql.col("known"))
    return joined.drop("known").dropDuplicates(["pointer", "seq"])


def known_seq(state: RetainedState, pointer: str) -> int:
    known = state.positions.get(pointer)
    return 0 if known is None else known.seq


def segments_of(state: RetainedState, opened: list[Bounds], moved: dict[str, SegmentPosition]) -> list[tuple[str, int, int]]:
    """(pointer, start, end) of the segments that entries of this batch can be in."""
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
