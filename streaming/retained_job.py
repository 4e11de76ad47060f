"""Changes enter as a stream, from the log or from Kafka; a retained set leaves that grows by whole batches, each exactly once.

⚠ What decides is the set's own position in each pointer, kept beside its rows: a batch that comes again is recognized whole or
in part, one that does not begin where the set ends is refused. Ids and Changes stay on the executors; the driver sees positions
and where segments begin. A set that was overtaken, or that does not add up, is seeded again by walking.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as sql

from headwater.persistence.store import Store
from headwater.schemas.errors import ChainBroken, CursorGone, RetainedCorrupt, RetainedIncomplete, RetainedMoved
from headwater.streaming.catching_up import Report, run_until_caught_up, run_until_stopped, silent
from headwater.streaming.kafka_changes import KafkaOptions, stream_kafka_changes
from headwater.streaming.readers import RegisteredReaders
from headwater.streaming.retained_seed import ROW_DDL, current_spans, seed
from headwater.streaming.retained_store import RetainedState, RetainedStore, count_rows
from headwater.streaming.segments import NEVER, BaseAt, Bounds, Position
from headwater.streaming.sources import log_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READER = "retained"
OPENING = ("create", "assign", "delete")
SEEDS_MAX = 3


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


class RetainedJob:
    """Of one realm instance. `url` is what executors open the store with."""

    def __init__(self, spark: SparkSession, store: Store, url: str, retained: RetainedStore, *, pin: bool = True) -> None:
        self._spark = spark
        self._store = store
        self._url = url
        self._retained = retained
        self._readers = RegisteredReaders(store.backend, retained.realm, store.clock)
        self._pin = pin

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        *,
        changes_per_batch: int = 100_000,
        is_stopping: Callable[[], bool] | None = None,
        report: Report = silent,
        reseed: bool = False,
    ) -> RetainedState:
        """Catch up and stop; with `is_stopping`, go on until it says so."""
        for attempt in range(SEEDS_MAX):
            state = self._loaded(reseed=reseed and attempt == 0)
            if is_stopping is None and not lag(self._store, state):
                return state
            try:
                self._stream(state, changes_per_batch, is_stopping, report)
                return self.state()
            except RetainedMoved:  # compacted meanwhile: go on from there
                if attempt == SEEDS_MAX - 1:
                    raise
            except (CursorGone, RetainedIncomplete, RetainedCorrupt):  # overtaken, or not what the log goes on from
                if attempt == SEEDS_MAX - 1:
                    raise
                self._seed()
        raise AssertionError("unreachable")

    def state(self) -> RetainedState:
        state = self._retained.load()
        if state is None:
            raise RetainedIncomplete(
                f"there is no retained set of {self._retained.realm!r} yet.", remedy="Run `headwater maintain retained`."
            )
        return state

    def run_kafka(self, options: KafkaOptions, *, follow: bool = False, report: Report = silent) -> RetainedState:
        """The same from the realm's topic, up to what it holds now, or on and on. The store says nothing but where the set
        begins; what the topic does not reach back to is seeded by walking."""
        checkpoint = self._retained.folder / "kafka-checkpoint"
        for attempt in range(SEEDS_MAX):
            self._loaded(reseed=False)
            try:
                writer = self.stream(stream_kafka_changes(self._spark, options), f"file://{checkpoint}")
                writer = writer if follow else writer.trigger(availableNow=True)
                run_until_stopped(writer, is_stopping=lambda: False, report=report)
                return self.state()
            except (CursorGone, RetainedIncomplete, RetainedCorrupt):
                if attempt == SEEDS_MAX - 1:
                    raise
                self._seed()
        raise AssertionError("unreachable")

    def stream(self, changes: DataFrame, checkpoint: str) -> Any:
        """The writer of any stream with these columns, e.g. from Kafka, whose offsets only the checkpoint knows."""
        return changes.writeStream.foreachBatch(self._add_batch).option("checkpointLocation", checkpoint)

    def _loaded(self, *, reseed: bool) -> RetainedState:
        try:
            state = None if reseed else self._retained.load()
        except RetainedCorrupt:
            state = None
        return self._seed() if state is None else state

    def _seed(self) -> RetainedState:
        """⚠ The pin first, on all there is: what is read now must not be cut before the stream goes on behind it."""
        if self._pin:
            self._readers.save(READER, {})
        state = seed(self._store.backend, self._retained)
        self._save_pin(state)
        return state

    def _stream(
        self, state: RetainedState, changes_per_batch: int, is_stopping: Callable[[], bool] | None, report: Report
    ) -> None:
        positions = {name: log_offsets.Position(at.seq, at.entry_id) for name, at in state.positions.items()}
        options = {
            "store": self._url,
            "realm": state.realm,
            "changes_per_batch": str(changes_per_batch),
            "after": log_offsets.LogOffset(state.realm, positions).as_text(),
        }
        options |= {} if is_stopping else {"until": "start"}
        changes = self._spark.readStream.format("headwater").options(**options).load()
        # The set knows its position, so Spark's own record need not outlive the run.
        checkpoint = tempfile.mkdtemp(prefix="headwater-retained-")
        try:
            writer = changes.writeStream.foreachBatch(self._add_batch).option("checkpointLocation", f"file://{checkpoint}")
            if is_stopping:
                run_until_stopped(writer, is_stopping=is_stopping, report=report)
            else:
                run_until_caught_up(writer, report=report)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _add_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Two jobs: one says what came, one writes it."""
        state = self.state()
        slim = batch.select("realm_instance", "pointer", "seq", "entry_id", "kind", "base", "objects_added", "objects_released")
        slim = slim.persist()
        try:
            shares = _shares(slim, state.realm)
            positions = reached(state, shares)
            if not positions:
                return
            known = {share.pointer: _seq(state, share.pointer) for share in shares}
            again = any(share.again or share.first <= known[share.pointer] for share in shares)
            bounds = [bound for share in shares for bound in share.opened if bound.start > known[share.pointer]]
            rows = _rows(_behind(slim, known) if again else slim, _segments_of(state, bounds, positions))
            state = self._retained.append(state, positions, bounds, functools.partial(write_parquet, rows))
        finally:
            slim.unpersist()
        self._save_pin(state)

    def _save_pin(self, state: RetainedState) -> None:
        if self._pin:
            self._readers.save(READER, {pointer: at.seq for pointer, at in state.positions.items()})


def reached(state: RetainedState, shares: list[PointerShare]) -> dict[str, Position]:
    """Positions of the pointers that move with this batch. Pure."""
    moved: dict[str, Position] = {}
    for share in shares:
        known = state.positions.get(share.pointer)
        if share.rows != share.last - share.first + 1:
            raise RetainedIncomplete(f"{share.pointer}: of entries {share.first} to {share.last} only {share.rows} came.")
        if share.first > (0 if known is None else known.seq) + 1:
            raise RetainedIncomplete(
                f"{share.pointer}: the set ends at {0 if known is None else known.seq}, the batch begins at {share.first}."
            )
        if known is not None and share.last == known.seq and share.last_id != known.entry_id:
            raise RetainedIncomplete(f"{share.pointer}: another entry {share.last} stands in the log than in the set.")
        if known is None or share.last > known.seq:
            moved[share.pointer] = Position(1 if known is None else known.first, share.last, share.last_id)
    return moved


def lag(store: Store, state: RetainedState) -> dict[str, int]:
    """Pointer → entries that the set does not know yet."""
    spans = current_spans(store.backend, state.realm)
    known = {pointer: at.seq for pointer, at in state.positions.items()}
    behind = {pointer: span.seq - known.get(pointer, 0) for pointer, span in spans.items()}
    return {pointer: count for pointer, count in behind.items() if count > 0}


def _shares(batch: DataFrame, realm: str) -> list[PointerShare]:
    """What the driver learns of a batch. The first entry of a pointer begins a segment in any case."""
    opens = sql.col("kind").isin(*OPENING) | (sql.col("seq") == 1)
    opened = sql.when(
        opens, sql.struct("seq", sql.col("base.pointer").alias("base_pointer"), sql.col("base.seq").alias("base_seq"))
    )
    grouped = batch.groupBy("realm_instance", "pointer").agg(
        sql.min("seq"),
        sql.max("seq"),
        sql.count_distinct("seq"),
        sql.count("seq"),
        sql.max_by("entry_id", "seq"),
        sql.collect_set(opened),
    )
    found = []
    for instance, pointer, first, last, distinct, rows, last_id, starts in grouped.collect():
        if instance != realm:
            raise ChainBroken(f"the set is of realm {realm}, the batch of {instance}.")
        bounds = [Bounds(pointer, seq, None if base is None else BaseAt(base, base_seq)) for seq, base, base_seq in starts]
        found.append(PointerShare(pointer, first, last, distinct, last_id, rows != distinct, tuple(bounds)))
    return found


def _behind(batch: DataFrame, known: dict[str, int]) -> DataFrame:
    """Without what the set knows, and each entry once."""
    positions = batch.sparkSession.createDataFrame(list(known.items()), "pointer string, known bigint")
    joined = batch.join(sql.broadcast(positions), "pointer").where(sql.col("seq") > sql.col("known"))
    return joined.drop("known").dropDuplicates(["pointer", "seq"])


def _seq(state: RetainedState, pointer: str) -> int:
    known = state.positions.get(pointer)
    return 0 if known is None else known.seq


def _segments_of(state: RetainedState, opened: list[Bounds], moved: dict[str, Position]) -> list[tuple[str, int, int]]:
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


def _rows(new: DataFrame, segments: list[tuple[str, int, int]]) -> DataFrame:
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
