"""What to read from Kafka: brokers, realm, pointers, where to begin, and the group that keeps the position."""

from __future__ import annotations

from typing import Any

import msgspec


class KafkaSource(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    realm: str = "default"
    """By name: the topic of its newest instance is read, unless one is named."""
    instance: str = ""
    """As a server or store knows it, such as default#0123456789abcdef. ⚠ The number of a catalog means something in it alone:
    brokers may have a newer realm of that name, of another store."""
    pointers: tuple[str, ...] = ()
    """Only these; all, if left out."""
    access: bool = False
    """Read the Changes of principals, roles, grants and policies, in a realm that keeps them in a topic of their own."""
    group: str | None = None
    """Keeps the position and shares the partitions; without one every reader starts over."""
    from_commit: str | None = None
    """Start after this commit, where the group has no position."""
    client: dict[str, Any] = {}
    """Passed to aiokafka as it is: SASL, TLS."""
