"""A store and a Kafka cluster enter; every shard of every realm is published, shared fairly with whoever else publishes.

The supervisor only decides who works on what: it finds realms, topics and generations, takes and gives back leases, and starts
a shard for each that it holds. What is sent is the shards' business.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from headwater.persistence.realm_states import RealmStatus
from headwater.persistence.realms import Realms
from headwater.persistence.store import Store
from headwater.producer.publisher.alarms import Alarms
from headwater.producer.publisher.faults import At, no_fault
from headwater.producer.publisher.generations import Generation, Generations
from headwater.producer.publisher.heads import RealmHeads
from headwater.producer.publisher.kafka_clients import make_admin
from headwater.producer.publisher.leases import LeaseKeeper, Leases
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.progress import ProgressReader
from headwater.producer.publisher.records import Records
from headwater.producer.publisher.registry import Registry
from headwater.producer.publisher.shard import Shard, ShardContext, ShardStatus
from headwater.producer.publisher.sharing import fair_share
from headwater.producer.publisher.topics import RealmTopics, Topics
from headwater.producer.publisher.turnover import Turnover, shard_key
from headwater.schemas.errors import HeadwaterError, KafkaUnavailable, PublisherStopped
from headwater.schemas.topics import partition_of

PUBLISHED = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})
"""A closed realm may still have entries to publish."""
TICK_SECONDS_MAX = 0.5
PAGE_REALMS = 1_000
OTHERS_SECONDS = 0.3
REALMS_AT_FULL_PACE = 10

_log = logging.getLogger(__name__)
ShardKey = tuple[str, int]


class Publisher:
    """One process' part in publishing. `start` and `close`, or `run` on the caller's thread."""

    def __init__(self, store: Store, options: PublisherOptions, *, realms: Sequence[str] = (), at: At = no_fault) -> None:
        """`realms` by name; all that there are, also later ones, if none is named."""
        self._store = store
        self._options = options
        self._only = frozenset(realms)
        self._at = at
        self._realms = Realms(store)
        admin = make_admin(options)
        self._topics = Topics(admin, options)
        self._reader = ProgressReader(admin, options)
        self._registry = Registry(options.registry_url) if options.registry_url else None
        self._schema_ids: dict[str, int] = {}
        self.leases = Leases(store.backend, store.clock, options.lease_seconds)
        self.alarms = Alarms(store.backend, store.clock)
        self._generations = Generations(store.backend, store.clock)
        self._current: dict[str, Generation] = {}
        self._shards: dict[ShardKey, Shard] = {}
        self._heads: dict[str, RealmHeads] = {}
        self._keeper: LeaseKeeper | None = None
        self._instances: list[str] = []
        self._looked_at = self._checked_at = float("-inf")
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked_others_at = float("-inf")
        self._alarmed: set[str] = set()
        self._trouble: dict[str, str] = {}
        self._got_through_at = time.monotonic()
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
        """Publish all that is in the log when this is called; `PublisherStopped` if a shard raised an alarm."""
        wanted: dict[ShardKey, dict[str, int]] | None = None
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._got_through_at = time.monotonic()
        try:
            while not self._closing.is_set() and (deadline is None or time.monotonic() < deadline):
                self.tick()
                if wanted is None and not self.failure:
                    wanted = self._heads_now()
                if wanted is not None and all(self._is_done(key, seqs) for key, seqs in wanted.items()):
                    break
                self._raise_alarms()
                self._raise_lasting_failure()
                self._closing.wait(0.02)
            return self.status()
        finally:
            self._give_all_back()

    def status(self) -> list[ShardStatus]:
        return [shard.status() for _, shard in sorted(self._shards.items())]

    def has_published(self, realm: str, seqs: dict[str, int]) -> bool:
        """Whether this publisher has all shards of the realm instance, and Kafka these entries."""
        generation = self._current.get(realm)
        if generation is None:
            return False
        of_shards: dict[int, dict[str, int]] = {shard: {} for shard in range(generation.shards)}
        for pointer, seq in seqs.items():
            of_shards[partition_of(pointer, generation.shards)][pointer] = seq
        shards = [self._shards.get((realm, number)) for number in of_shards]
        return all(shard is not None and shard.is_caught_up(of_shards[shard.number]) for shard in shards)

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """Find what is to be done, and who does it."""
        if self._keeper is None:
            self.leases.announce()
            self._keeper = LeaseKeeper(self.leases)
        try:
            self._reap()
            self._look_for_realms()
            self._check_topics()
            self._share(self._keeper)
            self.failure = next(iter(self._trouble.values()), "")
            if not self.failure:
                self._got_through_at = time.monotonic()
        except HeadwaterError as error:
            if self.failure != str(error):
                _log.warning("the publisher's round did not get through: %s", error)
            self.failure = str(error)

    def _look_for_realms(self) -> None:
        if time.monotonic() - self._looked_at < self._options.realm_check_seconds:
            return
        published_before = [generation.realm for generation in self._generations.list()]
        found, there, after = list[str](), set[str](), ""
        while page := self._realms.list(after=after, limit=PAGE_REALMS):
            after = page[-1].name
            there |= {realm.instance for realm in page}
            found += [realm.instance for realm in page if realm.status in PUBLISHED and self._is_wanted(realm.name)]
        self._instances = found
        for realm in [realm for realm in self._current if realm not in found]:
            self._leave(realm)
        for realm in published_before:
            if realm not in there:
                self._forget(realm)
        self._looked_at = time.monotonic()

    def _forget(self, realm: str) -> None:
        """Its rows in `::system::`; what is in Kafka stays until its retention ends."""
        self.leases.forget(f"{realm}/")
        self.alarms.forget(f"{realm}/")
        self._generations.forget(realm)

    def _is_wanted(self, name: str) -> bool:
        return not self._only or name in self._only

    def _check_topics(self) -> None:
        """Compare the topics with those of the generation in force, in one question for all realms."""
        unknown = [realm for realm in self._instances if realm not in self._current]
        if not unknown and time.monotonic() - self._checked_at < self._options.topic_check_seconds:
            return
        found = self._topics.find(self._instances)
        for realm in self._instances:
            self._try_to_settle(realm, found[realm])
        self._checked_at = time.monotonic()

    def _try_to_settle(self, realm: str, topics: RealmTopics | None) -> None:
        """One realm's trouble is not that of the others."""
        try:
            self._settle(realm, topics)
            if realm in self._alarmed:
                self.alarms.clear(realm, -1)
                self._alarmed.discard(realm)
        except PublisherStopped as error:
            self.alarms.sound(realm, -1, error)
            self._alarmed.add(realm)
        except HeadwaterError as error:
            self._trouble[realm] = str(error)
        else:
            self._trouble.pop(realm, None)

    def _settle(self, realm: str, topics: RealmTopics | None) -> None:
        stored = self._generations.read(realm)
        if topics is None:
            topics = self._topics.ensure(realm)
        if stored is None:
            self._topics.check(topics)
            stored = self._generations.first(realm, topics)
        if not stored.fits(topics):
            self._turn_over(stored, topics)
            stored = self._generations.read(realm)
        if stored is not None and stored.fits(topics):
            if self._current.get(realm) not in (None, stored):
                self._leave(realm)
            self._current[realm] = stored

    def _turn_over(self, before: Generation, topics: RealmTopics) -> None:
        """⚠ Own shards first: they hold leases of the old generation."""
        if self._keeper is None:
            return
        self._leave(before.realm)
        self._topics.check(topics)
        Turnover(self.leases, self._keeper, self._generations, self._reader, self._options, self._records).run(before, topics)

    # ── sharing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _share(self, keeper: LeaseKeeper) -> None:
        """Take what is free up to a fair share, give back what is above it."""
        keys = [(realm, shard) for realm, generation in self._current.items() for shard in range(generation.shards)]
        share = fair_share(len(keys), self.leases.members(), self.leases.holder)
        for key in list(self._shards)[share:]:
            self._shards[key].ask_to_stop()
        free = [key for key in keys if key not in self._shards]
        for realm, shard in sorted(free, key=lambda key: hash((self.leases.holder, key))):
            orphaned = len(self._shards) >= share
            if orphaned and self.leases.expired_for(shard_key(realm, shard)) < 2 * self._options.lease_seconds:
                continue
            self._take(keeper, realm, shard)

    def _take(self, keeper: LeaseKeeper, realm: str, number: int) -> None:
        lease = self.leases.acquire(shard_key(realm, number))
        if lease is None:
            return
        generation = self._current[realm]
        if self._generations.read(realm) != generation:  # who holds a lease holds the generation in force
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
        try:
            self.leases.release(shard.lease)
        except HeadwaterError as error:
            _log.warning("a lease was not given back and will run out: %s", error)

    def _leave(self, realm: str) -> None:
        self._current.pop(realm, None)
        mine = {key: shard for key, shard in self._shards.items() if key[0] == realm}
        for shard in mine.values():
            shard.ask_to_stop()
        for key, shard in mine.items():
            self._give_back(key, shard)
        if realm not in self._instances and (heads := self._heads.pop(realm, None)) is not None:
            heads.close()

    def _give_all_back(self) -> None:
        for realm in list(self._current):
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
            reader=self._reader,
            alarms=self.alarms,
            options=self._options,
            at=self._at,
        )

    def _poll_seconds(self) -> float:
        """The more realms, the rarer each is asked: the store has other work too."""
        return self._options.poll_seconds * max(1.0, len(self._heads) / REALMS_AT_FULL_PACE)

    def _records(self, generation: Generation) -> Records:
        return Records(
            generation.realm,
            generation.number,
            generation.topics,
            record_bytes_max=self._options.record_bytes_max,
            schema_id=self._schema_id(generation.topics.commits.name),
            dataref_base=self._options.dataref_base,
        )

    def _schema_id(self, topic: str) -> int | None:
        if self._registry is None:
            return None
        if topic not in self._schema_ids:
            self._schema_ids[topic] = self._registry.register(topic)
        return self._schema_ids[topic]

    # ── once ────────────────────────────────────────────────────────────────────────────────────────────────

    def _heads_now(self) -> dict[ShardKey, dict[str, int]]:
        wanted: dict[ShardKey, dict[str, int]] = {}
        for realm, generation in self._current.items():
            for shard in range(generation.shards):
                wanted[realm, shard] = {}
            for pointer, seq in _seqs(self._store, realm).items():
                wanted[realm, partition_of(pointer, generation.shards)][pointer] = seq
        return wanted

    def _is_done(self, key: ShardKey, seqs: dict[str, int]) -> bool:
        shard = self._shards.get(key)
        if shard is not None:
            return shard.is_caught_up(seqs)
        return not seqs or self._others_have_published(key, seqs)

    def _others_have_published(self, key: ShardKey, seqs: dict[str, int]) -> bool:
        """Another publisher has the shard, or had it and died: what counts is what Kafka has. Only to look: nothing that is
        published rests on this reading, which no fence precedes."""
        realm, number = key
        generation = self._current.get(realm)
        if generation is None or time.monotonic() - self._asked_others_at < OTHERS_SECONDS:
            return False
        self._asked_others_at = time.monotonic()
        try:
            found = self._reader.read(realm, generation.topics.progress.name, number, generation.number).positions
        except HeadwaterError as error:
            _log.info("%s shard %d is in the hands of another publisher: %s", realm, number, error)
            return False
        return all(pointer in found and found[pointer].seq >= seq for pointer, seq in seqs.items())

    def _raise_lasting_failure(self) -> None:
        """Whoever publishes once waits for an answer, not for the brokers to be repaired."""
        if self._got_through_at < time.monotonic() - 2 * self._options.kafka_timeout_seconds:
            raise KafkaUnavailable(self.failure, remedy="Look at the brokers, then try again.")

    def _raise_alarms(self) -> None:
        for status in self.status():
            if status.alarm is not None:
                raise PublisherStopped(f"{status.realm} shard {status.shard}: {status.alarm.message}", alarm=status.alarm.code)
        for alarm in self.alarms.list() if self._alarmed else ():
            if alarm.realm in self._alarmed:
                raise PublisherStopped(f"{alarm.realm}: {alarm.message}", alarm=alarm.code)


def _seqs(store: Store, realm: str) -> dict[str, int]:
    seqs: dict[str, int] = {}
    after = ""
    while names := store.backend.list_names(realm, after=after):
        after = names[-1]
        rows = store.backend.read_pointers(realm, names)
        seqs |= {name: row.seq for name, row in rows.items() if row.head}
    return seqs


def start_publisher(store: Store, options: PublisherOptions, *, realms: Sequence[str] = ()) -> Publisher:
    """A publisher in the background of this process; `close()` it before the store."""
    publisher = Publisher(store, options, realms=realms)
    publisher.start()
    return publisher
