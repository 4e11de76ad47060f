"""Streams Changes from the log or from Kafka into a retained set, by whole batches, each exactly once.

⚠ The set's own position in each pointer, kept beside its rows, decides: a batch that is repeated, in whole or in part, is
recognized, and one that does not follow the set's last entry by its ids is refused. Ids and Changes stay on the executors; the
driver sees only positions and where segments begin. A set that was overtaken, is inconsistent, or belongs to another history
than the store's is seeded again by walking.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.persistence.store import Store
from headwater.schemas.errors import CursorGone, RetainedCorrupt, RetainedIncomplete, RetainedMoved, SparkFailed
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.reachability.same_history import other_history
from headwater.streaming.retained.log_increment import add_from_log, entries_behind, spans_behind
from headwater.streaming.retained.present_history import pointers_of_lost_entries
from headwater.streaming.retained.retained_batch import BATCH_COLUMNS, new_entries, object_rows, segments_of, write_parquet
from headwater.streaming.retained.retained_seed import current_spans, seed
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.set_increment import NewChange, append_increment, increment
from headwater.streaming.retained.small_steps import merge_small_steps
from headwater.streaming.sources import log_offsets
from headwater.streaming.sources.kafka_changes import KafkaOptions, require_broker, stream_kafka_changes
from headwater.streaming.spark.stream_runner import Report, run_until_caught_up, run_until_stopped, silent
from headwater.streaming.spark_jobs.spark_seed import SparkSeedWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READER = "retained"
HERE_CHANGES_MAX = 100_000
"""Up to this many Changes of a log are added in this process, by everything that keeps sets current: about 4 s of one core.
Python workers of a query take seconds to start, and Spark gives up on one that takes more than 10 s, as on a busy machine."""
SEED_HERE_ENTRIES_MAX = 10_000
"""Logs of up to this many entries are walked in this process."""
SPLIT_CHANGES_MIN = 5_000
SEEDS_MAX = 3
KAFKA_RESTARTS_MAX = 1
"""The first attempt keeps the checkpoint; the second drops it."""

_log = logging.getLogger(__name__)


class RetainedJob:
    """One per realm instance. `url` is what executors open the store with. A set that is at most `here_max` entries behind its
    log is brought up to date in this process, without a query: that takes milliseconds, a query takes seconds. Unless it is 0,
    this process also does what a query has failed to do."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        url: str,
        retained: RetainedStore,
        *,
        pin: bool = True,
        here_max: int = 0,
    ) -> None:
        self._spark = spark
        self._store = store
        self._url = url
        self._retained = retained
        self._readers = RegisteredReaders(store.backend, retained.realm, store.clock)
        self._pin = pin
        self._here_max = here_max

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        *,
        changes_per_batch: int = 100_000,
        is_stopping: Callable[[], bool] | None = None,
        report: Report = silent,
        reseed: bool = False,
    ) -> RetainedState:
        """Catch up and stop; with `is_stopping`, continue until it says so."""
        for attempt in range(SEEDS_MAX):
            state = self._loaded(reseed=reseed and attempt == 0)
            try:
                behind = spans_behind(self._store.backend, state)
                if not behind and is_stopping is None:
                    return state
                if is_stopping is None and sum(entries_behind(state, behind).values()) <= self._here_max:
                    return self._add_here(state, behind)
                try:
                    self._stream(state, changes_per_batch, is_stopping, report)
                except SparkFailed as failure:
                    if is_stopping is not None or not self._here_max:
                        raise
                    _log.warning("the retained set of %s is brought up to date without Spark: %s", state.realm, failure)
                    state = self.state()
                    return self._add_here(state, spans_behind(self._store.backend, state))
                return self.state()
            except RetainedMoved:  # compacted meanwhile: continue from there
                if attempt == SEEDS_MAX - 1:
                    raise
            except (CursorGone, RetainedIncomplete, RetainedCorrupt):  # overtaken, or the log does not continue from it
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
        """The same from the realm's topic, either up to what it holds now or continuously. The store only says where the set
        begins; what the topic no longer reaches is seeded by walking. ⚠ Spark's record of offsets is only a bookmark: if a
        stream fails with it, it is discarded and the topic is read again from its beginning."""
        require_broker(options.bootstrap)
        checkpoint = self._retained.folder / "kafka-checkpoint"
        # ⚠ A set that was seeded after a cut meets the record of it each time it reads the topic: only a gap counts.
        options = msgspec.structs.replace(options, finds_gaps=True)
        for attempt in range(SEEDS_MAX):
            self._loaded(reseed=False)
            try:
                writer = self.stream(stream_kafka_changes(self._spark, options), f"file://{checkpoint}")
                writer = writer if follow else writer.trigger(availableNow=True)
                run_until_stopped(writer, is_stopping=lambda: False, report=report, restarts_max=KAFKA_RESTARTS_MAX)
                state = self.state()
                lag(self._store, state)  # a set that ends in what the store has lost would wait for entries that never come
                return state
            except SparkFailed:
                if attempt == SEEDS_MAX - 1 or not checkpoint.exists():
                    raise
                shutil.rmtree(checkpoint, ignore_errors=True)
            except RetainedMoved:
                if attempt == SEEDS_MAX - 1:
                    raise
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
        """⚠ Pins everything first: what is read now must not be cut before the stream continues after it."""
        if self._pin:
            self._readers.save(READER, {})
        state = seed(self._store.backend, self._retained, None if self._is_small() else SparkSeedWriter(self._spark, self._url))
        self._save_pin(state)
        return state

    def _is_small(self) -> bool:
        spans = current_spans(self._store.backend, self._retained.realm)
        entries = sum(span.seq - span.floor + 1 for span in spans.values())
        return entries <= min(self._here_max, SEED_HERE_ENTRIES_MAX)

    def _add_here(self, state: RetainedState, behind: Mapping[str, Span]) -> RetainedState:
        state = add_from_log(self._store.backend, self._retained, state, behind)
        return self._kept(state)

    def add_changes(self, changes: Sequence[NewChange]) -> RetainedState:
        """Adds a bounded number of Changes of a topic. ⚠ Changes that follow the set may still have been lost by the store: the
        last entry of each pointer must be in it."""
        state = self.state()
        found = increment(state, changes)
        if found is None:
            return state
        ends = {pointer: at.entry_id for pointer, at in found.positions.items()}
        for pointer in pointers_of_lost_entries(self._store.backend, state.realm, ends):
            raise other_history(pointer, found.positions[pointer].seq)
        return self._kept(append_increment(self._retained, state, found))

    def _kept(self, state: RetainedState) -> RetainedState:
        self._save_pin(state)
        return merge_small_steps(self._retained, state)

    def add_batch(self, batch: DataFrame) -> RetainedState:
        """The same on executors, for any size."""
        self._add_batch(batch, 0)
        return self.state()

    def _stream(
        self, state: RetainedState, changes_per_batch: int, is_stopping: Callable[[], bool] | None, report: Report
    ) -> None:
        positions = {name: log_offsets.OffsetPosition(at.seq, at.entry_id) for name, at in state.positions.items()}
        cores = max(1, int(self._spark.sparkContext.defaultParallelism))
        options = {
            "store": self._url,
            "realm": state.realm,
            "changes_per_batch": str(changes_per_batch),
            # A task costs a worker's start, which is as much as reading 20,000 Changes: few and large ones.
            "changes_per_split": str(max(SPLIT_CHANGES_MIN, changes_per_batch // cores)),
            "columns": ",".join(BATCH_COLUMNS),
            "after": log_offsets.LogOffset(state.realm, positions).as_text(),
        }
        options |= {} if is_stopping else {"until": "start"}
        changes = self._spark.readStream.format("headwater").options(**options).load()
        # The set knows its position, so Spark's own record need not outlive the run.
        checkpoint = tempfile.mkdtemp(prefix="headwater-retained-")
        try:
            add_batch = functools.partial(self._add_batch, is_from_store=True)
            writer = changes.writeStream.foreachBatch(add_batch).option("checkpointLocation", f"file://{checkpoint}")
            if is_stopping:
                run_until_stopped(writer, is_stopping=is_stopping, report=report)
            else:
                run_until_caught_up(writer, report=report)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _add_batch(self, batch: DataFrame, batch_id: int, *, is_from_store: bool = False) -> None:
        """Some jobs describe the batch, one writes it."""
        state = self.state()
        slim = batch.select(*BATCH_COLUMNS).persist()
        try:
            new = new_entries(slim, state, self._store.backend, is_from_store=is_from_store)
            if new is None:
                return
            rows = object_rows(new.changes, segments_of(state, new.bounds, new.positions))
            state = self._retained.append(state, new.positions, new.bounds, functools.partial(write_parquet, rows))
        finally:
            slim.unpersist()
        self._save_pin(state)

    def _save_pin(self, state: RetainedState) -> None:
        if self._pin:
            self._readers.save(READER, {pointer: at.seq for pointer, at in state.positions.items()})


def lag(store: Store, state: RetainedState) -> dict[str, int]:
    """Pointer → entries that the set does not know yet. Refuses a set of another history."""
    return entries_behind(state, spans_behind(store.backend, state))
