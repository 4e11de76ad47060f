"""Publishes every shard of every realm of a store, shared fairly with other publishers.

The supervisor only decides who works on what: it finds realms, topics and generations, takes and gives back leases, and starts
a shard for each that it holds. What is sent is the shards' business.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.assignment import PublishAssignment
from headwater.producer.publisher.assignment.fair_share import fair_share
from headwater.producer.publisher.assignment.generation_rollover import GenerationRollover, shard_key
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.assignment.shard_leases import LeaseRenewer, Leases
from headwater.producer.publisher.kafka.kafka_clients import make_admin
from headwater.producer.publisher.kafka.outgoing_records import Records
from headwater.producer.publisher.kafka.progress import ProgressReader
from headwater.producer.publisher.kafka.realm_topics import RealmTopics
from headwater.producer.publisher.kafka.schema_registry import SchemaRegistry
from headwater.producer.publisher.kafka.topics import Topics
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.publish_once import OneRun, shares
from headwater.producer.publisher.shards.fault_points import At, no_fault
from headwater.producer.publisher.shards.heads import RealmHeads
from headwater.producer.publisher.shards.shard import Shard
from headwater.producer.publisher.shards.shard_context import ShardContext, ShardStatus
from headwater.schemas.errors import HeadwaterError

TICK_SECONDS_MAX = 0.5
REALMS_AT_FULL_PACE = 10

_log = logging.getLogger(__name__)
ShardKey = tuple[str, int]


class Publisher:
    """One process' part in publishing. `start` and `close`, or `run` on the caller's thread."""

    def __init__(self, store: Store, options: PublisherOptions, *, realms: Sequence[str] = (), at: At = no_fault) -> None:
        """`realms` by name; all that there are, also later ones, if none is named."""
        self._store = store
        self._options = options
        self._at = at
        admin = make_admin(options)
        self._topics = Topics(admin, options)
        self.reader = ProgressReader(admin, options)
        self._registry = SchemaRegistry(options.registry_url) if options.registry_url else None
        self._schema_ids: dict[str, int] = {}
        self.leases = Leases(store.backend, store.clock, options.lease_seconds)
        self.alarms = Alarms(store.backend, store.clock)
        self._generations = Generations(store.backend, store.clock)
        self.settlement = PublishAssignment(
            store, options, self._topics, self._generations, self.leases, self.alarms, frozenset(realms)
        )
        self._shards: dict[ShardKey, Shard] = {}
        self._heads: dict[str, RealmHeads] = {}
        self._keeper: LeaseRenewer | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure = ""
        """Why the supervisor's last round did not get through; empty if it did."""

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="publisher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish the transactions under way, and give all shards back."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Until `close` is called."""
        try:
            while not self._closing.is_set():
                self.tick()
                self._closing.wait(min(TICK_SECONDS_MAX, self._options.lease_seconds / 8))
        finally:
            self._give_all_back()

    def stop(self) -> None:
        """Let `run` end; for signal handlers."""
        self._closing.set()

    def publish_once(self, timeout_seconds: float | None = None) -> list[ShardStatus]:
        """Publish all that is in the log when this is called. `PublisherStopped` if a shard raised an alarm,
        `KafkaUnavailable` if the brokers stay away or the time is over."""
        try:
            return OneRun(self, self._store, 2 * self._options.kafka_timeout_seconds).run(timeout_seconds)
        finally:
            self._give_all_back()

    @property
    def is_stopping(self) -> bool:
        return self._closing.is_set()

    def pause(self, seconds: float) -> None:
        self._closing.wait(seconds)

    # ── what it does ────────────────────────────────────────────────────────────────────────────────────────

    def status(self) -> list[ShardStatus]:
        return [shard.status() for _, shard in sorted(self._shards.items())]

    def shard(self, key: ShardKey) -> Shard | None:
        """One that this publisher has."""
        return self._shards.get(key)

    def has_published(self, realm: str, seqs: dict[str, int]) -> bool:
        """Whether this publisher has all shards of the realm instance, and Kafka these entries."""
        generation = self.settlement.current.get(realm)
        if generation is None:
            return False
        held = [(self.shard(key), wanted) for key, wanted in shares(generation, seqs).items()]
        return all(shard is not None and shard.is_caught_up(wanted) for shard, wanted in held)

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """Find the work, and decide which publisher does it."""
        try:
            if self._keeper is None:
                self.leases.announce()
                self._keeper = LeaseRenewer(self.leases)
            keeper = self._keeper
            self._reap()
            self.settlement.look(self._leave)
            self.settlement.check(self._leave, lambda before, topics: self._turn_over(keeper, before, topics))
            self._share(keeper)
            self.failure = next(iter(self.settlement.trouble.values()), "")
        except HeadwaterError as error:
            if self.failure != str(error):
                _log.warning("the publisher's round did not get through: %s", error)
            self.failure = str(error)

    def _turn_over(self, keeper: LeaseRenewer, before: Generation, topics: RealmTopics) -> None:
        backend = self._store.backend
        names = {topic.name for topic in topics.of_changes}
        left = self._topics.still_there([topic for topic in before.topics.of_changes if topic.name not in names])
        GenerationRollover(
            backend, self.leases, keeper, self._generations, self._topics, self.reader, self._options, self._records
        ).run(before, topics, left)

    # ── sharing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _share(self, keeper: LeaseRenewer) -> None:
        """Take what is free up to a fair share, give back what is above it."""
        keys = [(realm, shard) for realm, generation in self.settlement.current.items() for shard in range(generation.shards)]
        share = fair_share(len(keys), self.leases.members(), self.leases.holder)
        for key in list(self._shards)[share:]:
            self._shards[key].ask_to_stop()
        free = [key for key in keys if key not in self._shards]
        for realm, shard in sorted(free, key=lambda key: hash((self.leases.holder, key))):
            orphaned = len(self._shards) >= share
            if orphaned and self.leases.expired_for(shard_key(realm, shard)) < 2 * self._options.lease_seconds:
                continue
            self._take(keeper, realm, shard)

    def _take(self, keeper: LeaseRenewer, realm: str, number: int) -> None:
        lease = self.leases.acquire(shard_key(realm, number))
        if lease is None:
            return
        generation = self.settlement.current[realm]
        if not self.settlement.in_force(generation):  # who holds a lease holds the generation in force
            self.leases.release(lease)
            return
        keeper.hold(lease)
        shard = Shard(self._context(generation), number, lease)
        self._shards[realm, number] = shard
        shard.start()

    def _reap(self) -> None:
        for key, shard in list(self._shards.items()):
            if not shard.is_running:
                self._give_back(key, shard)

    def _give_back(self, key: ShardKey, shard: Shard) -> None:
        shard.join()
        if self._keeper is not None:
            self._keeper.drop(shard.lease)
        del self._shards[key]
        self.leases.release(shard.lease)

    def _leave(self, realm: str) -> None:
        self.settlement.current.pop(realm, None)
        mine = {key: shard for key, shard in self._shards.items() if key[0] == realm}
        for shard in mine.values():
            shard.ask_to_stop()
        for key, shard in mine.items():
            self._give_back(key, shard)
        if realm not in self.settlement.instances and (heads := self._heads.pop(realm, None)) is not None:
            heads.close()

    def _give_all_back(self) -> None:
        for realm in list(self.settlement.current):
            self._leave(realm)
        for heads in self._heads.values():
            heads.close()
        self._heads.clear()
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
            try:
                self.leases.leave()
            except HeadwaterError as error:
                _log.warning("this publisher's row stays until it runs out: %s", error)

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────

    def _context(self, generation: Generation) -> ShardContext:
        kernel = self._store.kernel(generation.realm)
        if generation.realm not in self._heads:
            self._heads[generation.realm] = RealmHeads(kernel, self._poll_seconds)
        return ShardContext(
            kernel=kernel,
            generation=generation,
            records=self._records(generation),
            heads=self._heads[generation.realm],
            leases=self.leases,
            reader=self.reader,
            topics=self._topics,
            alarms=self.alarms,
            options=self._options,
            at=self._at,
        )

    def _poll_seconds(self) -> float:
        """The more realms there are, the less often each is polled, to limit the load on the store."""
        return self._options.poll_seconds * max(1.0, len(self._heads) / REALMS_AT_FULL_PACE)

    def _records(self, generation: Generation) -> Records:
        return Records(
            generation.realm,
            generation.number,
            generation.topics,
            record_bytes_max=self._options.record_bytes_max,
            value_format=self._options.value_format,
            schema_id=self._schema_id(generation.topics.commits.name),
            dataref_base=self._options.dataref_base,
        )

    def _schema_id(self, topic: str) -> int | None:
        if self._registry is None:
            return None
        if topic not in self._schema_ids:
            self._schema_ids[topic] = self._registry.register(topic)
        return self._schema_ids[topic]
