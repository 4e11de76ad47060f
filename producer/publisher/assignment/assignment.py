"""Decides which realm is published in which generation, from the store's realms and the cluster's topics.

Checked repeatedly: realms come and go, topics are re-created or grow. A failure in one realm does not affect the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import realm_name_of
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.assignment.shard_leases import Leases
from headwater.producer.publisher.kafka.realm_topics import RealmTopics
from headwater.producer.publisher.kafka.topics import Topics
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import HeadwaterError, PublisherStopped, RealmNotActive

PUBLISHED = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})
"""A closed realm may still have entries to publish."""
ALL_SHARDS = -1

Leave = Callable[[str], None]
"""Give back what is held of a realm instance."""
TurnOver = Callable[[Generation, RealmTopics], None]


class PublishAssignment:
    def __init__(
        self,
        store: Store,
        options: PublisherOptions,
        topics: Topics,
        generations: Generations,
        leases: Leases,
        alarms: Alarms,
        only: frozenset[str],
    ) -> None:
        self._realms = Realms(store)
        self._options = options
        self._topics = topics
        self._generations = generations
        self._leases = leases
        self._alarms = alarms
        self._only = only
        self._looked_at = self._checked_at = float("-inf")
        self.instances: list[str] = []
        """Those that are to be published."""
        self.current: dict[str, Generation] = {}
        """Those that can be, each in the generation in force."""
        self.alarmed: set[str] = set()
        self.trouble: dict[str, str] = {}

    def look(self, leave: Leave) -> None:
        """For realms that came or went."""
        if time.monotonic() - self._looked_at < self._options.realm_check_seconds:
            return
        published_before = [generation.realm for generation in self._generations.list()]
        realms = list(self._realms.all())
        there = {realm.instance for realm in realms}
        wanted = [realm.instance for realm in realms if realm.status in PUBLISHED and self._is_wanted(realm.name)]
        self.instances = wanted
        for realm in [realm for realm in self.current if realm not in wanted]:
            leave(realm)
        for realm in published_before:
            if realm not in there:
                self._forget(realm)
        self._looked_at = time.monotonic()

    def check(self, leave: Leave, turn_over: TurnOver) -> None:
        """Compare the topics with those of the generation in force, in one question for all realms."""
        unknown = [realm for realm in self.instances if realm not in self.current]
        if not unknown and time.monotonic() - self._checked_at < self._options.topic_check_seconds:
            return
        stored = {generation.realm: generation.apart for generation in self._generations.list()}
        found = self._topics.find({realm: stored.get(realm, self._options.access_topic) for realm in self.instances})
        for realm in self.instances:
            self._try_to_settle(realm, found[realm], leave, turn_over)
        self._checked_at = time.monotonic()

    def in_force(self, generation: Generation) -> bool:
        return self._generations.read(generation.realm) == generation

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _try_to_settle(self, realm: str, topics: RealmTopics | None, leave: Leave, turn_over: TurnOver) -> None:
        self.trouble.pop(realm, None)
        try:
            self._settle(realm, topics, leave, turn_over)
            if realm in self.alarmed:
                self._alarms.clear(realm, ALL_SHARDS)
                self.alarmed.discard(realm)
        except PublisherStopped as error:
            self._alarms.sound(realm, ALL_SHARDS, error)
            self.alarmed.add(realm)
        except HeadwaterError as error:
            self.trouble[realm] = str(error)

    def _settle(self, realm: str, topics: RealmTopics | None, leave: Leave, turn_over: TurnOver) -> None:
        stored = self._generations.read(realm)
        apart = self._options.access_topic if stored is None else stored.apart
        if topics is None or apart != (topics.access is not None):
            self._require_published(realm)
            topics = self._topics.ensure(realm, apart=apart)
        if stored is None:
            self._topics.check(topics)
            stored = self._generations.first(realm, topics)
        if not stored.fits(topics):
            leave(realm)  # own shards first: they hold leases of the old generation
            self._topics.check(topics)
            turn_over(stored, topics)
        now = self._generations.read(realm)
        if now is not None and now.fits(topics):
            if self.current.get(realm) not in (None, now):
                leave(realm)
            self.current[realm] = now

    def _require_published(self, realm: str) -> None:
        """⚠ A realm that was given up since we looked must not get back the topics that its purge has deleted."""
        now = self._realms.get(realm_name_of(realm))
        if now.instance != realm or now.status not in PUBLISHED:
            raise RealmNotActive(f"{realm} is {now.status} and is published no more.", field="realm", realm=realm)

    def _forget(self, realm: str) -> None:
        """Its rows in `::system::`; what is in Kafka stays until its retention ends."""
        self._leases.forget(f"{realm}/")
        self._alarms.forget(f"{realm}/")
        self._generations.forget(realm)

    def _is_wanted(self, name: str) -> bool:
        return not self._only or name in self._only
