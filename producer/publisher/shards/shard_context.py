"""The context that a shard works in, and the status that it reports."""

from __future__ import annotations

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.publisher.assignment.alarms import Alarm, Alarms
from headwater.producer.publisher.assignment.generations import Generation
from headwater.producer.publisher.assignment.shard_leases import Leases
from headwater.producer.publisher.kafka.outgoing_records import Records
from headwater.producer.publisher.kafka.progress import ProgressReader
from headwater.producer.publisher.kafka.topics import Topics
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.shards.fault_points import At
from headwater.producer.publisher.shards.heads import RealmHeads
from headwater.producer.publisher.shards.shard_states import ShardState


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    shard: int
    generation: int
    state: ShardState
    pointers: int
    changes: int
    transactions: int
    failures: int
    lag_commits: int
    """Entries that are in the log and not in Kafka, as far as this publisher has looked."""
    lag_seconds: float
    """Since it was last known that nothing is missing."""
    failure: str = ""
    alarm: Alarm | None = None


class ShardContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context that all shards of a realm share."""

    kernel: RealmKernel
    generation: Generation
    records: Records
    heads: RealmHeads
    leases: Leases
    reader: ProgressReader
    topics: Topics
    alarms: Alarms
    options: PublisherOptions
    at: At
