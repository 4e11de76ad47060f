"""The stream application from settings: one Spark session, the sets of all realms, and the tasks of the maintenance cycle."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.rows import SYSTEM_REALM, realm_name_of
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.generations import read_generation
from headwater.settings import Settings
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.runs.realm_sets import instances_to_maintain
from headwater.streaming.schedule import CycleTools, SweepBackend, run_cycle
from headwater.streaming.stream.stream_app import StreamApp, StreamParts, Task, Updated
from headwater.wiring.external_resources import external_resources
from headwater.wiring.kafka_client import KafkaClient
from headwater.wiring.maintenance import schedule_options
from headwater.wiring.sweeps import SweepPlan, spark_sweep_backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = 10.0
    """Between two rounds over the realms."""
    batch: int = 100_000
    """The most Changes in one micro-batch."""
    expire_seconds: float = 6 * 3_600.0
    purge_seconds: float = 6 * 3_600.0
    sweep_seconds: float = 6 * 3_600.0
    archive_seconds: float = 3_600.0
    archive: str = ""
    """A folder of archives, one for each realm; none if empty."""
    realms: tuple[str, ...] = ()


def stream_app(
    settings: Settings,
    store: Store,
    spark: SparkSession,
    client: KafkaClient | None,
    options: StreamOptions,
    stopping: threading.Event,
) -> StreamApp:
    parts = _Parts(settings, store, spark, client, options, stopping)
    tasks = {
        "expire": Task(options.expire_seconds, partial(parts.cycle, "expire")),
        "purge": Task(options.purge_seconds, partial(parts.cycle, "purge")),
        "sweep": Task(options.sweep_seconds, partial(parts.cycle, "sweep")),
    }
    if options.archive:
        tasks["archive"] = Task(options.archive_seconds, parts.archive)
    return StreamApp(
        store,
        StreamParts(realms=parts.realms, update=parts.update, tasks=tasks),
        every_seconds=options.every_seconds,
        stopping=stopping,
    )


class _Parts:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        spark: SparkSession,
        client: KafkaClient | None,
        options: StreamOptions,
        stopping: threading.Event,
    ) -> None:
        self._settings = settings
        self._store = store
        self._spark = spark
        self._client = client
        self._options = options
        self._stopping = stopping

    def realms(self) -> Sequence[str]:
        return instances_to_maintain(self._store, self._options.realms)

    def update(self, instance: str) -> Updated:
        """From the realm's topics where they are asked for and it is published, else from the store's log."""
        from headwater.streaming.retained.retained_store import RetainedStore
        from headwater.streaming.sources.kafka_changes import KafkaOptions
        from headwater.streaming.spark_jobs.retained_job import RetainedJob, lag

        job = RetainedJob(
            self._spark, self._store, self._settings.store, RetainedStore(self._settings.maintenance_dir, instance)
        )
        client = self._client
        if client is None or read_generation(self._store.backend, instance) is None:
            source, state = "log", job.run(changes_per_batch=self._options.batch)
        else:
            topics = KafkaOptions(
                bootstrap=client.bootstrap,
                realm_instance=instance,
                store=self._settings.store,
                records_per_batch=self._options.batch,
                client=client.java(),
            )
            source, state = "kafka", job.catch_up_kafka(topics)
        return Updated(source, state.number, state.rows, sum(lag(self._store, state).values()))

    def cycle(self, step: str) -> Sequence[str]:
        tools = CycleTools(
            external_resources=external_resources(self._store, self._settings),
            sweep_backend=self._sweep_backend,
            is_stopping=self._stopping.is_set,
        )
        return run_cycle(self._store, schedule_options(self._settings, 3_600), tools, steps=[step]).failures

    def _sweep_backend(self, store: Store, identifiers: Identifiers) -> SweepBackend:
        """By the streamed set, on the session that stays open."""
        return spark_sweep_backend(self._settings, SweepPlan(on_spark=True, by_stream=True), store, self._spark)

    def archive(self) -> Sequence[str]:
        from headwater.schemas.errors import HeadwaterError
        from headwater.streaming.archive.archive import archive_log, reader_of
        from headwater.streaming.archive.archive_targets import archive_target
        from headwater.streaming.spark.spark_errors import typed_errors

        failures = []
        for instance in self.realms():
            if instance == SYSTEM_REALM or self._stopping.is_set():
                continue
            place = f"{self._options.archive.rstrip('/')}/{realm_name_of(instance)}"
            try:
                with typed_errors():
                    archive_log(
                        self._spark,
                        archive_target(self._spark, place),
                        store=self._settings.store,
                        realm=instance,
                        reader=reader_of(place),
                        changes_per_batch=self._options.batch,
                    )
            except HeadwaterError as error:
                failures.append(f"{instance}: {error}")
        return failures
