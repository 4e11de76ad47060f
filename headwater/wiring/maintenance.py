"""The parts of a maintenance cycle, for `maintain schedule` and for the server."""

from __future__ import annotations

from functools import partial

from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.schedule import CycleTools, ScheduleOptions, SweepBackend
from headwater.wiring.external_resources import external_resources


def schedule_options(settings: Settings, every_seconds: float) -> ScheduleOptions:
    parse_retention(settings.retention)  # a rule that is none is refused at once, not at night
    return ScheduleOptions(every_seconds=every_seconds, retention=settings.retention)


def cycle_tools(store: Store, settings: Settings) -> CycleTools:
    tools = CycleTools(external_resources=external_resources(store, settings))
    return tools._replace(sweep_backend=partial(spark_sweep_backend, settings)) if settings.maintain_on_spark else tools


def spark_sweep_backend(settings: Settings, store: Store, identifiers: Identifiers) -> SweepBackend:
    """Marks, joins and deletes on Spark's workers; the session ends with the sweep, its memory is not held until the next."""
    from headwater.wiring.spark import open_spark

    spark = open_spark(settings)
    spark.sparkContext.setLogLevel("OFF")
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
    from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource

    return SweepBackend(
        SparkWalkedSource(spark, settings.store), SparkExecutor(spark, settings.store, store.backend), close=spark.stop
    )
