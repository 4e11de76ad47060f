"""Reads the topics of many realms by one Structured Streaming query, and gives each realm its share of every micro-batch.

A query per realm costs seconds per batch, however few Changes there are; one query for all costs that once. Up to
`HERE_RECORDS_MAX` records are decoded in this process, without a Python worker; of larger batches, realms with many records
receive DataFrames and the others lists.

A realm's position in its topics is kept in a file beside its set, and written after the set: a process that was killed reads
again from there. ⚠ It is only a bookmark: entry ids decide what is in the set. A realm without one begins at the end of its
topics, and gets one when it has been brought up to date from the store's log.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
from pyspark.sql import functions as sql

from headwater.streaming.retained.retained_batch import BATCH_COLUMNS
from headwater.streaming.retained.set_increment import NewChange, change_of_row
from headwater.streaming.sources.change_rows import Row
from headwater.streaming.sources.kafka_changes import KafkaOptions, TopicReaders, decoded_topics, stream_topics
from headwater.streaming.spark.spark_errors import typed_error
from headwater.streaming.spark_jobs.topic_bookmarks import Offsets, TopicBounds, is_within, read_bookmark, write_bookmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HERE_RECORDS_MAX = 10_000
CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Spark's default starts programs (chmod, stat) for each file that it writes on a local disk, which took half of a small
batch's time. Our checkpoint is not needed after the query, so it need not survive what the default guards against."""

_log = logging.getLogger(__name__)


class TopicRealm(NamedTuple):
    options: KafkaOptions
    topics: tuple[str, ...]
    """All topics that hold Changes of the realm."""


class News(NamedTuple):
    """What a batch holds of one realm: exactly one of the two."""

    changes: list[NewChange] | None = None
    frame: DataFrame | None = None


class _Run:
    """What one query reads. A batch that was interrupted may end after the next query has begun: each query has its own."""

    def __init__(self, realms: Mapping[str, TopicRealm], read: Offsets, checkpoint: Path) -> None:
        self.realms = realms
        self.read = read
        """The offsets that batches have reached."""
        self.checkpoint = checkpoint
        self.behind: set[str] = set()
        """Realms that were left out of a batch and have taken none since: their bookmarks stay."""

    def options_by_topic(self) -> dict[str, KafkaOptions]:
        return {topic: realm.options for realm in self.realms.values() for topic in realm.topics}


class RealmSink(Protocol):
    def add(self, instance: str, news: News) -> bool:
        """Whether the set is complete now. Must not raise, and must not wait long for another realm."""

    def lose(self, instance: str, why: str) -> None:
        """The next Changes do not follow the set: bring it up to date from the log."""


class TopicQuery:
    """`bounds` asks the brokers for the first and the next offset of every partition of some topics."""

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        bounds: Callable[[Collection[str]], Mapping[str, Mapping[str, TopicBounds]]],
        sink: RealmSink,
        *,
        every_seconds: float,
    ) -> None:
        self._spark = spark.newSession()
        for name, value in CHECKPOINTS.items():
            self._spark.conf.set(name, value)
        self._folder = folder
        self._bounds = bounds
        self._sink = sink
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        """Held while a query begins or ends."""
        self._run = _Run({}, {}, Path())
        self._query: StreamingQuery | None = None
        self._warming: threading.Thread | None = None
        self._unsettled: dict[str, Offsets] = {}
        """The offsets up to which lost realms have been read: their logs hold all that was published until then."""

    def follow(self, realms: Mapping[str, TopicRealm]) -> None:
        """Starts the query again if realms or topics have been added or removed, or if it has failed."""
        with self._lock:
            is_running = self._query is not None and self._query.isActive
            if is_running and self._run.realms == realms:
                return
            self._end()
            if not realms:
                return
            if self._is_warming(realms):
                for instance in realms:
                    self._sink.lose(instance, "Spark is still loading what its first batch needs")
            else:
                self._begin(realms)

    def read_once(self, realms: Mapping[str, TopicRealm]) -> None:
        """Up to what the topics hold now."""
        with self._lock:
            self._end()
            if not realms:
                return
            self._begin(realms, once=True)
            try:
                assert self._query is not None  # noqa: S101 - just begun
                self._query.awaitTermination()
            except Exception as error:
                raise typed_error(error) from error
            finally:
                self._end()

    def settle(self, instance: str) -> None:
        """Called after a realm was lost and has been brought up to date from its log. Records that could not be read are
        skipped."""
        offsets = self._unsettled.pop(instance, None)
        if offsets is not None:
            self._run.behind.discard(instance)
            write_bookmark(self._folder, instance, offsets)

    def stop(self) -> None:
        with self._lock:
            self._end()
        with contextlib.suppress(Exception):  # a JVM that is gone has stopped it already
            for loading in self._spark.streams.active:
                loading.stop()

    # ── the query ───────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, realms: Mapping[str, TopicRealm], *, once: bool = False) -> None:
        topics = [topic for realm in realms.values() for topic in realm.topics]
        there = self._bounds(topics)
        starts: Offsets = {}
        for instance, realm in realms.items():
            starts |= self._start_of(instance, realm, there)
        options = next(iter(realms.values())).options
        starting = msgspec.structs.replace(options, starting=_offsets_text(starts))
        records = stream_topics(self._spark, starting, topics)
        # Where the sets are is known beside them: Spark's own record need not outlive the query.
        run = self._run = _Run(dict(realms), starts, Path(tempfile.mkdtemp(prefix="headwater-topics-")))
        writer = records.writeStream.foreachBatch(functools.partial(self._on_batch, run))
        writer = writer.option("checkpointLocation", f"file://{run.checkpoint}")
        every = f"{max(0, round(self._every_seconds * 1_000))} milliseconds"
        self._query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()

    def _is_warming(self, realms: Mapping[str, TopicRealm]) -> bool:
        """Spark loads and compiles for seconds at its first batch, up to a minute on a busy machine. It reads the last records
        for nothing meanwhile, and realms continue from their logs."""
        if self._warming is None:
            topics = [topic for realm in realms.values() for topic in realm.topics]
            there = self._bounds(topics)
            last = {topic: {partition: max(at.begin, at.end - 1) for partition, at in there[topic].items()} for topic in topics}
            options = msgspec.structs.replace(next(iter(realms.values())).options, starting=_offsets_text(last))
            self._warming = threading.Thread(target=self._warm_up, args=(options, topics), name="topics-warm-up", daemon=True)
            self._warming.start()
        return self._warming.is_alive()

    def _warm_up(self, options: KafkaOptions, topics: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory(prefix="headwater-topics-", ignore_cleanup_errors=True) as checkpoint:
            try:
                writer = stream_topics(self._spark, options, topics).writeStream.foreachBatch(_read_for_nothing)
                query = writer.option("checkpointLocation", f"file://{checkpoint}").trigger(availableNow=True).start()
                query.awaitTermination()
            except Exception as error:
                _log.info("the first batch will take longer: %s", typed_error(error))

    def _start_of(self, instance: str, realm: TopicRealm, there: Mapping[str, Mapping[str, TopicBounds]]) -> Offsets:
        ours = {topic: there[topic] for topic in realm.topics}
        mark = read_bookmark(self._folder, instance)
        if mark is not None and is_within(mark, ours):
            return mark
        # ⚠ Read before the log is: what was published until then is in the log, and so in the set afterwards.
        ends = {topic: {partition: at.end for partition, at in found.items()} for topic, found in ours.items()}
        self._unsettled[instance] = ends
        self._sink.lose(instance, "it is not known where the set stands in its topics")
        return ends

    def _end(self) -> None:
        query, self._query = self._query, None
        if query is None:
            return
        with contextlib.suppress(Exception):  # a JVM that is gone has stopped it already
            failure = query.exception()
            if failure is not None:
                _log.warning("the query over all topics failed and begins again: %s", typed_error(failure))
            query.stop()
        shutil.rmtree(self._run.checkpoint, ignore_errors=True)

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _on_batch(self, run: _Run, batch: DataFrame, batch_id: int) -> None:
        planned = planned_offsets(run.checkpoint, batch_id)
        moved = {
            instance: {topic: planned[topic] for topic in realm.topics if topic in planned}
            for instance, realm in run.realms.items()
            if any(planned.get(topic, {}) != run.read.get(topic, {}) for topic in realm.topics)
        }
        records = sum(
            at - run.read.get(topic, {}).get(partition, 0) for topic, of in planned.items() for partition, at in of.items()
        )
        is_small = records <= HERE_RECORDS_MAX
        refused: set[str] = set()
        try:
            for instance, news in self._here(run, batch, refused) if is_small else self._spread(run, batch):
                if self._sink.add(instance, news):
                    run.behind.discard(instance)
                else:
                    refused.add(instance)
        except Exception as error:
            # ⚠ Whatever it was, it must not end the stream of the other realms: each of these continues from its log.
            failure = typed_error(error)
            _log.warning("a batch of topics was not read: %s", failure)
            refused = set(moved)
            for instance in refused:
                self._sink.lose(instance, str(failure))
        run.behind |= refused
        for instance, offsets in moved.items():
            if instance in run.behind:
                self._unsettled[instance] = offsets
            else:
                write_bookmark(self._folder, instance, offsets)
        run.read = planned

    def _here(self, run: _Run, batch: DataFrame, refused: set[str]) -> Iterator[tuple[str, News]]:
        """Uses one job that collects. A realm whose records cannot be read is refused, the others are not."""
        by_realm: dict[str, list[Row]] = {}
        owners = {topic: instance for instance, realm in run.realms.items() for topic in realm.topics}
        for record in batch.toArrow().to_pylist():
            by_realm.setdefault(owners[record["topic"]], []).append(record)
        readers = TopicReaders(run.options_by_topic())
        for instance, records in by_realm.items():
            try:
                changes = [change_of_row(row) for row in readers.rows(records)]
            except Exception as error:
                refused.add(instance)
                self._sink.lose(instance, str(typed_error(error)))
            else:
                yield instance, News(changes=changes)

    def _spread(self, run: _Run, batch: DataFrame) -> Iterator[tuple[str, News]]:
        """Decoded on the executors."""
        slim = decoded_topics(batch, run.options_by_topic()).select(*BATCH_COLUMNS).persist()
        try:
            counts = slim.groupBy("realm_instance").count().collect()
            few = [instance for instance, count in counts if count <= HERE_RECORDS_MAX]
            rows: dict[str, list[NewChange]] = {instance: [] for instance in few}
            if few:
                for row in slim.where(sql.col("realm_instance").isin(few)).toArrow().to_pylist():
                    rows[row["realm_instance"]].append(change_of_row(row))
            yield from ((instance, News(changes=changes)) for instance, changes in rows.items())
            for instance, count in counts:
                if count > HERE_RECORDS_MAX:
                    yield instance, News(frame=slim.where(sql.col("realm_instance") == instance))
        finally:
            slim.unpersist()


def _read_for_nothing(batch: DataFrame, _: int) -> None:
    batch.toArrow()


def _offsets_text(offsets: Offsets) -> str:
    return msgspec.json.encode(offsets).decode()


def planned_offsets(checkpoint: Path, batch_id: int) -> Offsets:
    """Where a batch ends, as Spark recorded it before the batch began."""
    written = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1]
    return msgspec.json.decode(written, type=Offsets)
