"""Keeps a streamed retained set, from the log and from Kafka, and sweeps by it; two of them share one set."""

from __future__ import annotations

from headwater.embedded import Headwater
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.catch_up_source import CatchUpSource
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.runs.runs import Runs
from headwater.streaming.sources import kafka_changes
from headwater.streaming.sources.kafka_changes import KafkaOptions
from headwater.streaming.spark_jobs.retained_job import HERE_CHANGES_MAX, RetainedJob
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import GRACE_SECONDS_MIN, Sweep, SweepOptions
from tests.simulation.world.broker import BrokerError
from tests.simulation.world.environment import REALM, Environment
from tests.simulation.world.retained_spark import RetainedSession

RULES = ("*=1n", "*=3n", "*=10n")


class Retainer:
    def __init__(self, env: Environment, name: str, *, kafka_share: float = 0.6) -> None:
        """`kafka_share`: how often the set is fed from the topic, not from the log."""
        self.name = name
        self._kafka_share = kafka_share
        self._turns = 0
        self._env = env
        self._chance = env.chance(name)
        self._folder = str(env.folder / "retained")

    def work(self) -> None:
        engine = self._env.open()
        stores: dict[str, Store] = self._env.shared.setdefault("stores", {})
        stores[self.name] = engine.store
        kafka_changes.opened_store = lambda _: stores[self._env.scheduler.process.name]  # type: ignore[assignment]
        kafka_changes.opened_kernel = lambda _, realm: stores[self._env.scheduler.process.name].kernel(realm)  # type: ignore[assignment]
        while not self._env.quiet:
            self._env.scheduler.sleep(self._chance.choice((0.2, 0.5, 2.0)))
            work = self._chance.choices((self._catch_up, self._expire, self._sweep), (6, 2, 3))[0]
            try:
                work(engine)
                self._env.happened[f"retained {work.__name__}"] += 1
            except (HeadwaterError, BrokerError) as error:
                self._env.happened[f"retained {type(error).__name__}"] += 1

    def _catch_up(self, engine: Headwater) -> None:
        instance = engine.realm(REALM).kernel.realm
        session = RetainedSession(self._env, engine.store)
        self._turns += 1
        here_max = HERE_CHANGES_MAX * (self._turns % 2)  # every other time without a stream
        sets = RetainedStore(self._folder, instance)
        job = RetainedJob(session, engine.store, "simulated", sets, here_max=here_max)  # type: ignore[arg-type]
        if self._chance.random() < self._kafka_share and self._env.broker.topics:
            job.run_kafka(KafkaOptions(bootstrap="simulated", realm_instance=instance, store="simulated"))
        else:
            job.run()

    def _expire(self, engine: Headwater) -> None:
        instance = engine.realm(REALM).kernel.realm
        with Runs(engine.store.backend, engine.store.clock).run("expire") as run:
            expire_realms(engine.store, run, [instance], parse_retention(self._chance.choice(RULES)))

    def _sweep(self, engine: Headwater) -> None:
        known, backend, runs = Identifiers(), engine.store.backend, Runs(engine.store.backend, engine.store.clock)
        streamed = StreamedSource(RetainedSession(self._env, engine.store), self._folder)  # type: ignore[arg-type]
        source = CatchUpSource(streamed, lambda _: self._catch_up(engine), tries_max=3)
        options = SweepOptions(grace_seconds=GRACE_SECONDS_MIN, splits=2)
        with runs.run("sweep") as run:
            report = Sweep(engine.store, source, LocalExecutor(backend), known, options).run(
                runs, run, [engine.realm(REALM).kernel.realm]
            )
        self._env.happened["swept by a streamed set"] += bool(report.swept)

    def is_done(self) -> bool:
        return True

    def check(self) -> None: ...
