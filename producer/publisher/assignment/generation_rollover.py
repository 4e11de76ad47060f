"""Starts the next generation when topics have changed, after an end record in every partition of the old.

⚠ All old shards are leased and fenced first, so that nothing of the old generation lands after its end. Where the topics are
still the same ones, positions are carried over in the transaction that writes the end records: nothing is published twice.
Where one was re-created, or an operator asked for it, the next generation starts over at the oldest entries. Pointers that the
store no longer has are then said to be gone, so that no reader keeps them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from headwater.persistence.backend import Backend
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.assignment.shard_leases import Lease, LeaseRenewer, Leases
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.producer.publisher.kafka.progress import ProgressReader, Recovered, behind
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.producer.publisher.kafka.sender import Sender
from headwater.producer.publisher.kafka.topics import Topics
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.kafka_records import GenerationEnd, Progress
from headwater.schemas.topics import partition_of, transactional_id

NAMES_PER_PAGE = 1_000

MakeRecords = Callable[[Generation], Records]

_log = logging.getLogger(__name__)


def shard_key(realm: str, shard: int) -> str:
    return f"{realm}/{shard:05d}"


class _Layout(NamedTuple):
    """Where the generation in force has published."""

    topics: RealmTopics
    left: Sequence[Topic]


class GenerationRollover:
    def __init__(
        self,
        backend: Backend,
        leases: Leases,
        keeper: LeaseRenewer,
        generations: Generations,
        topics: Topics,
        reader: ProgressReader,
        options: PublisherOptions,
        make_records: MakeRecords,
    ) -> None:
        self._backend = backend
        self._leases = leases
        self._keeper = keeper
        self._generations = generations
        self._topics = topics
        self._reader = reader
        self._options = options
        self._make_records = make_records

    def run(self, before: Generation, topics: RealmTopics, left: Sequence[Topic] = ()) -> bool:
        """False while another publisher still holds a shard: to be tried again. `left`: topics of the old layout that the new
        one does not use, and that are still there."""
        held: list[Lease] = []
        senders: list[Sender] = []
        try:
            for shard in range(before.shards):
                lease = self._leases.acquire(shard_key(before.realm, shard))
                if lease is None:
                    return False
                self._keeper.hold(lease)
                held.append(lease)
            last = self._last(before, topics)
            for shard in range(last.shards):
                senders.append(Sender(self._options, transactional_id(last.realm, last.number, shard)))
            after = self._end(last, topics, senders[0], _Layout(before.topics, left))
            done = all(self._leases.is_safe(lease) for lease in held) and self._generations.open(before, after)
            _log.info("%s: generation %d follows %d: %s", before.realm, after.number, before.number, done)
            return done
        finally:
            for sender in senders:
                sender.discard()
            for lease in held:  # ⚠ all of them: one that is renewed and that no shard works under is never published again
                self._keeper.drop(lease)
            for lease in held:
                self._leases.release(lease)

    def _last(self, before: Generation, topics: RealmTopics) -> Generation:
        """The generation to be ended. ⚠ A store that was restored may know of an older one than Kafka holds: whoever publishes
        in that one is fenced too, and what it has published counts."""
        if not before.restart:
            return before
        newest = max(before.number, self._read(before, topics).newest)
        return msgspec.structs.replace(before, number=newest, topics=topics)

    def _end(self, before: Generation, topics: RealmTopics, sender: Sender, old: _Layout) -> Generation:
        """Write what ends the old generation, unless a publisher has done so and died before it could say so in the store."""
        found = self._read(before, topics)
        begins = before.begins if before.carries_over(topics) else before.number + 1
        after = Generation(realm=before.realm, number=before.number + 1, topics=topics, begins=begins, apart=before.apart)
        if found.ended >= before.number:
            return msgspec.structs.replace(after, begins=found.begins, topics=_begun_in(topics, found.end))
        if found.newest > before.number:
            raise behind(before.realm, found.newest, before.number)
        sender.begin()
        sender.send(self._last_records(before, after, found.positions, old))
        sender.flush()
        # ⚠ As for each batch: what ends a generation lies in its own topics, or nowhere. And in every partition of them: a
        # publisher that was held up here may know of fewer than others have published to.
        self._topics.check_same(topics, may_have_grown=False)
        sender.commit()
        return after

    def _last_records(
        self, before: Generation, after: Generation, positions: dict[str, Progress], layout: _Layout
    ) -> list[KafkaRecord]:
        old = self._make_records(msgspec.structs.replace(after, number=after.number - 1))
        new = self._make_records(after)
        records: list[KafkaRecord] = [new.ended(after.number - 1, after.begins)]
        known = {topic.id: topic for topic in (*before.topics.of_changes, *layout.left)}
        for topic in (*after.topics.of_changes, *layout.left):
            if topic.id in known:
                records += [old.end(partition, topic) for partition in range(known[topic.id].partitions)]
        if after.begins < after.number:
            for position in positions.values():
                records += _carried(new, position, before)
        else:
            records += _moved(new, positions, layout)
            records += self._lost(new, positions)
        return records

    def _lost(self, new: Records, positions: dict[str, Progress]) -> list[KafkaRecord]:
        """A history that starts over may lack pointers that were published: each gets a baseline behind which nothing comes."""
        names = list(positions)
        pages = (names[start : start + NAMES_PER_PAGE] for start in range(0, len(names), NAMES_PER_PAGE))
        there = {name for page in pages for name in self._backend.read_pointers(new.realm, page)}
        return [new.baseline(pointer, 0, "", 0, "") for pointer in names if pointer not in there]

    def _read(self, before: Generation, topics: RealmTopics) -> Recovered:
        """What all old shards have published together."""
        positions: dict[str, Progress] = {}
        ended = begins = newest = 0
        end: GenerationEnd | None = None
        for shard in range(min(before.shards, topics.progress.partitions)):
            found = self._reader.read(before.realm, topics.progress.name, shard, before.number)
            positions |= found.positions
            ended, begins, newest = max(ended, found.ended), max(begins, found.begins), max(newest, found.newest)
            end = end or found.end
        return Recovered(positions, ended, begins, newest, end)


def _begun_in(topics: RealmTopics, end: GenerationEnd | None) -> RealmTopics:
    """⚠ A topic that was re-created, or got more partitions, between the end of a generation and the store's word of it is not
    the one that the next generation's first records were dealt to. That generation is opened where it was to begin, does not
    fit, and is ended in its turn."""
    if end is None or not end.commits:
        return topics
    access = None if topics.access is None else _begun(topics.access, end.access, end.access_partitions)
    return RealmTopics(
        commits=_begun(topics.commits, end.commits, end.commits_partitions),
        progress=_begun(topics.progress, topics.progress.id, end.progress_partitions),
        access=access,
    )


def _begun(topic: Topic, id: str, partitions: int) -> Topic:
    return msgspec.structs.replace(topic, id=id, partitions=partitions or topic.partitions)


def _moved(new: Records, positions: dict[str, Progress], layout: _Layout) -> list[KafkaRecord]:
    """⚠ Informs readers of a topic that a pointer leaves: otherwise they would take silence for an idle pointer."""
    there = {topic.name: topic for topic in (*new.topics.of_changes, *layout.left)}
    leaving = ((pointer, layout.topics.of(pointer).name) for pointer in positions)
    return [
        new.moved(pointer, there[left]) for pointer, left in leaving if left in there and left != new.topics.of(pointer).name
    ]


def _carried(new: Records, position: Progress, before: Generation) -> list[KafkaRecord]:
    pointer, seq, entry_id = position.pointer, position.seq, position.entry_id
    moved = msgspec.structs.replace(position, generation=new.generation)
    records = [new.baseline(pointer, seq, entry_id, seq, entry_id, continues=before.number), new.progress(moved)]
    old = partition_of(position.pointer, before.shards)
    if old != partition_of(position.pointer, new.topics.progress.partitions):
        records.append(new.gone(position.pointer, old))
    return records
