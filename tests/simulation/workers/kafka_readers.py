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
ACCEPTED_SHARE = 0.6
WITHOUT_LOG_SHARE = 0.3


def logs_of(env: Environment) -> dict[str, DeliveredLog]:
    """Shared by the members of a group: what one acknowledged, another one is not given."""
    return env.shared.setdefault("delivered", {})


class KafkaWorker:
    def __init__(self, env: Environment, name: str, *, group: str | None, follow: bool, realm: str = REALM) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._is_group = group is not None
        self._follow = follow
        self._realm = realm
        self._log = logs_of(env).setdefault(group or name, DeliveredLog(env, group or name, realm))
        self._log.members.append(name)

    def work(self) -> None:
        engine = self._env.open()
        while True:
            if not self._is_group:
                self._log.begin_again()
            try:
                self._read(engine)
            except (CursorGone, ChainBroken) as error:
                self._env.happened[f"kafka reader {type(error).__name__}"] += 1
                self._start_over()
            except (HeadwaterError, KafkaError) as error:
                self._env.happened[f"kafka reader {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.5)

    def _read(self, engine: Headwater) -> None:
        member = f"{self.name} at step {self._env.scheduler.steps}"
        feed = engine.realm(self._realm).feed
        log = AsyncOf(LocalTransport(feed, ["root"])) if self._chance.random() > WITHOUT_LOG_SHARE else None
        group = self._log.group if self._is_group else None
        reader = KafkaReader(KafkaSource(bootstrap="simulated", realm=self._realm, group=group), log=log)
        driven(reader.__aenter__())
        try:
            while not self._read_on(reader, member, has_log=log is not None):
                self._env.happened["kafka reader accepted"] += 1
        finally:
            driven(reader.__aexit__())

    def _read_on(self, reader: KafkaReader, member: str, *, has_log: bool) -> bool:
        """False if the reader was told that its place is gone, and may continue."""
        try:
            for change in iterated(reader.changes(follow=self._follow)):
                self._give(member, change)
                if self._is_group and self._chance.random() < 0.4:
                    driven(reader.acknowledge())
            if self._is_group:
                driven(reader.acknowledge())
            return True
        except CursorGone as gone:
            pointer = gone.facts.get("pointer")
            if not isinstance(pointer, str) or self._chance.random() > ACCEPTED_SHARE:
                raise
            driven(reader.accept(gone))
            self._log.accepted(pointer, has_log=has_log)
            return False

    def _start_over(self) -> None:
        """A typed error said that something is missing. A group is given up: its members begin as another group, all of them,
        because one that continued would acknowledge for those that begin again. Whoever reads all anew knows it."""
        self._log.begin_again()
        self._log.was_told = not self._is_group
        if self._is_group:
            self._log.number += 1
            for member in self._log.members:
                if member != self.name:
                    self._env.kill(member)

    def _give(self, member: str, change: Change) -> None:
        self._env.happened[f"{self.name} given"] += 1
        self._log.give(member, change)

    def is_done(self) -> bool:
        return self._log.has_all(BRANCH_POINTERS)

    def check(self) -> None:
        self._log.check(BRANCH_POINTERS)
