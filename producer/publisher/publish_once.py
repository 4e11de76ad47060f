"""Publishes what is in the log now, and returns when it is in Kafka, whichever process published it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.generations import Generation
from headwater.producer.publisher.shards.shard_context import ShardStatus
from headwater.schemas.errors import HeadwaterError, KafkaUnavailable, PublisherStopped
from headwater.schemas.topics import partition_of

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher

OTHERS_SECONDS = 0.3
PAUSE_SECONDS = 0.02

_log = logging.getLogger(__name__)
Seqs = dict[str, int]
"""By pointer."""


class OneRun:
    def __init__(self, publisher: Publisher, store: Store, patience_seconds: float) -> None:
        """`patience_seconds`: how long brokers may stay away before this gives up."""
        self._publisher = publisher
        self._store = store
        self._patience_seconds = patience_seconds
        self._left: dict[tuple[str, int], Seqs] | None = None
        """What was found not to be in Kafka yet."""
        self._asked_others_at = float("-inf")
        self._got_through_at = time.monotonic()

    def run(self, timeout_seconds: float | None) -> list[ShardStatus]:
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self._publisher.is_stopping:
            self._publisher.tick()
            if self._is_done():
                break
            self._check_alarms()
            self._check_patience()
            if deadline is not None and time.monotonic() > deadline:
                raise KafkaUnavailable(f"not all was published in {timeout_seconds:g} s.", remedy="Try again.")
            self._publisher.pause(PAUSE_SECONDS)
        return self._publisher.status()

    def _is_done(self) -> bool:
        if self._left is None:
            if self._publisher.failure:
                return False
            self._left = {}
            for generation in self._publisher.settlement.current.values():
                self._left |= shares(generation, heads(self._store, generation.realm))
        for key in [key for key, seqs in self._left.items() if self._is_published(key, seqs)]:
            del self._left[key]
        return not self._left

    def _is_published(self, key: tuple[str, int], seqs: Seqs) -> bool:
        shard = self._publisher.shard(key)
        if shard is not None:
            return shard.is_caught_up(seqs)
        return not seqs or self._others_have_published(key, seqs)

    def _others_have_published(self, key: tuple[str, int], seqs: Seqs) -> bool:
        """Another publisher has the shard, or had it and died: what counts is what Kafka has. Only to look: nothing that is
        published rests on this reading, which no fence precedes."""
        realm, number = key
        generation = self._publisher.settlement.current.get(realm)
        if generation is None or time.monotonic() - self._asked_others_at < OTHERS_SECONDS:
            return False
        self._asked_others_at = time.monotonic()
        try:
            found = self._publisher.reader.read(realm, generation.topics.progress.name, number, generation.number).positions
        except HeadwaterError as error:
            _log.info("%s shard %d is in the hands of another publisher: %s", realm, number, error)
            return False
        return all(pointer in found and found[pointer].seq >= seq for pointer, seq in seqs.items())

    def _check_patience(self) -> None:
        """Publishing once waits for an answer, not for the brokers to be repaired."""
        if not self._publisher.failure:
            self._got_through_at = time.monotonic()
        elif self._got_through_at < time.monotonic() - self._patience_seconds:
            raise KafkaUnavailable(self._publisher.failure, remedy="Look at the brokers, then try again.")

    def _check_alarms(self) -> None:
        for status in self._publisher.status():
            if status.alarm is not None:
                raise PublisherStopped(f"{status.realm} shard {status.shard}: {status.alarm.message}", alarm=status.alarm.code)
        alarmed = self._publisher.settlement.alarmed
        for alarm in self._publisher.alarms.list() if alarmed else ():
            if alarm.realm in alarmed:
                raise PublisherStopped(f"{alarm.realm}: {alarm.message}", alarm=alarm.code)


def shares(generation: Generation, seqs: Seqs) -> dict[tuple[str, int], Seqs]:
    """By shard, also those without a pointer."""
    found: dict[tuple[str, int], Seqs] = {(generation.realm, shard): {} for shard in range(generation.shards)}
    for pointer, seq in seqs.items():
        found[generation.realm, partition_of(pointer, generation.shards)][pointer] = seq
    return found


def heads(store: Store, realm: str) -> Seqs:
    return {name: row.seq for name, row in store.backend.all_pointers(realm) if row.head}
