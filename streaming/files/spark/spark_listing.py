"""One root on Spark's workers: what is listed, what may go, and its deletion. The driver sees folders, counts and a sample."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec
from pyspark import StorageLevel
from pyspark.sql import functions as sql

from headwater.schemas.errors import MaintenanceRefused, MaintenanceSuperseded
from headwater.streaming.files.file_groups import FileGroup, merged_groups
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks.below_roots import may_overlap
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.spark.delete_tasks import DeletePlan, DeleteResult, deleting, keeping_keys, merged
from headwater.streaming.files.spark.list_tasks import (
    KEYED_DDL,
    LISTED_DDL,
    LIVE,
    OWN,
    OWNED_DDL,
    PART_DDL,
    PLACED_DDL,
    PREFIX_DDL,
    TEXT_DDL,
    ListPlan,
    grouping,
    heading,
    keying,
    listing,
    naming_again,
    outside,
    owning,
    placing,
    reading_parts,
    writing_parts,
)
from headwater.streaming.files.spark.mark_tasks import FILE, MANIFEST
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.stores.listing import split
from headwater.streaming.files.sweep.candidates import Listed
from headwater.streaming.files.sweep.condemned_files import ListPart, StoredList, list_parts, write_index
from headwater.streaming.files.sweep.executors import ListWork, RemovalProof
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.job_watch import BytesAccumulator, watched
from headwater.streaming.spark_jobs.spark_ids import ID_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.streaming.files.spark.spark_marks import SparkMarks

PREFIXES_PER_CORE = 4
TASKS_PER_CORE = 2
FILES_PER_SMALL_SHARE = 500
FILES_PER_SHARE = 20_000
"""Deletions per share: what has to be repeated if a worker is lost."""
IDS_PER_PART = 1_000_000
DAMAGE_TOLD = 100
ASK_SECONDS = 5.0
"""Seconds between two checks by the driver of the lease (which it renews), the claim and the intent; workers check before each
request."""


class SparkListing:
    def __init__(self, marks: SparkMarks, work: ListWork) -> None:
        self._marks = marks
        self._work = work
        self._spark = marks.spark
        self._root = work.root.location
        self._storages = marks.work.operations.storages
        judgement = msgspec.structs.replace(work.judgement, protected=tuple(sorted(marks.protected)))
        self._plan = ListPlan(files=marks.files, root=self._root, judgement=judgement, listed_at=work.listed_at)
        self._held: list[DataFrame] = []
        self._confirmed: DataFrame | None = None
        self._going: DataFrame | None = None
        self._keys: list[str] = []
        with typed_errors():
            self._listed = self._hold(self._list())
            self._candidates = SparkCandidates(self)
            self.counts = self._counted()
        marks.work.progress("listed", self.counts.listed)
        marks.probe()  # ⚠ what a lost worker took with it would look unused

    @property
    def bytes(self) -> int:
        return self._candidates.bytes

    # ── list ────────────────────────────────────────────────────────────────────────────────────────────────

    def _list(self) -> DataFrame:
        prefixes = split(self._storages.of(self._root), self._root, self._marks.files.tasks * PREFIXES_PER_CORE)
        tasks = min(len(prefixes), self._marks.files.tasks * TASKS_PER_CORE)
        rows = self._spark.createDataFrame(prefixes, PREFIX_DDL).repartition(tasks)
        self._noted = BytesAccumulator(self._spark.sparkContext)
        listed = rows.mapInArrow(listing(self._plan, self._marks.bloom, "files", self._noted), LISTED_DDL)
        if self._marks.bloom is None:
            listed = self._joined(listed)
        if self._marks.work.safeguards.foreign_names:
            listed = self._mismatched(listed)
        return listed

    def _joined(self, listed: DataFrame) -> DataFrame:
        """⚠ Sorted and merged, so that it spills to disk instead of running out of memory. A checksum stays with its file."""
        live = self._marks.all_ids().withColumn("is_live", sql.lit(True))
        found = listed.join(live.hint("merge"), "id", "left")
        bases = found.filter(sql.col("base").isNotNull())
        by_base = bases.join(live.select(sql.col("id").alias("base"), sql.col("is_live").alias("base_lives")), "base", "left")
        others = found.filter(sql.col("base").isNull()).withColumn("base_lives", sql.lit(None).cast("boolean"))
        both = others.unionByName(by_base)
        lives = sql.coalesce("is_live", sql.lit(False)) | sql.coalesce("base_lives", sql.lit(False))
        verdict = sql.when(lives & (sql.col("verdict") != OWN), LIVE).otherwise(sql.col("verdict"))
        return both.withColumn("verdict", verdict).drop("is_live", "base_lives")

    def _mismatched(self, listed: DataFrame) -> DataFrame:
        if not self._marks.has_names:
            return listed
        named = self._marks.names().select(sql.col("id").alias("name"), sql.lit(True).alias("is_named"))
        found = listed.join(named, "name", "left")
        is_it = sql.coalesce("is_named", sql.lit(False)) & sql.col("verdict").isin("", "young")
        return found.withColumn("verdict", sql.when(is_it, "mismatched").otherwise(sql.col("verdict"))).drop("is_named")

    def _counted(self) -> Listed:
        rows = self._listed.groupBy("verdict").agg(sql.count("*").alias("files"), sql.sum("size").alias("bytes")).collect()
        counts = {row.verdict: row.files for row in rows}
        self._candidates.take(self._listed.filter(sql.col("verdict") == "").select("id", "base", "name", "location", "size"))
        of_tables = [row for row in rows if row.verdict != OWN]
        notes = {note.decode("utf-8", "surrogatepass") for note in self._noted.since(0)}
        listed = Listed(
            candidates=self._candidates,
            listed=sum(row.files for row in of_tables),
            bytes=sum(int(row.bytes or 0) for row in of_tables),
            live=counts.get(LIVE, 0),
            claims=sorted(note.removeprefix("claim ") for note in notes if note.startswith("claim ")),
            **{name: counts.get(name, 0) for name in ("young", "unknown", "protected", "mismatched")},
        )
        logs = [note.removeprefix("log ") for note in notes if note.startswith("log ")]
        if logs and self._marks.work.safeguards.protected_prefixes:
            listed.spare(logs)  # ⚠ a folder with a Delta log is a Delta table, even if no catalog knows it
        return listed

    # ── proof ───────────────────────────────────────────────────────────────────────────────────────────────

    def prove(self) -> list[str]:
        with typed_errors():
            shown = self._listed.filter(sql.col("id").isNotNull()).select("id")
            unlisted = self._marks.all_ids().join(shown, "id", "left_anti")
            if not self._marks.late and not unlisted.limit(1).count():
                return []
            single = self._marks.marks.filter(sql.col("what") == FILE).select("location").distinct()
            unlisted = single.mapInArrow(placing(self._plan), PLACED_DDL).unionByName(self._unlisted_of_manifests(shown))
            unlisted = unlisted.distinct().join(shown, "id", "left_anti")
            gone = unlisted.mapInArrow(heading(self._plan), TEXT_DDL)
            return sorted(row.text for row in gone.limit(DAMAGE_TOLD).collect()) if self._all_headed(gone) else []

    def _all_headed(self, gone: DataFrame) -> int:
        """⚠ A limit alone would leave the rest of the files unchecked."""
        return int(self._hold(gone).count())

    def _unlisted_of_manifests(self, shown: DataFrame) -> DataFrame:
        place, salt = self._work.root.place, self._work.judgement.salt
        overlaps = sql.udf(lambda one: may_overlap(one or "", place), "boolean")
        manifests = self._marks.marks.filter((sql.col("what") == MANIFEST) & (sql.length("ids") > 0))
        near = manifests.filter(overlaps("place")).select("location", "length", "ids")
        owned = near.mapInArrow(owning(salt), OWNED_DDL)
        of = owned.join(shown, "id", "left_anti").select("manifest").distinct()
        named = near.select("location", "length").distinct()
        keyed = named.mapInArrow(keying(salt), KEYED_DDL)
        again = keyed.join(of, "manifest", "leftsemi").select("location", "length").repartition(self._marks.files.tasks)
        return again.mapInArrow(naming_again(self._plan), PLACED_DDL)

    # ── second look ─────────────────────────────────────────────────────────────────────────────────────────

    def confirm(self, earlier: StoredList | None) -> int:
        if earlier is None:
            self._confirmed = self._candidates.frame
            return len(self._candidates)
        with typed_errors():
            condemned = self._read(earlier)
            self._confirmed = self._hold(self._candidates.frame.join(condemned, "id", "leftsemi"))
            return int(self._confirmed.count())

    def confirm_none(self) -> None:
        self._confirmed = self._candidates.frame.limit(0)

    def sample(self) -> list[FileGroup]:
        confirmed = self._all_confirmed().select("id", sql.lit(True).alias("is_confirmed")).distinct()
        flagged = self._candidates.frame.join(confirmed, "id", "left")
        columns = flagged.select("location", "size", sql.coalesce("is_confirmed", sql.lit(False)).alias("is_confirmed"))
        with typed_errors():
            rows = columns.mapInArrow(grouping(self._root), TEXT_DDL).collect()
        return merged_groups(group for row in rows for group in msgspec.json.decode(row.text, type=list[FileGroup]))

    def write_condemned(self, stem: str) -> StoredList:
        return self._write(self._candidates.frame, len(self._candidates), stem)

    def write_confirmed(self, stem: str) -> StoredList:
        """⚠ From now on only the written lists count: a listing that happens to be recomputed adds nothing."""
        confirmed = self._all_confirmed()
        with typed_errors():
            written = self._write(confirmed, int(confirmed.count()), stem)
            self._going = confirmed.join(self._read(written), "id", "leftsemi")
        return written

    def _write(self, frame: DataFrame, count: int, stem: str) -> StoredList:
        ids = frame.select("id").distinct().repartitionByRange(max(1, math.ceil(count / IDS_PER_PART)), "id")
        with typed_errors():
            rows = ids.mapInArrow(writing_parts(self._marks.files, stem), PART_DDL).collect()
        parts = [ListPart(row.location, row.digest) for row in sorted(rows, key=lambda row: row.first)]
        return write_index(self._storages, stem, parts)

    def _read(self, stored: StoredList) -> DataFrame:
        parts = [(part.location, part.digest) for part in list_parts(self._storages, stored)]
        frame = self._spark.createDataFrame(parts, "location string, digest string").repartition(max(1, len(parts)))
        return frame.mapInArrow(reading_parts(self._marks.files), ID_DDL)

    def _all_confirmed(self) -> DataFrame:
        return self._candidates.frame if self._confirmed is None else self._confirmed

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────────

    def take_off_late(self) -> int:
        going = self._all_going()
        late = self._marks.exploded(self._marks.late_marks, "ids").distinct()
        going = going.join(late, "id", "left_anti")
        going = going.join(late.withColumnRenamed("id", "base"), "base", "left_anti")
        if self._marks.work.safeguards.foreign_names and self._marks.has_names:
            going = going.join(self._marks.names().withColumnRenamed("id", "name"), "name", "left_anti")
        if self._marks.protected and self._marks.work.safeguards.protected_prefixes:
            columns = "id bigint, base bigint, name bigint, location string, size bigint"
            prefixes = tuple(sorted(self._marks.protected))
            going = going.select("id", "base", "name", "location", "size").mapInArrow(outside(prefixes), columns)
        self._going = self._hold(going)
        with typed_errors():
            return int(self._going.count())

    def keep_keys(self, run: str) -> None:
        """In the order of locations, so that a worker deletes neighbouring files together."""
        going = self._all_going().select("location", "size")
        count, tasks = self._count(going), self._marks.files.tasks * TASKS_PER_CORE
        shares = max(1, min(tasks, math.ceil(count / FILES_PER_SMALL_SHARE)), math.ceil(count / FILES_PER_SHARE))
        spread = going.distinct().repartitionByRange(shares, "location")
        with typed_errors():
            rows = spread.mapInArrow(keeping_keys(self._marks.files, self._root, run), TEXT_DDL).collect()
        self._keys = [row.text for row in rows]

    def purge(self, spec: PurgeSpec, proof: RemovalProof) -> PurgeStats:
        plan = DeletePlan(
            files=self._marks.files,
            proof=proof,
            batch_size=spec.batch_size,
            files_per_second=spec.files_per_second,
            batches_per_second=spec.batches_per_second,
        )
        if not self._keys:
            return PurgeStats()
        results = _Results(BytesAccumulator(self._spark.sparkContext))
        watch = _Watch(spec)
        keys = self._spark.createDataFrame([(one,) for one in self._keys], TEXT_DDL).repartition(len(self._keys))
        deletions = keys.mapInArrow(deleting(plan, results.accumulator), TEXT_DDL)
        watched(self._spark.sparkContext, deletions.count, results, watch)
        if watch.stopped:
            ended = MaintenanceSuperseded if watch.is_superseded else MaintenanceRefused
            raise ended(watch.stopped, field="root", remedy="Nothing more is deleted. Run it again.")
        return watch.stats

    def close(self) -> None:
        for frame in self._held:
            frame.unpersist()

    def _all_going(self) -> DataFrame:
        return self._all_confirmed() if self._going is None else self._going

    def _count(self, frame: DataFrame) -> int:
        with typed_errors():
            return int(frame.count())

    def _hold(self, frame: DataFrame) -> DataFrame:
        self._held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


class SparkCandidates:
    """Files that may go, on workers."""

    def __init__(self, listing: SparkListing) -> None:
        self._listing = listing
        self._count = 0
        self.bytes = 0
        self.frame: DataFrame

    def take(self, frame: DataFrame) -> None:
        self.frame = self._listing._hold(frame)
        row = self.frame.agg(sql.count("*"), sql.sum("size")).collect()[0]
        self._count, self.bytes = int(row[0]), int(row[1] or 0)

    def add(self, file: FoundFile, found: int) -> None:
        raise AssertionError("workers list")

    def spare(self, folders: Collection[str]) -> int:
        before = self._count
        if folders:
            columns = "id bigint, base bigint, name bigint, location string, size bigint"
            with typed_errors():
                self.take(self.frame.mapInArrow(outside(tuple(folders)), columns))
        return before - self._count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[FoundFile]:
        raise AssertionError("workers alone see locations")


class _Results:
    rows = 0

    def __init__(self, accumulator: BytesAccumulator) -> None:
        self.accumulator = accumulator

    def since(self, seen: int) -> list[DeleteResult]:
        return [msgspec.msgpack.decode(one, type=DeleteResult) for one in self.accumulator.since(seen)]


class _Watch:
    """Checks the lease on behalf of the driver, and adds up what workers have done."""

    def __init__(self, spec: PurgeSpec) -> None:
        self._spec = spec
        self._asked_at = 0.0
        self._results: list[DeleteResult] = []
        self.stats = PurgeStats()
        self.stopped = ""
        self.is_superseded = False

    def before_delete(self) -> None:
        if self._spec.before_request is not None and time.monotonic() - self._asked_at >= ASK_SECONDS:
            self._asked_at = time.monotonic()
            self._spec.before_request()

    def on_rows(self, rows: int) -> None:
        pass

    def on_result(self, result: DeleteResult) -> None:
        self._results.append(result)
        self.stats = merged(self._results)
        self.stopped = self.stopped or result.stopped
        self.is_superseded = self.is_superseded or result.is_superseded
        if self._spec.on_batch is not None:
            self._spec.on_batch(self.stats)
