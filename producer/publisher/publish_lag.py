"""Measures how far Kafka is behind the store, from the store's rows alone or from the progress topic. Needs no publisher.

Publishers write what Kafka has to the store every few seconds and when they end (`shard_pins`). So the figures of the store may
be some seconds old and then show too much lag, never too little. Those of the progress topic are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.generations import Generation
from headwater.producer.publisher.shards.shard_pins import known_published
from headwater.schemas.errors import CursorGone, NotFound
from headwater.schemas.topics import partition_of

if TYPE_CHECKING:
    from headwater.producer.publisher.kafka.progress import ProgressReader


class PointerLag(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer whose newest entries are not in Kafka."""

    pointer: str
    shard: int
    published: int
    head: int
    commits: int
    seconds: float
    """Since the oldest of these entries was committed."""


class ShardLag(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    shard: int
    generation: int
    pointers: int
    commits: int
    """Entries that are in the log and not in Kafka."""
    seconds: float
    behind: tuple[PointerLag, ...]
    """The pointers that lag, the one that has waited longest first."""


Published = Mapping[str, int]
"""By pointer: the newest entry that Kafka has."""


def published_in_store(store: Store, generation: Generation) -> dict[str, int]:
    return known_published(store.backend, generation.realm, generation.number)


def published_in_kafka(reader: ProgressReader, generation: Generation) -> dict[str, int]:
    """Only to look: nothing that is published rests on this reading, which no fence precedes."""
    found: dict[str, int] = {}
    for shard in range(generation.shards):
        read = reader.read(generation.realm, generation.topics.progress.name, shard, generation.number)
        found |= {pointer: position.seq for pointer, position in read.positions.items()}
    return found


def shard_lags(store: Store, generation: Generation, published: Published) -> list[ShardLag]:
    """One for each shard of the generation."""
    pointers: dict[int, list[PointerLag]] = {shard: [] for shard in range(generation.shards)}
    counts = dict.fromkeys(pointers, 0)
    for name, row in _rows(store, generation.realm):
        shard = partition_of(name, generation.shards)
        counts[shard] += 1
        reached = max(row.floor - 1, published.get(name, 0))
        if row.seq > reached:
            pointers[shard].append(
                PointerLag(
                    pointer=name,
                    shard=shard,
                    published=published.get(name, 0),
                    head=row.seq,
                    commits=row.seq - reached,
                    seconds=_seconds(store, generation.realm, name, reached),
                )
            )
    return [
        ShardLag(
            realm=generation.realm,
            shard=shard,
            generation=generation.number,
            pointers=counts[shard],
            commits=sum(one.commits for one in behind),
            seconds=max((one.seconds for one in behind), default=0.0),
            behind=tuple(sorted(behind, key=lambda one: (-one.seconds, one.pointer))),
        )
        for shard, behind in pointers.items()
    ]


def _rows(store: Store, realm: str) -> Iterator[tuple[str, PointerRow]]:
    return ((name, row) for name, row in store.backend.all_pointers(realm) if row.head)


def _seconds(store: Store, realm: str, pointer: str, reached: int) -> float:
    """0 where the entry was cut meanwhile: the next look shows the new floor."""
    try:
        (oldest,) = PointerLog(store.kernel(realm), pointer).page(reached, 1).entries
    except (CursorGone, NotFound, ValueError):
        return 0.0
    return max(0.0, (store.clock.now_micros() - oldest.entry.time) / MICROS)
