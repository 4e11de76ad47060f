"""Publishes the log to Kafka, as `headwater publish` does, and the operator who looks after its alarms."""

from __future__ import annotations

from headwater.persistence.realms.realms import Realms
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.errors import HeadwaterError
from tests.simulation.world.environment import REALM, Environment

OPTIONS = PublisherOptions(
    bootstrap="simulated",
    partitions=2,
    shards=2,
    lease_seconds=6.0,
    poll_seconds=0.5,
    topic_check_seconds=1.0,
    realm_check_seconds=1.0,
    retry_seconds_max=1.0,
    alarm_retry_seconds=2.0,
    recovery_seconds=5.0,
    kafka_timeout_seconds=5.0,
    pin_write_seconds=1.0,
    readable_check_seconds=5.0,
    batch_changes=5,
)
RESTARTING_ALARMS = frozenset({"STORE_BEHIND_KAFKA", "LOG_DIVERGED"})


class PublisherWorker:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env

    def work(self) -> None:
        engine = self._env.open()
        Publisher(engine.store, OPTIONS).run()

    def is_done(self) -> bool:
        return True

    def check(self) -> None: ...


class Operator:
    """Reads alarms and does what their remedy says: after a restore, a new generation."""

    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env

    def work(self) -> None:
        engine = self._env.open()
        while True:
            self._env.scheduler.sleep(3.0)
            try:
                self._look(engine.store)
            except HeadwaterError as error:
                self._env.happened[f"operator {type(error).__name__}"] += 1

    def _look(self, store: object) -> None:
        backend, clock = store.backend, store.clock  # type: ignore[attr-defined]
        instance = Realms(store).get(REALM).instance  # type: ignore[arg-type]
        for alarm in Alarms(backend, clock).list():
            if alarm.realm == instance and alarm.code in RESTARTING_ALARMS:
                self._env.happened["publish --restart"] += 1
                Generations(backend, clock).restart(instance)
                return

    def is_done(self) -> bool:
        return True

    def check(self) -> None: ...
