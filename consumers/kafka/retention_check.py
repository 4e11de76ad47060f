"""Finds pointers of which a reader missed entries because the topic has lost records to retention.

A record shows a gap before it. If nothing came after the lost records, only the heads in the progress topic show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from headwater.consumers.kafka.kafka_partition import KafkaPartition
from headwater.consumers.kafka.kafka_progress import read_heads
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.errors import CursorExpired
from headwater.schemas.kafka_records import Progress
from headwater.schemas.topics import partition_of


class RetentionCheck:
    def __init__(self, ends: Mapping[TopicPartition, int], heads: Mapping[str, Progress], partitions: int) -> None:
        """`partitions`: how many the topic has."""
        self._ends = ends
        self._heads = heads
        self._partitions = partitions

    @classmethod
    async def of(cls, source: KafkaSource, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> RetentionCheck:
        """⚠ Heads first, ends after: the records of each head that the topic still has then lie before the ends."""
        topic = partitions[0].topic
        heads = await read_heads(source, topic)
        ends = await consumer.end_offsets(list(partitions))
        return cls(ends, heads, len(consumer.partitions_for_topic(topic) or partitions))

    async def is_due(self, consumer: AIOKafkaConsumer) -> bool:
        """True when everything that existed has been read."""
        assigned = self._ends.keys() & consumer.assignment()
        reached = {partition: await consumer.position(partition) for partition in assigned}
        left = {partition for partition, position in reached.items() if position < self._ends[partition]}
        if not left:
            return True
        now = await consumer.end_offsets(list(left))  # ⚠ a topic that was re-created may be shorter: its old end never comes
        return all(reached[partition] >= now[partition] for partition in left)

    def lost(
        self, given: Mapping[TopicPartition, KafkaPartition], wants: Callable[[str], bool]
    ) -> Iterator[tuple[KafkaPartition, Progress]]:
        """`CursorExpired` if it is unknown what the reader has seen."""
        by_number = {partition.partition: given[partition] for partition in self._ends if partition in given}
        for pointer, head in self._heads.items():
            partition = by_number.get(partition_of(pointer, self._partitions))
            if partition is None or not wants(pointer):
                continue
            reached = partition.chains.reached(pointer)
            if reached is None and not partition.is_complete and not partition.is_accepted(pointer):
                raise CursorExpired(
                    f"{pointer}: the topic has lost entries, and this group's position in it was not kept.",
                    remedy="Read with another group.",
                    pointer=pointer,
                    head=head.seq,
                )
            if (reached or 0) < head.seq:
                yield partition, head
