"""What to read from Kafka: brokers, realm, pointers, where to begin, and the group that keeps the position."""

from __future__ import annotations

from typing import Any

import msgspec


class KafkaSource(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    realm: str = "default"
    """By name: the topic of its newest instance is read, unless an instance is named."""
    instance: str = ""
    """As a server or store knows it, such as default#0123456789abcdef. ⚠ A catalog's number is meaningful only within its
    instance: brokers may have a newer realm of that name, from another store."""
    pointers: tuple[str, ...] = ()
    """Only these; all, if left out."""
    access: bool = False
    """Read the Changes of principals, roles, grants and policies, in a realm that keeps them in a topic of their own."""
    group: str | None = None
    """Keeps the position and shares the partitions; without a group every reader starts over."""
    from_commit: str | None = None
    """Start after this commit, if the group has no position."""
    client: dict[str, Any] = {}
    """Passed to aiokafka unchanged: SASL, TLS."""
