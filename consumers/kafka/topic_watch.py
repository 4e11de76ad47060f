"""Notices that a realm was created again, or that the topic that a reader follows is gone."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import topic_to_read
from headwater.schemas.errors import CursorReset

LOOK_SECONDS = 5.0
"""Seconds between two checks of the brokers' topics and partitions."""
ABSENT_SECONDS_MAX = 30.0
"""A topic that a publisher re-creates is missing for a moment; one that stays missing is gone."""


class TopicWatch:
    def __init__(
        self,
        source: KafkaSource,
        topic: str,
        topics: Callable[[], Awaitable[set[str]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._topic = topic
        self._topics = topics
        self._clock = clock
        self._next_look = clock() + LOOK_SECONDS
        self._seen_at = clock()

    async def is_due(self) -> bool:
        """Whether it was time for a check. ⚠ `CursorReset` if the realm was re-created, or its topic stays missing: new entries
        would never arrive."""
        if self._clock() < self._next_look:
            return False
        self._next_look = self._clock() + LOOK_SECONDS
        found = topic_to_read(self._source, await self._topics())
        if found == self._topic:
            self._seen_at = self._clock()
        elif found is not None and found > self._topic:
            raise self._reset("was re-created and has a new topic")
        elif self._clock() - self._seen_at > ABSENT_SECONDS_MAX:
            raise self._reset("has lost its topic")
        return True

    def _reset(self, what: str) -> CursorReset:
        return CursorReset(
            f"the realm {self._source.realm!r} {what}; this reader follows {self._topic}.",
            field="realm",
            remedy="Take a snapshot if the realm lives, and start the reader again.",
        )
