"""The stream application from settings: one Spark session, the sets of all realms, and the tasks of the maintenance cycle."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.rows import SYSTEM_REALM, realm_name_of
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.generations import Generation, read_generation
from headwater.settings import Settings
from headwater.streaming.files.upkeep import follow_files
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.runs.realm_sets import instances_to_maintain
from headwater.streaming.schedule import CycleTools, SweepBackend, run_cycle
from headwater.streaming.spark.session import require_master
from headwater.streaming.stream.realm_updates import RealmUpdates
from headwater.streaming.stream.stream_app import StreamApp, StreamParts, Task, Updated
from headwater.wiring.external_resources import external_resources
from headwater.wiring.kafka_client import KafkaClient
from headwater.wiring.maintenance import file_upkeep, schedule_options
from headwater.wiring.published_topics import missing_error, missing_topics, topic_bounds
from headwater.wiring.sweeps import SweepPlan, claim_sets, spark_purge_scan, spark_sweep_backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark_jobs.retained_job import RetainedJob
    from headwater.streaming.spark_jobs.topic_query import TopicQuery, TopicRealm

SETS_POOL, TASKS_POOL = "sets", "tasks"
FAIR_SHARES = {"spark.scheduler.mode": "FAIR"}
"""A sweep and the updates of sets get executors side by side, not one after the other."""


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = 10.0
    """Between two rounds over the realms."""
    batch: int = 100_000
    """The most Changes in one micro-batch."""
    expire_seconds: float = 6 * 3_600.0
    purge_seconds: float = 6 * 3_600.0
    sweep_seconds: float = 6 * 3_600.0
    files_seconds: float = 24 * 3_600.0
    follow_files_seconds: float = 0.0
    """Between two readings of new table versions into the manifest cache; never if 0."""
    archive_seconds: float = 3_600.0
    archive: str = ""
    """A folder of archives, one for each realm; none if empty."""
    parallel: int = 2
    """How many realms are updated at once."""
    realms: tuple[str, ...] = ()
    once: bool = False
    """Topics are read up to what they hold now, not on and on."""


def check_stream(settings: Settings, store: Store, client: KafkaClient | None, realms: Sequence[str]) -> None:
    """What cannot work is refused here, before Spark starts."""
    require_master(settings.spark_master)
    instances = instances_to_maintain(store, realms)
    schedule_options(settings, 3_600)
    claim_sets(settings, store)
    if client is not None:
        client.java()  # what Spark cannot honour
        known = (read_generation(store.backend, instance) for instance in instances)
        published = [generation for generation in known if generation is not None]
        missing = missing_topics(client, published)
        if missing and len(missing) == len(published):  # one that is missing is a failure of its realm alone
            raise missing_error(client, next(iter(missing.values())))


def stream_settings(settings: Settings, master: str | None) -> Settings:
    """With the master that was named, and fair shares unless they were set otherwise."""
    mode = " ".join(f"{name}={value}" for name, value in FAIR_SHARES.items())
    conf = f"{mode} {settings.spark_conf}".strip()
    return msgspec.structs.replace(settings, spark_conf=conf, spark_master=master or settings.spark_master)


def spark_failure(spark: SparkSession) -> str:
    """Why Spark can do nothing any more, or nothing. ⚠ Without its JVM every call would fail for ever."""
    context = spark.sparkContext
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is not None and process.poll() is not None:
        return f"Spark's JVM has ended with {process.returncode}."
    try:
        is_stopped = context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception as error:
        return f"Spark's JVM does not answer: {type(error).__name__}."
    return "the Spark application was stopped." if is_stopped else ""


def interrupt_spark(spark: SparkSession) -> None:
    """Sets are written whole or not at all, so nothing half done stays."""
    with contextlib.suppress(Exception):  # a JVM that is gone has nothing to interrupt
        for query in spark.streams.active:
            query.stop()
        spark.sparkContext.cancelAllJobs()


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
        "files": Task(options.files_seconds, partial(parts.cycle, "files")),
    }
    if options.follow_files_seconds:
        tasks["follow-files"] = Task(options.follow_files_seconds, parts.follow_files)
    if options.archive:
        tasks["archive"] = Task(options.archive_seconds, parts.archive)
    return StreamApp(
        store,
        StreamParts(
            realms=parts.realms,
            update=parts.update,
            tasks=tasks,
            engine_failure=partial(spark_failure, spark),
            interrupt=partial(interrupt_spark, spark),
            begin_round=parts.begin_round,
            close=parts.close,
        ),
        every_seconds=options.every_seconds,
        stopping=stopping,
        parallel=options.parallel,
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
        self._updates = RealmUpdates(
            store, self._job_of, changes_per_batch=options.batch, on_repaired=lambda instance: self._query.settle(instance)
        )
        self._sets: dict[str, RetainedStore] = {}
        self._published: set[str] = set()
        self._missing: dict[str, str] = {}

    def realms(self) -> Sequence[str]:
        return instances_to_maintain(self._store, self._options.realms)

    def begin_round(self, instances: Sequence[str]) -> None:
        """One query reads the topics of all published realms. What is known of realms that have gone is forgotten."""
        for gone in self._sets.keys() - set(instances):
            self._sets.pop(gone, None)
            self._updates.forget(gone)
        if self._client is None:
            return
        known = (read_generation(self._store.backend, instance) for instance in instances)
        published = {generation.realm: generation for generation in known if generation is not None}
        self._published = set(published)
        self._missing = missing_topics(self._client, published.values())
        there = {name: self._topic_realm(one) for name, one in published.items() if name not in self._missing}
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", SETS_POOL)
        self._follow(there)

    @cached_property
    def _query(self) -> TopicQuery:
        from headwater.streaming.spark_jobs.topic_query import TopicQuery

        assert self._client is not None  # noqa: S101 - only published realms are followed
        bounds = partial(topic_bounds, self._client)
        folder, every_seconds = self._settings.maintenance_dir, self._options.every_seconds
        return TopicQuery(self._spark, folder, bounds, self._updates, every_seconds=every_seconds)

    def _follow(self, realms: Mapping[str, TopicRealm]) -> None:
        if self._options.once:
            self._query.read_once(realms)
        else:
            self._query.follow(realms)

    def _topic_realm(self, generation: Generation) -> TopicRealm:
        from headwater.streaming.sources.kafka_changes import KafkaOptions
        from headwater.streaming.spark_jobs.topic_query import TopicRealm

        assert self._client is not None  # noqa: S101
        options = KafkaOptions(
            bootstrap=self._client.bootstrap,
            realm_instance=generation.realm,
            store=self._settings.store,
            records_per_batch=self._options.batch,
            client=self._client.java(),
            finds_gaps=True,
        )
        return TopicRealm(options, tuple(topic.name for topic in generation.topics.of_changes))

    def update(self, instance: str) -> Updated:
        """From the realm's topics where they are asked for and it is published, else from the store's log."""
        from headwater.streaming.spark.spark_errors import typed_errors

        with typed_errors():
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", SETS_POOL)
            if self._client is not None and instance in self._missing:
                raise missing_error(self._client, self._missing[instance])
            is_published = instance in self._published
            return self._updates.from_topics(instance) if is_published else self._updates.from_log(instance)

    def _job_of(self, instance: str) -> RetainedJob:
        from headwater.streaming.retained.retained_store import RetainedStore
        from headwater.streaming.spark_jobs.retained_job import HERE_CHANGES_MAX, RetainedJob

        if instance not in self._sets:
            self._sets[instance] = RetainedStore(self._settings.maintenance_dir, instance)
        return RetainedJob(self._spark, self._store, self._settings.store, self._sets[instance], here_max=HERE_CHANGES_MAX)

    def close(self) -> None:
        if self._client is not None:
            self._query.stop()

    def cycle(self, step: str) -> Sequence[str]:
        from headwater.streaming.spark.spark_errors import typed_errors

        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", TASKS_POOL)
        tools = CycleTools(
            external_resources=external_resources(self._store, self._settings),
            sweep_backend=self._sweep_backend,
            purge_scan=lambda run: nullcontext(spark_purge_scan(self._settings, self._spark, run)),
            is_stopping=self._stopping.is_set,
            files=file_upkeep(self._settings, self._spark),
        )
        with typed_errors():
            return run_cycle(self._store, schedule_options(self._settings, 3_600), tools, steps=[step]).failures

    def _sweep_backend(self, store: Store, identifiers: Identifiers) -> SweepBackend:
        """By the streamed set, on the session that stays open."""
        plan = SweepPlan(on_spark=True, by_stream=True)
        return spark_sweep_backend(self._settings, plan, store, self._spark, lock_of=self._updates.lock_of)

    def follow_files(self) -> Sequence[str]:
        """In this process: what commits bring is too little for Spark."""
        return follow_files(self._store, file_upkeep(self._settings), self._stopping.is_set)

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
