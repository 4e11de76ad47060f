"""Names Kafka topics, partitions and transactional ids from realm instances and pointers. Pure.

The names are public: a consumer computes them from the instance as the publisher does. The creation id in them keeps a realm
that was deleted and re-created out of the topics of the old one.
"""

from __future__ import annotations

import functools
import hashlib
import re

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
"""What Kafka's alphabet for topics lacks: of a realm instance, the sign before its creation id."""
_OF_TABLES = re.compile(r"catalogs|immediate-tasks|forgotten-tables|cat/\d+/(?:heads|tags)/.+", re.DOTALL)


def topic_stem(realm: str) -> str:
    """`default#0123456789abcdef` → `headwater.default-0123456789abcdef`. The creation id at the end keeps it unique, also
    where Kafka takes `.` and `_` for the same."""
    return f"headwater.{_FOREIGN.sub('-', realm)}"


def commits_topic(realm: str) -> str:
    """Every Change of the realm, keyed by pointer."""
    return f"{topic_stem(realm)}.commits"


def access_topic(realm: str) -> str:
    """Changes of principals, roles, grants and policies, where a realm keeps them apart from those of its tables."""
    return f"{topic_stem(realm)}.access"


def is_access_pointer(pointer: str) -> bool:
    """⚠ Every pointer that is not known to hold catalogs, tasks, branches or tags: what a later version adds is kept apart."""
    return _OF_TABLES.fullmatch(pointer) is None


def progress_topic(realm: str) -> str:
    """The newest published entry of every pointer, compacted: the heads."""
    return f"{topic_stem(realm)}.progress"


def tables_topic(realm: str) -> str:
    """The newest state of every pointer and key, compacted; made by a consumer."""
    return f"{topic_stem(realm)}.tables"


def transactional_id(realm: str, generation: int, shard: int) -> str:
    """Stable per realm instance, generation and shard: taking it fences off the previous holder."""
    return f"{topic_stem(realm)}.{generation}.{shard}"


@functools.lru_cache(maxsize=65_536)
def pointer_hash(pointer: str) -> int:
    """The first eight bytes of SHA-256 of the name in UTF-8, big-endian: clients' own partitioners differ from each other."""
    return int.from_bytes(hashlib.sha256(pointer.encode()).digest()[:8], "big")


def partition_of(pointer: str, partitions: int) -> int:
    return pointer_hash(pointer) % partitions
