"""A floor that rises enters; whether everything below it is in Kafka leaves, as long as somebody publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.rows import PointerRow
from headwater.schemas.kafka_records import GENERATION_KEY, Progress
from headwater.schemas.topics import progress_topic
from tests.simulation.promises import broken

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment


def check_published(env: Environment, pointer: str, row: PointerRow) -> None:
    topic = env.broker.topics.get(progress_topic(env.realm_instance))
    if topic is None or not any(partition.records for partition in topic.partitions):
        return  # nothing was ever published: nobody waits for it
    looked_at = env.database.pins_read_at.get(env.scheduler.process.name, 0)
    if env.database.published_since is None or looked_at <= env.database.published_since:
        return  # nobody had published when this process looked: what it cuts is published as truncated
    reached = 0
    for partition in topic.partitions:
        for record in partition.records:
            if record.is_committed and record.value is not None and record.key != GENERATION_KEY:
                found = msgspec.json.decode(record.value, type=Progress)
                reached = max(reached, found.seq if found.pointer == pointer else 0)
    if row.floor - 1 > reached:
        broken("pins", f"the floor of {pointer} rose to {row.floor}, and Kafka has it up to entry {reached}")
