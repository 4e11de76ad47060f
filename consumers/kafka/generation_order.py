"""Orders records of several partitions generation by generation. Does no I/O.

When a topic gets more partitions, pointers move to other ones. ⚠ A pointer's later records must not be taken before those that
are left in its old partition: they would look like a gap, or, worse, like the place where the pointer begins.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aiokafka import TopicPartition

from headwater.schemas.kafka_records import FeedRecord


class Fetched(NamedTuple):
    partition: TopicPartition
    offset: int
    record: FeedRecord


class GenerationOrder:
    """Holds records back while other partitions may still deliver some of an earlier generation."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[Fetched]] = {}
        self._open = 0
        """The newest generation of which records may be taken."""

    def add(self, fetched: Fetched) -> None:
        self._waiting.setdefault(fetched.partition, deque()).append(fetched)

    def next(self) -> Fetched | None:
        """The next record that may be taken."""
        partition = self._lowest()
        if partition is None or self._waiting[partition][0].record.generation > self._open:
            return None
        taken = self._waiting[partition].popleft()
        if not self._waiting[partition]:
            del self._waiting[partition]
        return taken

    def put_back(self, fetched: Fetched) -> None:
        """It could not be taken, and is the next one again."""
        self._waiting.setdefault(fetched.partition, deque()).appendleft(fetched)

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Partitions with held records: none of them delivers an earlier generation than that of its first one."""
        return frozenset(self._waiting)

    @property
    def is_blocked(self) -> bool:
        """Whether all held records are of generations that may not be taken yet."""
        partition = self._lowest()
        return partition is not None and self._waiting[partition][0].record.generation > self._open

    def open_next(self) -> None:
        """Every other partition was read to the end that it had after the first held record was seen."""
        partition = self._lowest()
        if partition is not None:
            self._open = max(self._open, self._waiting[partition][0].record.generation)

    def drop(self, partition: TopicPartition) -> None:
        """The partition is read again from another offset."""
        self._waiting.pop(partition, None)

    def clear(self) -> None:
        """The partitions were reassigned."""
        self._waiting.clear()
        self._open = 0

    def _lowest(self) -> TopicPartition | None:
        return min(self._waiting, key=lambda partition: self._waiting[partition][0].record.generation, default=None)
