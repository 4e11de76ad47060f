"""Marks the files in use on Spark's workers.

The driver sees counts, what refuses a root, and the one filter: no path and no id.
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import StorageLevel
from pyspark.sql import functions as sql

from headwater.schemas.errors import InvalidInput, MaintenanceRefused
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.spark.mark_tasks import (
    BROKEN,
    CONTENT_DDL,
    DAMAGE,
    FOREIGN,
    MANIFEST,
    MARK_DDL,
    MISSED,
    PROTECTED,
    REFUSED,
    MarkPlan,
    decoding_manifests,
    exploding,
    finding_contents,
    keeping_manifests,
    marking_contents,
    reading_contents,
)
from headwater.streaming.files.spark.spark_listing import SparkListing
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.sweep.executors import ListWork, MarkWork
from headwater.streaming.files.sweep.retained_contents import reference_spans, walk_shares
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.retained.bloom import SALT_BYTES
from headwater.streaming.retained.retained_filter import refuse_overfull
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.spark_executor import built_bloom, probing
from headwater.streaming.spark_jobs.spark_ids import ID_DDL
from headwater.streaming.spark_jobs.spark_walk import ENTRIES_PER_TASK, grouped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTENTS_PER_SHARE = 2_000
SHARES_PER_CORE = 4
IDS_PER_SHARE = 1_000_000
CONTENTS_PER_TASK = 50
MANIFESTS_PER_TASK = 2
SHARDS = 256
NOTES_MAX = 10_000
"""⚠ Protected folders, damage and refusals that are reported to the driver. More than these refuse the run."""
FILTER = "files"


class SparkFileExecutor:
    """⚠ The store and the storages must be reachable by workers."""

    def __init__(self, session: SparkSession, files: WorkerFiles) -> None:
        self._spark = session
        self._files = files

    def marks(self, work: MarkWork) -> SparkMarks:
        if not work.store.backend.abilities.shared_between_processes:
            raise InvalidInput(
                f"{work.store.backend.name} cannot be reached by workers.",
                field="store",
                remedy="Sweep without --spark, or use another store.",
            )
        cores = max(1, int(self._spark.sparkContext.defaultParallelism))
        return SparkMarks(self._spark, msgspec.structs.replace(self._files, tasks=cores), work)


class SparkMarks:
    def __init__(self, session: SparkSession, files: WorkerFiles, work: MarkWork) -> None:
        self.spark = session
        self.files = files
        self.work = work
        self.count = 0
        self.damage: list[str] = []
        self.refused: dict[str, str] = {}
        self.protected: set[str] = set()
        self.bloom: Any = None
        self.ids: DataFrame | None = None
        """The ids of everything that was marked before the filter was made, each once."""
        self.late: list[DataFrame] = []
        """⚠ Marks that were made after the filter."""
        self._marks: list[DataFrame] = []
        self._contents: dict[str, DataFrame] = {}
        self._found = 0
        self._held: list[DataFrame] = []
        self._plan = MarkPlan(
            files=files,
            salt=work.salt,
            roots=work.roots,
            accept_missing=work.accept_missing,
            safeguards=work.safeguards,
        )

    @property
    def shares(self) -> int:
        return max(self.files.tasks * SHARES_PER_CORE, math.ceil(self._found / IDS_PER_SHARE))

    # ── marks ───────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, realm: str, spans: Mapping[str, Span]) -> None:
        with typed_errors():
            forgotten = forgotten_contents(self.work.store.backend, realm, spans)
            found = self._new_contents(realm, reference_spans(spans), forgotten)
            if found is not None:
                self._mark(*found)

    def _new_contents(self, realm: str, spans: Mapping[str, Span], forgotten: frozenset[int]) -> tuple[DataFrame, int] | None:
        """Those that no earlier call has marked, and how many."""
        shares = walk_shares(spans, ENTRIES_PER_TASK)
        if not shares:
            return None
        tasks, url = grouped(shares, ENTRIES_PER_TASK), self.files.store_url
        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        ids = numbers.mapInArrow(finding_contents(url, realm, spans, tasks), ID_DDL).distinct()
        known = self._contents.get(realm)
        if known is not None:
            ids = ids.join(known, "id", "left_anti")
        ids = self.hold(ids)
        count = ids.count()
        self._contents[realm] = ids if known is None else known.unionByName(ids)
        if not count:
            return None
        spread = ids.repartition(math.ceil(count / CONTENTS_PER_SHARE))
        return spread.mapInArrow(reading_contents(url, realm, spans, forgotten, self.work.salt), CONTENT_DDL).distinct(), count

    def _mark(self, contents: DataFrame, count: int) -> None:
        spread = contents.repartition(self._tasks(count / CONTENTS_PER_TASK), "shard")
        marked = self.hold(spread.mapInArrow(marking_contents(self._plan), MARK_DDL))
        self._note(marked)
        self._keep(marked)
        missed = self.hold(marked.filter(sql.col("what") == MISSED).dropDuplicates(["location", "length"]))
        manifests = missed.count()
        if not manifests:
            return
        spread = missed.repartition(self._tasks(manifests / MANIFESTS_PER_TASK))
        decoded = self.hold(spread.mapInArrow(decoding_manifests(self._plan), MARK_DDL))
        self._note(decoded)
        self._keep(decoded)
        if self.files.cache_folder:
            tasks = min(self.files.tasks, self._tasks(manifests / CONTENTS_PER_TASK))
            fresh = decoded.filter(sql.col("what") == MANIFEST).repartition(tasks, "shard")
            fresh.mapInArrow(keeping_manifests(self._plan), ID_DDL).count()

    def _tasks(self, wanted: float) -> int:
        """⚠ Each task of a Python worker costs tenths of a second, whatever it does."""
        return max(1, min(SHARDS, self.files.tasks * SHARES_PER_CORE, math.ceil(wanted)))

    def _keep(self, marks: DataFrame) -> None:
        self._marks.append(marks)
        if self.ids is not None:
            self.late.append(marks)

    def _note(self, marks: DataFrame) -> None:
        self.count += int(marks.agg(sql.sum(sql.length("ids") / 8)).collect()[0][0] or 0)
        notes = (
            marks.filter(sql.col("what").isin(PROTECTED, DAMAGE, REFUSED, BROKEN))
            .select("what", "location", "place")
            .distinct()
        )
        rows = notes.limit(NOTES_MAX + 1).collect()
        if len(rows) > NOTES_MAX:
            raise MaintenanceRefused(
                f"more than {NOTES_MAX} folders are protected, or versions cannot be read.",
                field="metadata_location",
                remedy="Nothing was deleted. Sweep without --spark.",
            )
        for row in rows:
            if row.what == BROKEN:
                remedy = "Nothing was deleted. The cache was dropped; run it again, and find out what has changed the file."
                raise MaintenanceRefused(row.location, field="maintenance_dir", remedy=remedy)
        self.protected.update(row.location for row in rows if row.what == PROTECTED)
        self.damage += [row.location for row in rows if row.what == DAMAGE]
        self.refused.update({row.place: row.location for row in rows if row.what == REFUSED})

    def prove_cache(self) -> None:
        """Each worker has proved what it took from the cache, before it said what that was."""

    # ── the filter ──────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> int:
        with typed_errors():
            found = self.exploded(self.marks, "ids").distinct()
            self.ids = found.repartition(self.shares, "id").persist(StorageLevel.MEMORY_AND_DISK)
            self._held.append(self.ids)
            self._found = int(self.ids.count())
        return self._found

    def use_bloom(self, capacity: int) -> None:
        with typed_errors():
            numbered = self.all_ids().select(sql.lit(0).alias("realm"), "id")
            bloom = built_bloom(numbered, self.files.tasks, capacity, secrets.token_bytes(SALT_BYTES), [FILTER])
        refuse_overfull(bloom, capacity, self._found)
        self.bloom = self.spark.sparkContext.broadcast(bloom)

    def probe(self) -> int:
        """⚠ Also checks that there are as many as were marked: a worker that was lost may have lost some of them."""
        ids = self.all_ids()
        with typed_errors():
            if self.bloom is None:
                found = ids.count()
            else:
                numbered = ids.select(sql.lit(0).alias("realm"), "id")
                probed = numbered.mapInArrow(probing(self.bloom, [FILTER]), "probed bigint")
                found = int(probed.agg(sql.sum("probed")).collect()[0][0] or 0)
        if found != self._found:
            raise MaintenanceRefused(
                f"{self._found} files are in use, {found} came through the filter.",
                field="filter",
                remedy="Nothing was deleted. Run it again, and report this if it comes again.",
            )
        return found

    @property
    def marks(self) -> DataFrame:
        return self.united(self._marks)

    @property
    def late_marks(self) -> DataFrame:
        return self.united(self.late)

    def united(self, frames: list[DataFrame]) -> DataFrame:
        if not frames:
            return self.spark.createDataFrame([], MARK_DDL)
        return functools.reduce(lambda left, right: left.unionByName(right), frames)

    def names(self) -> DataFrame:
        """⚠ Fingerprints of the names alone, for files below no root."""
        return self.exploded(self._foreign, "names").distinct()

    @property
    def has_names(self) -> bool:
        return bool(self._foreign.filter(sql.length("names") > 0).limit(1).count())

    @property
    def _foreign(self) -> DataFrame:
        return self.marks.filter(sql.col("kind") == FOREIGN)

    def exploded(self, marks: DataFrame, column: str) -> DataFrame:
        return marks.filter(sql.length(column) > 0).select(column).mapInArrow(exploding(column), ID_DDL)

    def all_ids(self) -> DataFrame:
        if self.ids is None:
            raise MaintenanceRefused("no filter was made.", field="filter")
        return self.ids

    def hold(self, frame: DataFrame) -> DataFrame:
        self._held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    # ── listings ────────────────────────────────────────────────────────────────────────────────────────────

    def list(self, work: ListWork) -> SparkListing:
        if work.asked is not None:
            raise InvalidInput("files that are named are deleted in one process.", field="spark", remedy="Leave --spark out.")
        return SparkListing(self, work)

    def close(self) -> None:
        for frame in self._held:
            frame.unpersist()
        if self.bloom is not None:
            self.bloom.destroy()
        self._held, self._marks, self.late, self._contents = [], [], [], {}
