"""Computes the ids that must stay from a retained set and floors, by two joins on executors, and compacts the set.

The rule is that of `segments`: a segment that reaches above its floor is the first link of a chain, its bases are the others.
An object of a link counts unless a link before it has released it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from headwater.schemas.errors import RetainedCorrupt, SparkFailed
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.id_set import IdCollector
from headwater.streaming.reachability.retained_identifiers import LogIdentifier
from headwater.streaming.reachability.segments import NEVER, Bounds, SegmentLink, SegmentMap
from headwater.streaming.retained.retained_batch import write_parquet
from headwater.streaming.retained.retained_seed import ROW_DDL
from headwater.streaming.retained.retained_sources import Retained
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.set_compaction import Smaller, compacting, digests_of, put_in_place
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.spark_ids import FrameIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINK_DDL = "chain bigint, depth int, pointer string, segment bigint, at bigint"


def intervals(spark: SparkSession, state: RetainedState) -> DataFrame:
    """One row for each object of a segment: when it was added (null if it is from the base) and released (null if it is
    live)."""
    if not state.folders:
        rows = spark.createDataFrame([], ROW_DDL)
    else:
        # ⚠ Overrides the session's setting: with a missing or damaged file, objects would not be kept.
        strictly = spark.read.schema(ROW_DDL).option("ignoreMissingFiles", False).option("ignoreCorruptFiles", False)
        rows = strictly.parquet(*(f"file://{folder}" for folder in state.folders))
    added = sql.when(sql.col("added"), sql.col("seq"))
    released = sql.when(~sql.col("added"), sql.col("seq"))
    grouped = rows.groupBy("pointer", "segment", "object").agg(
        sql.min(added).alias("added"), sql.max(released).alias("released"), sql.max(added).alias("added_last")
    )
    # No writer adds an object again that it released. If one did, it would be kept too long, not lost.
    is_live = sql.col("added_last") > sql.col("released")
    return grouped.withColumn("released", sql.when(is_live, None).otherwise(sql.col("released"))).drop("added_last")


def chained(spark: SparkSession, state: RetainedState, floors: Mapping[str, int], *, follow_base: bool = True) -> DataFrame:
    """Every object that must stay, with the chain and the depth that keep it; the same id may occur in many chains."""
    links = spark.createDataFrame(_link_rows(state, floors, follow_base=follow_base), LINK_DDL)
    found = intervals(spark, state).join(sql.broadcast(links), ["pointer", "segment"])
    alive = sql.coalesce("released", sql.lit(NEVER)) > sql.col("at")
    there = (sql.col("depth") == 0) | (sql.col("added") <= sql.col("at"))
    objects = found.where(sql.col("added").isNotNull() & alive & there)
    hidden = found.where(sql.col("added").isNull() & (sql.col("released") <= sql.col("at")))
    hidden = hidden.select(
        sql.col("chain").alias("hidden_chain"), sql.col("object").alias("hidden_object"), sql.col("depth").alias("hidden_depth")
    )
    is_hidden = (
        (sql.col("chain") == sql.col("hidden_chain"))
        & (sql.col("object") == sql.col("hidden_object"))
        & (sql.col("hidden_depth") < sql.col("depth"))
    )
    return objects.join(hidden, is_hidden, "left_anti")


def retained_ids(
    spark: SparkSession, state: RetainedState, floors: Mapping[str, int], *, follow_base: bool = True
) -> DataFrame:
    """The same id may occur more than once."""
    return chained(spark, state, floors, follow_base=follow_base).select(sql.col("object").alias("id"))


class StreamedSource:
    """What a sweep asks of the set that the stream has made. Changes show only what belongs to logs: ⚠ what plug-ins identify
    beyond that is not decided here, and is swept only by a sweep that walks."""

    def __init__(self, spark: SparkSession, folder: str, *, follow_base: bool = True) -> None:
        self._spark = spark
        self._folder = folder
        self._follow_base = follow_base

    def retained(self, fenced: FencedRealm) -> Retained:
        state = RetainedStore(self._folder, fenced.realm).load()
        if state is None:
            return Retained(ids=IdCollector().finish(), positions={})  # complete only if there is nothing to keep
        floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
        ids = FrameIds(retained_ids(self._spark, state, floors, follow_base=self._follow_base))
        return Retained(ids=ids, positions=state.positions, passed=state.passed, covers=LogIdentifier.covers)


# ── smaller ─────────────────────────────────────────────────────────────────────────────────────────────────


def compact(
    spark: SparkSession,
    store: RetainedStore,
    floors: Mapping[str, int],
    lock: AbstractContextManager[object] | None = None,
) -> RetainedState:
    """⚠ Only for the floors of a sweep that proved completeness up to every head; `Histories.compact` does the same in
    memory. The lock is held at the beginning and at the end: Spark's jobs between them take long, and the set may grow
    meanwhile."""
    lock = lock or nullcontext()
    with compacting(store) as folder:
        with lock:
            state = store.load()
        if state is None:
            raise RetainedCorrupt(f"there is no retained set of {store.realm!r}.", field="retained")
        try:
            with typed_errors():
                smaller = _smaller(spark, state, floors, folder)
        except SparkFailed as failure:
            store.steps_after(state.number)  # its files may be gone because it was begun again
            raise failure
        files = digests_of(smaller)
        with lock:
            return put_in_place(store, smaller, files)


def _smaller(spark: SparkSession, state: RetainedState, floors: Mapping[str, int], folder: Path) -> Smaller:
    chains = list(SegmentMap(state.bounds).retained_chains(floors))
    bases = {(bound.pointer, bound.start): bound.base for bound in state.bounds}
    bounds: list[Bounds] = []
    heads: list[tuple[str, int, int, bool]] = []
    for chain in chains:
        key, base = chain[0].key, bases[chain[0].key]
        flatten = base is not None and base.seq < floors.get(base.pointer, NEVER)
        bounds.append(Bounds(key.pointer, key.start, None if flatten else base))
        heads.append((key.pointer, key.start, chain[0].at, flatten))
    positions = {
        pointer: at._replace(first=max(at.first, floors[pointer]))
        for pointer, at in state.positions.items()
        if pointer in floors
    }
    rows = write_parquet(_compacted_rows(spark, state, floors, chains, heads), str(folder))
    return Smaller(before=state, positions=positions, bounds=bounds, folder=folder, rows=rows)


def _compacted_rows(
    spark: SparkSession,
    state: RetainedState,
    floors: Mapping[str, int],
    chains: list[list[SegmentLink]],
    heads: list[tuple[str, int, int, bool]],
) -> DataFrame:
    all_heads = spark.createDataFrame(
        [(number, *head) for number, head in enumerate(heads)],
        "chain bigint, pointer string, segment bigint, lo bigint, flatten boolean",
    )
    known = intervals(spark, state).join(sql.broadcast(all_heads), ["pointer", "segment"])
    own = known.where(sql.col("added").isNotNull() & (sql.coalesce("released", sql.lit(NEVER)) > sql.col("lo")))
    of_base = known.where(sql.col("added").isNull())
    taken_over = (
        chained(spark, state, floors)
        .where("depth > 0")
        .select("chain", "object")
        .distinct()
        .join(sql.broadcast(all_heads.where("flatten")), "chain")
        .join(of_base.select("chain", "object", "released"), ["chain", "object"], "left")
        .withColumn("added", sql.col("lo"))
    )
    columns = ["pointer", "segment", "object", "added", "released"]
    whole = own.select(*columns).unionByName(taken_over.select(*columns))
    whole = whole.unionByName(of_base.where("not flatten").select(*columns))
    sides = [
        whole.where(sql.col(name).isNotNull()).select(
            "pointer", "segment", "object", sql.col(name).alias("seq"), sql.lit(name == "added").alias("added")
        )
        for name in ("added", "released")
    ]
    return sides[0].unionByName(sides[1])


def _link_rows(
    state: RetainedState, floors: Mapping[str, int], *, follow_base: bool = True
) -> list[tuple[int, int, str, int, int]]:
    chains = SegmentMap(state.bounds).retained_chains(floors, follow_base=follow_base)
    return [
        (number, link.depth, link.key.pointer, link.key.start, link.at) for number, chain in enumerate(chains) for link in chain
    ]
