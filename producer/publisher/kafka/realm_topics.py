"""The identity of a realm's topics, as the store keeps it: readable without a Kafka client."""

from __future__ import annotations

import msgspec


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """What tells a topic from another one of the same name."""

    name: str
    id: str
    partitions: int


class RealmTopics(msgspec.Struct, frozen=True, kw_only=True):
    commits: Topic
    progress: Topic
