"""The simulated Kafka cluster: topics that are re-created, transactions, retention, groups with their offsets.

It keeps Kafka's rules that correctness rests on: a name leads to whatever topic bears it now; a transactional id fences its
older producers; readers of committed records stop at the first undecided one; an offset that is not there is out of range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tests.simulation.runtime.scheduler import Scheduler
from tests.simulation.world.store_faults import Faults

T = TypeVar("T")
SESSION_SECONDS = 6.0


class BrokerError(Exception):
    """`code` is the name of the error in Kafka's protocol."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Record(msgspec.Struct):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    time_ms: int
    transaction: Transaction | None = None
    is_control: bool = False

    @property
    def is_committed(self) -> bool:
        return not self.is_control and (self.transaction is None or self.transaction.state == "committed")


class Transaction:
    def __init__(self, began: int, timeout_micros: int) -> None:
        self.state = "open"
        self.ends = began + timeout_micros
        self.partitions: list[Partition] = []
        self.offsets: dict[tuple[str, str, int], tuple[int, str]] = {}


class Partition:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.start = 0
        self.end = 0

    def append(self, record: Record) -> None:
        record.offset = self.end
        self.records.append(record)
        self.end += 1

    def stable_end(self) -> int:
        """Readers of committed records come this far."""
        undecided = (one.offset for one in self.records if one.transaction is not None and one.transaction.state == "open")
        return next(undecided, self.end)

    def from_offset(self, offset: int, count: int, *, committed: bool) -> tuple[list[Record], int]:
        """Records that are shown, and the offset behind what was looked at."""
        end = self.stable_end() if committed else self.end
        shown, position = list[Record](), offset
        for record in self.records:
            if record.offset < offset or record.offset >= end:
                continue
            if len(shown) == count:
                return shown, position
            position = record.offset + 1
            if record.is_committed or (not committed and not record.is_control):
                shown.append(record)
        return shown, max(position, min(end, max(offset, end)))

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        self.records = [record for record in self.records if record.offset >= self.start]


class Topic:
    def __init__(self, name: str, id: str, partitions: int, config: dict[str, str]) -> None:
        self.name = name
        self.id = id
        self.config = config
        self.partitions = [Partition() for _ in range(partitions)]


class ProducerSession:
    def __init__(self, transactional_id: str, epoch: int) -> None:
        self.transactional_id = transactional_id
        self.epoch = epoch


class Member:
    def __init__(self, topics: list[str], now: int) -> None:
        self.topics = topics
        self.seen = now
        self.generation = -1
        self.assigned: list[tuple[str, int]] = []


class Group:
    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[int, Member] = {}
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}


class Broker:
    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.down_until = 0
        self.has_grown = False
        """Whether pointers may have moved to partitions that were added."""
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}
        self._numbers = itertools.count(1)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, what: str, apply: Callable[[], T], *, is_write: bool = False) -> T:
        """A request of a client; `BrokerError("_TIMED_OUT")` for whatever the client cannot know."""
        self.scheduler.step(f"kafka {what}")
        self._end_old_transactions()
        if self.scheduler.now < self.down_until:
            raise BrokerError("_TRANSPORT")
        fault = self.faults.draw(is_write=is_write)
        if fault:
            self.scheduler.trace.note(self.scheduler.steps, self.scheduler.now, "kafka", "", f"  fault: {fault} {what}")
        match fault:
            case "unavailable" | "unsent":
                raise BrokerError("_TIMED_OUT")
            case "lost" | "late":
                apply()
                raise BrokerError("_TIMED_OUT")
            case "slow":
                self.scheduler.sleep(self.faults.seconds())
                self._end_old_transactions()
        return apply()

    # ── topics ──────────────────────────────────────────────────────────────────────────────────────────────

    def create_topic(self, name: str, partitions: int, config: dict[str, str]) -> None:
        if name in self.topics:
            raise BrokerError("TOPIC_ALREADY_EXISTS")
        self.topics[name] = Topic(name, f"topic-{next(self._numbers)}", partitions, config)
        self._deal_out(name)

    def delete_topic(self, name: str) -> None:
        """Kafka forgets what groups committed of it, too."""
        if self.topics.pop(name, None) is None:
            raise BrokerError("UNKNOWN_TOPIC_OR_PART")
        for group in self.groups.values():
            group.offsets = {where: kept for where, kept in group.offsets.items() if where[0] != name}
            self._rebalance(group)

    def grow(self, name: str, partitions: int) -> None:
        topic = self.topics[name]
        self.has_grown = True
        topic.partitions += [Partition() for _ in range(partitions - len(topic.partitions))]
        self._deal_out(name)

    def _deal_out(self, name: str) -> None:
        """Members notice it in the metadata, and join again."""
        for group in self.groups.values():
            if any(name in member.topics for member in group.members.values()):
                self._rebalance(group)

    def partition(self, topic: str, number: int) -> Partition:
        found = self.topics.get(topic)
        if found is None or number >= len(found.partitions):
            raise BrokerError("UNKNOWN_TOPIC_OR_PART")
        return found.partitions[number]

    # ── transactions ────────────────────────────────────────────────────────────────────────────────────────

    def init_transactions(self, transactional_id: str) -> ProducerSession:
        self._decide(transactional_id, "aborted")
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        return ProducerSession(transactional_id, self._epochs[transactional_id])

    def require_current(self, session: ProducerSession) -> None:
        if self._epochs.get(session.transactional_id) != session.epoch:
            raise BrokerError("PRODUCER_FENCED")

    def append(self, session: ProducerSession, timeout_micros: int, topic: str, number: int, record: Record) -> None:
        self.require_current(session)
        partition = self.partition(topic, number)
        transaction = self._open.get(session.transactional_id)
        if transaction is None:
            transaction = self._open[session.transactional_id] = Transaction(self.scheduler.now, timeout_micros)
        record.transaction = transaction
        transaction.partitions.append(partition)
        partition.append(record)

    def add_offsets(
        self, session: ProducerSession, timeout_micros: int, group: str, offsets: dict[tuple[str, int], tuple[int, str]]
    ) -> None:
        self.require_current(session)
        transaction = self._open.setdefault(session.transactional_id, Transaction(self.scheduler.now, timeout_micros))
        transaction.offsets |= {(group, topic, number): kept for (topic, number), kept in offsets.items()}

    def commit(self, session: ProducerSession) -> None:
        self.require_current(session)
        self._decide(session.transactional_id, "committed")

    def _decide(self, transactional_id: str, state: str) -> None:
        transaction = self._open.pop(transactional_id, None)
        if transaction is None:
            return
        transaction.state = state
        for partition in {id(partition): partition for partition in transaction.partitions}.values():
            partition.append(Record(0, None, None, [], 0, is_control=True))
        if state == "committed":
            for (group, topic, number), kept in transaction.offsets.items():
                self.group(group).offsets[topic, number] = kept

    def _end_old_transactions(self) -> None:
        for transactional_id, transaction in list(self._open.items()):
            if transaction.ends < self.scheduler.now:
                self._decide(transactional_id, "aborted")
                self._epochs[transactional_id] += 1

    # ── groups ──────────────────────────────────────────────────────────────────────────────────────────────

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def join(self, name: str, topics: list[str]) -> int:
        group, number = self.group(name), next(self._numbers)
        group.members[number] = Member(topics, self.scheduler.now)
        self._rebalance(group)
        return number

    def leave(self, name: str, number: int) -> None:
        group = self.group(name)
        if group.members.pop(number, None) is not None:
            self._rebalance(group)

    def heartbeat(self, name: str, number: int) -> Member:
        """Members that were silent for too long are gone."""
        group, now = self.group(name), self.scheduler.now
        if number in group.members:
            group.members[number].seen = now
        silent = [one for one, member in group.members.items() if member.seen < now - SESSION_SECONDS * 1e6]
        for one in silent:
            del group.members[one]
        if silent:
            self._rebalance(group)
        if number not in group.members:
            raise BrokerError("UNKNOWN_MEMBER_ID")
        return group.members[number]

    def _rebalance(self, group: Group) -> None:
        group.generation += 1
        members = [group.members[number] for number in sorted(group.members)]
        for member in members:
            member.assigned = []
        wanted = sorted({topic for member in members for topic in member.topics if topic in self.topics})
        places = [(topic, number) for topic in wanted for number in range(len(self.topics[topic].partitions))]
        for turn, place in enumerate(places):
            members[turn % len(members)].assigned.append(place)

    def commit_offsets(self, name: str, number: int, generation: int, offsets: dict[tuple[str, int], tuple[int, str]]) -> None:
        group = self.group(name)
        if number not in group.members or group.generation != generation:
            raise BrokerError("ILLEGAL_GENERATION")
        group.offsets |= offsets
