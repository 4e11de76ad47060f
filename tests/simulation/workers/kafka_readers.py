"""Reads the realm's Changes from Kafka: as a member of a group, as a follower, or from the beginning each time."""

from __future__ import annotations

from aiokafka.errors import KafkaError

from headwater.consumers.clients.local_transport import AsyncOf, LocalTransport
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.embedded import Headwater
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, CursorGone, HeadwaterError
from tests.simulation.checks.group_checks import DeliveredLog
from tests.simulation.world.aio_kafka import driven, iterated
from tests.simulation.world.environment import REALM, Environment

BRANCH_POINTERS = ("cat/1/heads/main", "cat/1/heads/dev", "cat/1/heads/f")


def logs_of(env: Environment) -> dict[str, DeliveredLog]:
    """Shared by the members of a group: what one acknowledged, another one is not given."""
    return env.shared.setdefault("delivered", {})


class KafkaWorker:
    def __init__(self, env: Environment, name: str, *, group: str | None, follow: bool) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._group = group
        self._follow = follow
        self._log = logs_of(env).setdefault(group or name, DeliveredLog(env, group or name))

    def work(self) -> None:
        engine = self._env.open()
        while True:
            member = f"{self.name} at step {self._env.scheduler.steps}"
            if self._group is None:
                self._log.begin_again()
            try:
                self._read(engine, member)
            except (CursorGone, ChainBroken) as error:
                self._env.happened[f"kafka reader {type(error).__name__}"] += 1
                self._was_told()
            except (HeadwaterError, KafkaError) as error:
                self._env.happened[f"kafka reader {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.5)

    def _read(self, engine: Headwater, member: str) -> None:
        feed = engine.realm(REALM).feed
        log = AsyncOf(LocalTransport(feed, ["root"]))
        reader = KafkaReader(KafkaSource(bootstrap="simulated", realm=REALM, group=self._group), log=log)
        driven(reader.__aenter__())
        try:
            for change in iterated(reader.changes(follow=self._follow)):
                self._give(member, change)
                if self._group is not None and self._chance.random() < 0.4:
                    driven(reader.acknowledge())
            if self._group is not None:
                driven(reader.acknowledge())
        finally:
            driven(reader.__aexit__())

    def _was_told(self) -> None:
        """A typed error says that something is missing: a group then begins again; whoever reads all anew knows it."""
        if self._group is not None:
            self._env.broker.group(self._group).offsets.clear()
            self._log.begin_again()
        self._log.was_told = self._group is None

    def _give(self, member: str, change: Change) -> None:
        self._env.happened[f"{self.name} given"] += 1
        self._log.give(member, change)

    def is_done(self) -> bool:
        return self._log.has_all(BRANCH_POINTERS)

    def check(self) -> None:
        self._log.check(BRANCH_POINTERS)
