"""The generation that the store keeps for a realm's topics, and whether it still fits them.

A generation is one run of a realm's records through one pair of topics: other topic ids or partition counts, or an operator's
word, end it. The row is moved by CAS, so that all publishers of a realm agree on where they are.
"""

from __future__ import annotations

import math

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.schemas.errors import NotFound, StoreUnavailable

GENERATION_TYPE = "publisher-generation"


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    number: int
    topics: RealmTopics
    begins: int = 1
    """The newest generation that started over: this one, or one that this one continues."""
    restart: bool = False
    """An operator asked for a new generation that begins at the oldest entries."""
    apart: bool = False
    """Whether access records go to a topic of their own. ⚠ Kept here, not read from a setting: publishers with other settings
    would end each other's generations forever."""

    @property
    def shards(self) -> int:
        return self.topics.progress.partitions

    def partitions_of(self, shard: int, topic: Topic) -> list[int]:
        """Where the pointers of a shard go in a topic of Changes: both numbers come from one hash."""
        together = math.gcd(topic.partitions, self.shards)
        return [partition for partition in range(topic.partitions) if partition % together == shard % together]

    def fits(self, topics: RealmTopics) -> bool:
        return not self.restart and self.topics == topics

    def carries_over(self, topics: RealmTopics) -> bool:
        """Whether what was published stays readable: then the next generation continues where this one ends."""
        return not self.restart and [topic.id for topic in self.topics.all] == [topic.id for topic in topics.all]


class Generations:
    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def read(self, realm: str) -> Generation | None:
        return read_generation(self._backend, realm)

    def begins(self, realm: str) -> int:
        """The newest generation that started over. ⚠ Records of earlier ones are of a history that has ended."""
        found = self.read(realm)
        return 1 if found is None else found.begins

    def list(self) -> list[Generation]:
        return [_generation(row) for row in self._backend.all_mutable(SYSTEM_REALM, GENERATION_TYPE)]

    def first(self, realm: str, topics: RealmTopics) -> Generation:
        """Creates the first generation; of concurrent creators the first one wins."""
        wanted = Generation(realm=realm, number=1, topics=topics, apart=topics.access is not None)
        self._write(None, wanted)
        found = self.read(realm)
        if found is None:
            raise StoreUnavailable(f"the first generation of {realm} was written and is not there.")
        return found

    def open(self, before: Generation, after: Generation) -> bool:
        """Behind the old one, if it is still the one in force."""
        return self._replace(before, after)

    def restart(self, realm: str, *, apart: bool | None = None) -> Generation:
        """Ask for a new generation: after a restored backup there is no other way on. With `apart` its layout changes too."""
        found = self.read(realm)
        if found is None:
            raise NotFound(f"{realm} was never published.", field="realm", remedy="`headwater publish` begins with it.")
        layout = found.apart if apart is None else apart
        self._replace(found, msgspec.structs.replace(found, restart=True, apart=layout))
        return found

    def forget(self, realm: str) -> None:
        row = self._backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, realm)
        if row is not None:
            delete_row(self._backend, SYSTEM_REALM, row, self._clock)

    def _replace(self, before: Generation, after: Generation) -> bool:
        row = self._backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, before.realm)
        if row is None or _generation(row) != before:
            return False
        return self._write(row, after)

    def _write(self, before: MutableRow | None, generation: Generation) -> bool:
        payload = msgspec.json.encode(generation)
        row = next_row(GENERATION_TYPE, generation.realm, before, payload, self._clock.now_micros())
        return cas_row(self._backend, SYSTEM_REALM, before, row, self._clock)


def read_generation(backend: Backend, realm: str) -> Generation | None:
    row = backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, realm)
    return None if row is None else _generation(row)


def _generation(row: MutableRow) -> Generation:
    return msgspec.json.decode(row.payload, type=Generation)
