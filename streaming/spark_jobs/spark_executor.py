"""Sweeps splits of the objects table on Spark's workers: scans, decides and deletes.

`exact` joins the scanned rows with the ids that must stay, on executors; rows without a match go. `bloom` makes a filter on
executors, merges it as a tree, and sends it to every worker. ⚠ Each retained id is probed there before anything is deleted. The
driver sees positions, counts and a sample, and the one filter: no ids.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as sql

from headwater.persistence.backend import Backend
from headwater.schemas.errors import InvalidInput, MaintenanceRefused
from headwater.streaming.reachability.id_set import MarkedIds
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards
from headwater.streaming.retained.bloom import SALT_BYTES, BloomFilter
from headwater.streaming.retained.retained_filter import FilterChoice, lost_by_filter, refuse_overfull
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.job_watch import ResultsAccumulator, watched
from headwater.streaming.spark_jobs.spark_ids import frame_ids
from headwater.streaming.spark_jobs.spark_sweep_tasks import RESULT_DDL, SCANNED_DDL, deleting, scanning, sweeping
from headwater.streaming.sweep.executors import SweepWork, shipped
from headwater.streaming.sweep.sweep_task import SweepPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES_PER_CORE = 4
"""Shares of the join: small enough to be sorted in memory."""
ROWS_PER_SHARE = 500_000

Batches = Iterable[pa.RecordBatch]


class SparkExecutor:
    """Spark's workers, each with its own connection to the store."""

    def __init__(self, session: SparkSession, store_url: str, backend: Backend) -> None:
        if not backend.abilities.shared_between_processes:
            raise InvalidInput(
                f"{backend.name} cannot be reached by workers.",
                field="store",
                remedy="Sweep without --spark, or use another store.",
            )
        self._spark = session
        self._context = session.sparkContext
        self._store_url = store_url
        self._realms: list[str] = []
        self._kept: DataFrame | None = None
        self._kept_count = 0
        self._shares = 1
        self._bloom: Any = None

    # ── the filter ──────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, retained: Mapping[str, MarkedIds], choice: FilterChoice, safeguards: Safeguards = ALL_ON) -> float:
        with typed_errors():
            self._keep(retained)
            if choice.kind == "exact":
                return 0.0
            bloom = self._built(choice.capacity)
        measured = refuse_overfull(bloom, choice.capacity, self._kept_count)
        self._bloom = self._context.broadcast(shipped(bloom, safeguards))
        return measured

    def probe(self) -> int:
        """⚠ Also checks that there are as many as were marked: ids that a join lost would be deleted."""
        kept = self._all_kept()
        with typed_errors():
            if self._bloom is None:
                found = kept.count()
            else:
                probed = kept.mapInArrow(probing(self._bloom, self._realms), "probed bigint")
                found = int(probed.agg(sql.sum("probed")).collect()[0][0] or 0)
        if found != self._kept_count:
            raise MaintenanceRefused(
                f"{self._kept_count} objects must stay, {found} came through the filter.",
                field="filter",
                remedy="Nothing was deleted. Run it again, and report this if it comes again.",
            )
        return int(found)

    def release(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
        if self._bloom is not None:
            self._bloom.destroy()
        self._kept, self._bloom, self._kept_count, self._realms = None, None, 0, []

    def _keep(self, retained: Mapping[str, MarkedIds]) -> None:
        """All realms in one frame, distributed by id, so that a scan can be joined with it without a shuffle of it."""
        self._realms = list(retained)
        by_realm = [frame_ids(self._spark, ids) for ids in retained.values()]
        columns = [
            ids.frame.select(sql.lit(number).alias("realm"), sql.col("id").alias("owner"))
            for number, ids in enumerate(by_realm)
        ]
        whole = functools.reduce(lambda left, right: left.unionByName(right), columns)
        self._kept_count = sum(map(len, by_realm))
        self._shares = max(self._cores() * SHARES_PER_CORE, self._kept_count // ROWS_PER_SHARE)
        self._kept = whole.repartition(self._shares, "realm", "owner").persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.count()
        for ids in by_realm:
            ids.release()

    def _built(self, capacity: int) -> BloomFilter:
        """One part per core, merged two by two; the driver receives the whole."""
        salt = secrets.token_bytes(SALT_BYTES)
        return built_bloom(self._all_kept(), self._cores(), capacity, salt, self._realms)

    # ── the sweep ───────────────────────────────────────────────────────────────────────────────────────────

    def sweep(self, work: SweepWork) -> None:
        """Limits apply to all tasks together. A run that was superseded is cancelled within a second, and none of its tasks
        begins another batch."""
        kept = self._all_kept()
        plan = plan_for_one_of(work.plan, self._cores())
        splits = list(work.splits)
        results = ResultsAccumulator(self._context)
        numbers = self._spark.range(0, len(splits), 1, max(1, len(splits)))
        if self._bloom is not None:
            swept = numbers.mapInArrow(sweeping(self._store_url, plan, splits, self._bloom, results), RESULT_DDL)
        else:
            realms = [*self._realms, *sorted(plan.purging)]
            scanned = numbers.mapInArrow(scanning(self._store_url, plan, realms, splits, results), SCANNED_DDL)
            owned = scanned.withColumn("owner", sql.abs("id"))  # as `owner_id` says
            judged = joined(owned.repartition(self._shares, "realm", "owner"), kept)
            swept = judged.mapInArrow(deleting(self._store_url, plan, realms, results), RESULT_DDL)
        watched(self._context, swept.collect, results, work)

    def _all_kept(self) -> DataFrame:
        if self._kept is None:
            raise MaintenanceRefused("no filter was made.", field="filter")
        return self._kept

    def _cores(self) -> int:
        return max(1, int(self._context.defaultParallelism))


def joined(scanned: DataFrame, kept: DataFrame) -> DataFrame:
    """Each scanned row, with whether its id, or its owner's, is one of those that must stay. Sorted and merged, so that it
    spills to disk instead of running out of memory."""
    return scanned.join(kept.withColumn("kept", sql.lit(True)).hint("merge"), ["realm", "owner"], "left")


def plan_for_one_of(plan: SweepPlan, tasks: int) -> SweepPlan:
    return msgspec.structs.replace(
        plan, rows_per_second=plan.rows_per_second / tasks, deletes_per_second=plan.deletes_per_second / tasks
    )


def built_bloom(ids: DataFrame, parts: int, capacity: int, salt: bytes, realms: Sequence[str]) -> BloomFilter:
    """`ids` has the number of a realm and an id."""
    made = ids.coalesce(parts).mapInArrow(building(capacity, salt, realms), "part binary").rdd
    whole: BloomFilter = made.map(lambda row: _unpickled(row[0])).treeReduce(lambda left, right: left.merge(right))
    return whole


def building(capacity: int, salt: bytes, realms: Sequence[str]) -> Callable[[Batches], Batches]:
    """Runs on a worker: takes ids that must stay, yields a filter of its share."""

    def built(batches: Batches) -> Batches:
        bloom = BloomFilter(capacity, salt)
        for realm, ids in ids_by_realm(batches, realms):
            bloom.add_many(realm, ids)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(bloom)], pa.binary())], names=["part"])

    return built


def probing(broadcast: Any, realms: Sequence[str]) -> Callable[[Batches], Batches]:
    def probed(batches: Batches) -> Batches:
        bloom: BloomFilter = broadcast.value
        count = 0
        for realm, ids in ids_by_realm(batches, realms):
            kept = bloom.keeps_many(realm, ids)
            if not kept.all():
                raise lost_by_filter(realm, int(ids[~kept][0]))
            count += len(ids)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["probed"])

    return probed


def ids_by_realm(batches: Batches, realms: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for batch in batches:
        numbers, ids = batch.column(0).to_numpy(), batch.column(1).to_numpy()
        for number in sorted(set(numbers.tolist())):
            yield realms[number], ids[numbers == number]


def _unpickled(content: bytes) -> BloomFilter:
    bloom: BloomFilter = pickle.loads(content)  # noqa: S301 - our own bytes
    return bloom
