"""What a sweep works with: where the retained set comes from, who scans and deletes, and what is done afterwards. Also who
deletes the rows of purged realms.

Used by `maintain sweep`, `maintain purge-realms`, `maintain schedule`, `serve --maintain` and the demo.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.coordination.incarnation import ensure_incarnation
from headwater.persistence.realms.realm_purge import DeleteByScan, delete_by_scan
from headwater.persistence.store import Store
from headwater.schemas.errors import InvalidInput, MissingDependency
from headwater.settings import Settings
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import RetainedSource, WalkedSource
from headwater.streaming.runs.realm_sets import instances_to_maintain
from headwater.streaming.runs.runs import Run
from headwater.streaming.schedule import SweepBackend
from headwater.streaming.sweep.executors import LocalExecutor, SweepExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)

LockOf = Callable[[str], AbstractContextManager[object]]
"""By realm: held while its set is changed, if other threads of this process change it too."""


def unlocked(_: str) -> AbstractContextManager[object]:
    return nullcontext()


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    on_spark: bool = False
    """Mark, scan and delete on Spark's workers, not on threads of this process."""
    by_stream: bool = False
    """Take what must stay from the streamed set, brought up to the heads, and compact it; no walking."""
    threads: int = 1

    @property
    def needs_spark(self) -> bool:
        return self.on_spark or self.by_stream


def scheduled_sweep_backend(settings: Settings, store: Store, identifiers: Identifiers) -> SweepBackend:
    """Uses the streamed set that `headwater stream` keeps, as the settings say. One thread deletes, unless Spark's workers do,
    so that maintenance does not take over a machine that also serves."""
    plan = SweepPlan(on_spark=settings.maintain_on_spark, by_stream=True)
    if settings.maintain_by_stream == "always":
        return sweep_backend(settings, plan, store, identifiers)
    walking = msgspec.structs.replace(plan, by_stream=False)
    is_possible = store.backend.abilities.shared_between_processes and not identifiers.are_plugged_in
    if settings.maintain_by_stream == "never" or not is_possible:
        return sweep_backend(settings, walking, store, identifiers)
    try:
        return sweep_backend(settings, plan, store, identifiers)
    except (MissingDependency, InvalidInput) as error:
        _log.info("the sweep walks: %s", error)
        return sweep_backend(settings, walking, store, identifiers)


def claim_sets(settings: Settings, store: Store) -> None:
    """`InvalidInput` if the folder of sets belongs to another store or cannot be written, before Spark starts."""
    from headwater.streaming.retained.folder_owner import claim_folder

    claim_folder(settings.maintenance_dir, ensure_incarnation(store.backend, store.clock).id, instances_to_maintain(store))


def sweep_backend(settings: Settings, plan: SweepPlan, store: Store, identifiers: Identifiers) -> SweepBackend:
    """The Spark session that it opens ends with the sweep: its memory is not held until the next one."""
    if not plan.needs_spark:
        return SweepBackend(WalkedSource(store.backend, identifiers), LocalExecutor(store.backend, plan.threads))
    if plan.by_stream:
        claim_sets(settings, store)
    spark = quiet_spark(settings)
    return spark_sweep_backend(settings, plan, store, spark)._replace(close=spark.stop)


def spark_sweep_backend(
    settings: Settings, plan: SweepPlan, store: Store, spark: SparkSession, *, lock_of: LockOf = unlocked
) -> SweepBackend:
    """Uses a session that is open, and leaves it open."""
    if not plan.by_stream:
        from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource

        return SweepBackend(SparkWalkedSource(spark, settings.store), _executor(settings, plan, store, spark))
    return SweepBackend(
        _caught_up(settings, store, spark, lock_of),
        _executor(settings, plan, store, spark),
        on_swept=partial(_compact, settings, spark, lock_of),
    )


@contextlib.contextmanager
def opened_purge_scan(settings: Settings, store: Store, run: Run, *, on_spark: bool) -> Iterator[DeleteByScan]:
    """How rows of realms are deleted if the database does not delete by realm; otherwise no session is started."""
    if not on_spark or store.backend.abilities.can_delete_realms:
        yield delete_by_scan
        return
    spark = quiet_spark(settings)
    try:
        yield spark_purge_scan(settings, spark, run)
    finally:
        spark.stop()


def spark_purge_scan(settings: Settings, spark: SparkSession, run: Run) -> DeleteByScan:
    """Uses a session that is open, and leaves it open."""
    from headwater.streaming.spark_jobs.spark_purge import SparkScans

    return SparkScans(spark, settings.store, run.lease.claim)


def streamed_source(settings: Settings, spark: SparkSession) -> RetainedSource:
    """The streamed set as it is."""
    from headwater.streaming.spark_jobs.retained_rows import StreamedSource

    return StreamedSource(spark, settings.maintenance_dir)


def quiet_spark(settings: Settings) -> SparkSession:
    """An error is one line at the end, without the JVM's stack traces."""
    from headwater.wiring.spark import open_spark

    spark = open_spark(settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _caught_up(settings: Settings, store: Store, spark: SparkSession, lock_of: LockOf) -> RetainedSource:
    """Brought up to the heads of the fence: writers that continue are always ahead of the set."""
    from headwater.streaming.retained.catch_up_source import CatchUpSource
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark.spark_errors import typed_errors
    from headwater.streaming.spark_jobs.retained_job import HERE_CHANGES_MAX, RetainedJob

    def catch_up(realm: str) -> None:
        with lock_of(realm), typed_errors():  # a folder that cannot be written is the failure of its realm alone
            retained = RetainedStore(settings.maintenance_dir, realm)
            RetainedJob(spark, store, settings.store, retained, here_max=HERE_CHANGES_MAX).run()

    return CatchUpSource(streamed_source(settings, spark), catch_up)


def _compact(settings: Settings, spark: SparkSession, lock_of: LockOf, fenced: FencedRealm) -> None:
    """Compacts what the sweep has proved complete, while updates go on; a set that was begun again meanwhile is left for the
    next time."""
    from headwater.schemas.errors import RetainedMoved
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark_jobs.retained_rows import compact

    floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
    with contextlib.suppress(RetainedMoved):
        compact(spark, RetainedStore(settings.maintenance_dir, fenced.realm), floors, lock_of(fenced.realm))


def _executor(settings: Settings, plan: SweepPlan, store: Store, spark: SparkSession) -> SweepExecutor:
    if not plan.on_spark:
        return LocalExecutor(store.backend, plan.threads)
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor

    return SparkExecutor(spark, settings.store, store.backend)
