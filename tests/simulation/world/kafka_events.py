"""What happens to the Kafka cluster: it is away, topics are re-created, grow, or lose their oldest records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.schemas.topics import commits_topic

if TYPE_CHECKING:
    from tests.simulation.plan import Event
    from tests.simulation.world.environment import Environment


def kafka_events(env: Environment) -> dict[str, Callable[[Event], None]]:
    def down(event: Event) -> None:
        env.broker.down_until = env.scheduler.now + int(event.seconds * 1e6)

    def made_again(event: Event) -> None:
        """By hand: deleted and created with as many partitions, at once."""
        topic = env.broker.topics.get(commits_topic(env.realm_instance))
        if topic is not None:
            env.broker.delete_topic(topic.name)
            env.broker.create_topic(topic.name, len(topic.partitions), topic.config)

    def deleted(event: Event) -> None:
        name = commits_topic(env.realm_instance)
        if name in env.broker.topics:
            env.broker.delete_topic(name)

    def grown(event: Event) -> None:
        topic = env.broker.topics.get(commits_topic(env.realm_instance))
        if topic is not None and len(topic.partitions) < 8:
            env.broker.grow(topic.name, len(topic.partitions) + 1)

    def retention(event: Event) -> None:
        topic = env.broker.topics.get(commits_topic(env.realm_instance))
        for partition in topic.partitions if topic is not None else ():
            partition.delete_before((partition.start + partition.stable_end()) // 2)

    return {
        "kafka-down": down,
        "topic-again": made_again,
        "topic-deleted": deleted,
        "partitions": grown,
        "retention": retention,
    }
