"""A generation that no longer fits its topics enters; the next one leaves, behind an end record in every partition of the old.

⚠ All old shards are leased and fenced first, so that nothing of the old generation lands behind its end. Where the topics are
still the same ones, positions are carried over in the transaction that writes the end records: nothing is published twice.
Where one was made again, the next generation begins at the oldest entries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.assignment.shard_leases import Lease, LeaseRenewer, Leases
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.producer.publisher.kafka.progress import ProgressReader, Recovered, behind
from headwater.producer.publisher.kafka.realm_topics import RealmTopics
from headwater.producer.publisher.kafka.sender import Sender
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.kafka_records import Progress
from headwater.schemas.topics import partition_of, transactional_id

MakeRecords = Callable[[Generation], Records]

_log = logging.getLogger(__name__)


def shard_key(realm: str, shard: int) -> str:
    return f"{realm}/{shard:05d}"


class GenerationRollover:
    def __init__(
        self,
        leases: Leases,
        keeper: LeaseRenewer,
        generations: Generations,
        reader: ProgressReader,
        options: PublisherOptions,
        make_records: MakeRecords,
    ) -> None:
        self._leases = leases
        self._keeper = keeper
        self._generations = generations
        self._reader = reader
        self._options = options
        self._make_records = make_records

    def run(self, before: Generation, topics: RealmTopics) -> bool:
        """False while another publisher still holds a shard: to be tried again."""
        held: list[Lease] = []
        senders: list[Sender] = []
        try:
            for shard in range(before.shards):
                lease = self._leases.acquire(shard_key(before.realm, shard))
                if lease is None:
                    return False
                self._keeper.hold(lease)
                held.append(lease)
            for shard in range(before.shards):
                senders.append(Sender(self._options, transactional_id(before.realm, before.number, shard)))
            after = self._end(before, topics, senders[0])
            done = all(self._leases.is_safe(lease) for lease in held) and self._generations.open(before, after)
            _log.info("%s: generation %d follows %d: %s", before.realm, after.number, before.number, done)
            return done
        finally:
            for sender in senders:
                sender.discard()
            for lease in held:
                self._keeper.drop(lease)
                self._leases.release(lease)

    def _end(self, before: Generation, topics: RealmTopics, sender: Sender) -> Generation:
        """Write what ends the old generation, unless a publisher has done so and died before it could say so in the store."""
        found = self._read(before, topics)
        last = max(before.number, found.newest) if before.restart else before.number
        after = Generation(realm=before.realm, number=last + 1, topics=topics)
        if found.ended >= last:
            return after
        if found.newest > last:
            raise behind(before.realm, found.newest, last)
        sender.begin()
        sender.send(self._last_records(before, after, found.positions))
        sender.flush()
        sender.commit()
        return after

    def _last_records(self, before: Generation, after: Generation, positions: dict[str, Progress]) -> list[KafkaRecord]:
        old = self._make_records(msgspec.structs.replace(after, number=after.number - 1))
        new = self._make_records(after)
        records: list[KafkaRecord] = [new.ended(after.number - 1)]
        if before.topics.commits.id == after.topics.commits.id:
            records += [old.end(partition) for partition in range(before.topics.commits.partitions)]
        for position in positions.values() if before.carries_over(after.topics) else ():
            records += _carried(new, position, before.shards)
        return records

    def _read(self, before: Generation, topics: RealmTopics) -> Recovered:
        """What all old shards have published together."""
        positions: dict[str, Progress] = {}
        ended = newest = 0
        for shard in range(min(before.shards, topics.progress.partitions)):
            found = self._reader.read(before.realm, topics.progress.name, shard, before.number)
            positions |= found.positions
            ended, newest = max(ended, found.ended), max(newest, found.newest)
        return Recovered(positions, ended, newest)


def _carried(new: Records, position: Progress, old_shards: int) -> list[KafkaRecord]:
    moved = msgspec.structs.replace(position, generation=new.generation)
    records = [new.baseline(position.pointer, position.seq, position.entry_id), new.progress(moved)]
    old = partition_of(position.pointer, old_shards)
    if old != partition_of(position.pointer, new.topics.progress.partitions):
        records.append(new.gone(position.pointer, old))
    return records
