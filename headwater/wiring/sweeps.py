"""What a sweep works with: where the retained set comes from, who scans and deletes, and what is done afterwards.

Used by `maintain sweep`, `maintain schedule`, `serve --maintain` and the demo.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import RetainedSource, WalkedSource
from headwater.streaming.schedule import SweepBackend
from headwater.streaming.sweep.executors import LocalExecutor, SweepExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LockOf = Callable[[str], AbstractContextManager[object]]
"""By realm: held while its set is changed, where other threads of this process change it too."""


def unlocked(_: str) -> AbstractContextManager[object]:
    return nullcontext()


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    on_spark: bool = False
    """Mark, scan and delete on Spark's workers, not on threads of this process."""
    by_stream: bool = False
    """Take what must stay from the streamed set, brought up to the heads, and compact it; not by walking."""
    threads: int = 1

    @property
    def needs_spark(self) -> bool:
        return self.on_spark or self.by_stream


def scheduled_plan(settings: Settings) -> SweepPlan:
    """One thread, so that a machine that also serves is not taken over by its maintenance."""
    return SweepPlan(on_spark=settings.maintain_on_spark, by_stream=settings.maintain_by_stream)


def sweep_backend(settings: Settings, plan: SweepPlan, store: Store, identifiers: Identifiers) -> SweepBackend:
    """The Spark session that it opens ends with the sweep: its memory is not held until the next one."""
    if not plan.needs_spark:
        return SweepBackend(WalkedSource(store.backend, identifiers), LocalExecutor(store.backend, plan.threads))
    spark = quiet_spark(settings)
    return spark_sweep_backend(settings, plan, store, spark)._replace(close=spark.stop)


def spark_sweep_backend(
    settings: Settings, plan: SweepPlan, store: Store, spark: SparkSession, *, lock_of: LockOf = unlocked
) -> SweepBackend:
    """On a session that is open, and stays open."""
    if not plan.by_stream:
        from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource

        return SweepBackend(SparkWalkedSource(spark, settings.store), _executor(settings, plan, store, spark))
    return SweepBackend(
        _caught_up(settings, store, spark, lock_of),
        _executor(settings, plan, store, spark),
        on_swept=partial(_compact, settings, spark, lock_of),
    )


def streamed_source(settings: Settings, spark: SparkSession) -> RetainedSource:
    """The streamed set as it is."""
    from headwater.streaming.spark_jobs.retained_rows import StreamedSource

    return StreamedSource(spark, settings.maintenance_dir)


def quiet_spark(settings: Settings) -> SparkSession:
    """What goes wrong is one line at the end, not the JVM's stacks."""
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
    """What the sweep has proved complete is made smaller; a set that grew meanwhile is left for the next time."""
    from headwater.schemas.errors import RetainedMoved
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark_jobs.retained_rows import compact

    floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
    with contextlib.suppress(RetainedMoved), lock_of(fenced.realm):
        compact(spark, RetainedStore(settings.maintenance_dir, fenced.realm), floors)


def _executor(settings: Settings, plan: SweepPlan, store: Store, spark: SparkSession) -> SweepExecutor:
    if not plan.on_spark:
        return LocalExecutor(store.backend, plan.threads)
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor

    return SparkExecutor(spark, settings.store, store.backend)
