"""What several readers together were given enters; an entry that none of them ever got, though nothing was said, is a loss.

Two members of a group that read a pointer's old and new partition are not ordered against each other (docs/consumers.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.consumers.kafka.kafka_positions import KafkaPosition, parse_positions
from headwater.schemas.change import Change
from headwater.schemas.topics import commits_topic
from tests.simulation.promises import broken

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment


class DeliveredLog:
    """At least once, in order for each member, and nothing passed over by all of them."""

    def __init__(self, env: Environment, name: str, realm: str) -> None:
        self.name = name
        self._realm = realm
        self.number = 1
        self.members: list[str] = []
        self.was_told = False
        """The last pass ended with a typed error: nothing was passed over silently."""
        self._env = env
        self._ids: dict[str, set[str]] = {}
        self._last: dict[str, int] = {}
        self._void: set[bytes] = set()
        """Entries that the group has acknowledged and then was told to be gone."""
        self._first: dict[str, int | None] = {}
        """Pointers that started over where the topic does, and the first entry that was given since."""
        self._by_member: dict[tuple[str, str, str], dict[int, str]] = {}
        """What one reader was given of a pointer out of one topic, acknowledged or not, since a member was told of a reset:
        by seq the entry id. A group whose topic is re-created begins again, as a new one does."""

    @property
    def group(self) -> str:
        """Members that must begin again do so as another group."""
        return f"{self.name}-{self.number}"

    def begin_again(self) -> None:
        self.was_told = False
        self._ids.clear()
        self._last.clear()
        self._first.clear()
        self._by_member.clear()

    def accepted(self, pointer: str, *, has_log: bool) -> None:
        """A member was told that its place in the pointer is gone, and continues: where its log begins, or else the topic."""
        self._void.update(kept.entry_id for kept in self._kept(pointer))
        self._ids.pop(pointer, None)
        self._last.pop(pointer, None)
        self._first.pop(pointer, None)
        for key in [key for key in self._by_member if key[1] == pointer]:
            del self._by_member[key]  # one member is told for all
        if not has_log:
            self._first[pointer] = None

    def give(self, member: str, change: Change) -> None:
        last = self._last.get(change.pointer)
        is_parted = self._env.broker.has_grown and len(self.members) > 1
        if last is not None and change.seq > last + 1 and not is_parted:
            broken("same-log", f"{member} was given entry {change.seq} of {change.pointer}; nobody got beyond {last}")
        for kept in self._kept(change.pointer):
            if kept.seq == change.seq and kept.entry_id.hex() != change.entry_id and kept.entry_id not in self._void:
                broken("same-log", f"{member} was given another entry {change.seq} of {change.pointer} than it acknowledged")
        own = self._by_member.setdefault((member, change.pointer, self._topic_id()), {})
        if own.setdefault(change.seq, change.entry_id) != change.entry_id:
            broken("same-log", f"{member} was given two entries {change.seq} of {change.pointer}, and was told nothing")
        self._last[change.pointer] = max(change.seq, last or 0)
        if change.pointer in self._first and self._first[change.pointer] is None:
            self._first[change.pointer] = change.seq
        self._ids.setdefault(change.pointer, set()).add(change.entry_id)

    def _topic_id(self) -> str:
        topic = self._env.broker.topics.get(commits_topic(self._env.instance_of(self._realm)))
        return "" if topic is None else str(topic.id)

    def _kept(self, pointer: str) -> list[KafkaPosition]:
        """What the brokers hold as acknowledged; in several partitions if the pointer has moved."""
        found = [parse_positions(text).positions for _, text in self._env.broker.group(self.group).offsets.values()]
        return [positions[pointer] for positions in found if pointer in positions]

    def has_all(self, pointers: Iterable[str]) -> bool:
        return self.was_told or not any(self._missing(pointer) for pointer in pointers)

    def check(self, pointers: Iterable[str]) -> None:
        for pointer in () if self.was_told else pointers:
            if missing := self._missing(pointer):
                broken("same-log", f"{self.name}: entries {missing[:9]} of {pointer} never came, and nothing was said")

    def _missing(self, pointer: str) -> list[int]:
        if self._first.get(pointer, 1) is None:
            return []  # the topic may hold nothing of it
        instance = self._env.instance_of(self._realm)
        row = self._env.database.peek().read_pointer(instance, pointer) if instance else None
        log = self._env.model.logs.get((instance, pointer), [])
        given = self._ids.get(pointer, set())
        first = max(1 if row is None else row.floor, self._first.get(pointer) or 1)
        return [entry.seq for entry in log if entry.seq >= first and entry.entry_id not in given]
