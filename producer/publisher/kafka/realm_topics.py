"""The identity of a realm's topics, as the store keeps it: readable without a Kafka client."""

from __future__ import annotations

import msgspec

from headwater.schemas.topics import is_access_pointer


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka topic. Its id distinguishes it from another one of the same name."""

    name: str
    id: str
    partitions: int


class RealmTopics(msgspec.Struct, frozen=True, kw_only=True):
    commits: Topic
    progress: Topic
    access: Topic | None = None
    """Holds the Changes of access pointers; the commits topic does where it is None."""

    @property
    def of_changes(self) -> tuple[Topic, ...]:
        """Those that hold Changes."""
        return (self.commits,) if self.access is None else (self.commits, self.access)

    @property
    def all(self) -> tuple[Topic, ...]:
        return (*self.of_changes, self.progress)

    def of(self, pointer: str) -> Topic:
        """Where the Changes of a pointer go."""
        return self.access if self.access is not None and is_access_pointer(pointer) else self.commits
