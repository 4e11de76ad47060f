"""The generation that the store keeps for a realm's topics, and whether it still fits them.

A generation is one run of a realm's records through one pair of topics: other topic ids or partition counts, or an operator's
word, end it. The row is moved by CAS, so that all publishers of a realm agree on where they are.
"""

from __future__ import annotations

import math

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.producer.publisher.kafka.realm_topics import RealmTopics
from headwater.schemas.errors import NotFound, StoreUnavailable

GENERATION_TYPE = "publisher-generation"


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    number: int
    topics: RealmTopics
    begins: int = 1
    """The newest generation that began anew: this one, or one that this one continues."""
    restart: bool = False
    """An operator asked for a new generation that begins at the oldest entries."""

    @property
    def shards(self) -> int:
        return self.topics.progress.partitions

    def partitions_of(self, shard: int) -> list[int]:
        """Where the pointers of a shard go in the commits topic: both numbers come from one hash."""
        partitions = self.topics.commits.partitions
        together = math.gcd(partitions, self.shards)
        return [partition for partition in range(partitions) if partition % together == shard % together]

    def fits(self, topics: RealmTopics) -> bool:
        return not self.restart and self.topics == topics

    def carries_over(self, topics: RealmTopics) -> bool:
        """Whether what was published stays readable: then the next generation goes on where this one ends."""
        same = self.topics.commits.id == topics.commits.id and self.topics.progress.id == topics.progress.id
        return same and not self.restart


class Generations:
    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def read(self, realm: str) -> Generation | None:
        return read_generation(self._backend, realm)

    def begins(self, realm: str) -> int:
        """The newest generation that began anew. ⚠ Records of earlier ones are of a history that has ended."""
        found = self.read(realm)
        return 1 if found is None else found.begins

    def list(self) -> list[Generation]:
        return [_generation(row) for row in self._backend.list_mutable(SYSTEM_REALM, GENERATION_TYPE)]

    def first(self, realm: str, topics: RealmTopics) -> Generation:
        """First contact; whoever else made it at the same time has made the one that counts."""
        wanted = Generation(realm=realm, number=1, topics=topics)
        self._backend.insert_mutable(SYSTEM_REALM, self._row(None, wanted))
        found = self.read(realm)
        if found is None:
            raise StoreUnavailable(f"the first generation of {realm} was written and is not there.")
        return found

    def open(self, before: Generation, after: Generation) -> bool:
        """Behind the old one, if it is still the one in force."""
        return self._replace(before, after)

    def restart(self, realm: str) -> Generation:
        """Ask for a new generation: after a restored backup there is no other way on."""
        found = self.read(realm)
        if found is None:
            raise NotFound(f"{realm} was never published.", field="realm", remedy="`headwater publish` begins with it.")
        self._replace(found, msgspec.structs.replace(found, restart=True))
        return found

    def forget(self, realm: str) -> None:
        row = self._backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, realm)
        if row is not None:
            self._backend.delete_mutable(SYSTEM_REALM, row)

    def _replace(self, before: Generation, after: Generation) -> bool:
        row = self._backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, before.realm)
        if row is None or _generation(row) != before:
            return False
        return self._backend.update_mutable(SYSTEM_REALM, row, self._row(row, after))

    def _row(self, before: MutableRow | None, generation: Generation) -> MutableRow:
        return MutableRow(
            type=GENERATION_TYPE,
            key=generation.realm,
            version=before.version + 1 if before else 1,
            created_at=before.created_at if before else self._clock.now_micros(),
            payload=msgspec.json.encode(generation),
        )


def read_generation(backend: Backend, realm: str) -> Generation | None:
    row = backend.read_mutable(SYSTEM_REALM, GENERATION_TYPE, realm)
    return None if row is None else _generation(row)


def _generation(row: MutableRow) -> Generation:
    return msgspec.json.decode(row.payload, type=Generation)
