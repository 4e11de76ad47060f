"""Topics are re-created, cut, grown and published again under their readers; each gets every pointer's log, or is told why not.

Sequences are compared, pointer by pointer: what each reader was given, in the order in which it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

import headwater
from headwater.consumers.clients.local_transport import AsyncOf, LocalTransport
from headwater.consumers.clients.transport import AsyncLog
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.embedded import Headwater
from headwater.producer.publisher.assignment.generation_rollover import GenerationRollover
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.publisher import Publisher
from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorExpired, CursorReset, KafkaUnavailable
from headwater.schemas.topics import commits_topic, partition_of
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.publisher_runs import (
    WAIT_SECONDS,
    instance_of,
    is_caught_up,
    log_of,
    new_lake,
    options,
    publish_rest,
    publishing,
    put,
    read_topic,
    wait_until,
)
from tests.support.models.feed_validators import without_repeats

BRANCHES = ("main", "dev", "audit", "nightly")
LARGE_BYTES = 16_000
"""A hundred of them are more than a client fetches ahead."""
Log = dict[str, list[Change]]


class World:
    """A realm with several branches, its topic, and its readers."""

    def __init__(self, engine: Headwater, bootstrap: str, name: str) -> None:
        """`name` is the realm's, of which the broker has no topic: readers take the newest of a name."""
        self.engine = engine
        self.bootstrap = bootstrap
        self.name = name
        self.lake = new_lake(engine, name)
        self.realm = instance_of(engine, name)
        self.topic = commits_topic(self.realm)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._numbers = itertools.count()

    @property
    def log(self) -> Log:
        return log_of(self.engine.store, self.realm)

    @property
    def store_log(self) -> AsyncLog:
        return AsyncOf(LocalTransport(self.engine.realm(self.name).feed, ["root"]))

    def create_branches(self) -> None:
        for name in BRANCHES[1:]:
            self.lake.create_branch(name)

    def commit(self, rounds: int = 1, *, bytes: int = 0) -> None:
        """Of at least so many bytes each, which do not compress."""
        for _ in range(rounds):
            for name in BRANCHES:
                self.lake.branch(name).commit([put("t", next(self._numbers))], message=secrets.token_hex(bytes // 2))

    @contextlib.contextmanager
    def load(self) -> Iterator[threading.Event]:
        """Commits without a pause; the event is set with each round."""
        stop, round_done = threading.Event(), threading.Event()

        def write() -> None:
            while not stop.wait(0.01):
                self.commit()
                round_done.set()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield round_done
        finally:
            stop.set()
            writer.join()

    def generation(self) -> int:
        found = Generations(self.engine.store.backend, self.engine.store.clock).read(self.realm)
        return 0 if found is None else found.number

    def make_topic_again(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(20)

        def is_made() -> bool:
            try:
                self.admin.create_topics([NewTopic(self.topic, num_partitions=4, replication_factor=1)])[self.topic].result(20)
            except Exception as error:
                return "ALREADY_EXISTS" in str(error)
            return True

        wait_until(is_made, "the topic is re-created")

    def lose_records(self, keep: int = 0) -> None:
        """As retention does: of each partition only the last so many offsets stay."""
        looking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "look"})
        places = []
        for number in looking.list_topics(self.topic, timeout=20).topics[self.topic].partitions:
            low, high = looking.get_watermark_offsets(TopicPartition(self.topic, number), timeout=20)
            places.append(TopicPartition(self.topic, number, max(low, high - keep)))
        looking.close()
        for future in self.admin.delete_records(places).values():
            future.result(20)

    def source(self, group: str | None = None) -> KafkaSource:
        return KafkaSource(bootstrap=self.bootstrap, realm=self.name, group=group and f"{self.name}-{group}")

    def read(self, group: str | None = None, *, log: AsyncLog | None = None) -> Log:
        """To the end of now, acknowledged."""

        async def reading() -> Log:
            found: Log = {}
            async with KafkaReader(self.source(group), log=log) as reader:
                async for change in reader.changes(follow=False):
                    found.setdefault(change.pointer, []).append(change)
                await reader.acknowledge()
            return found

        return asyncio.run(reading())

    def read_accepting(self, group: str) -> tuple[set[str], Log]:
        """The pointers whose loss was accepted, and what came of them then."""

        async def reading() -> tuple[set[str], Log]:
            found: Log = {}
            accepted: set[str] = set()
            async with KafkaReader(self.source(group)) as reader:
                while True:
                    try:
                        async for change in reader.changes(follow=False):
                            found.setdefault(change.pointer, []).append(change)
                        await reader.acknowledge()
                        return accepted, found
                    except CursorReset as reset:
                        await reader.accept(reset)
                        accepted.add(str(reset.facts["pointer"]))
                        found.pop(str(reset.facts["pointer"]), None)

        return asyncio.run(reading())


class Follower:
    """A reader on a thread of its own that continues through whatever happens."""

    def __init__(self, world: World, group: str | None = None, log: AsyncLog | None = None) -> None:
        self._source = world.source(group)
        self._log = log
        self.found: Log = {}
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def has(self, log: Log) -> bool:
        assert self.failure is None, self.failure
        return all(self.found.get(pointer, [])[-1:] == changes[-1:] for pointer, changes in log.items())

    async def _run(self) -> None:
        reading = asyncio.create_task(self._read())
        while not self._stop.is_set() and not reading.done():
            await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async with KafkaReader(self._source, log=self._log) as reader:
                async for change in reader.changes():
                    self.found.setdefault(change.pointer, []).append(change)
                    with contextlib.suppress(KafkaUnavailable):  # the topic is away: the next one keeps the position too
                        await reader.acknowledge()
        except Exception as error:
            self.failure = error


def new_name() -> str:
    return f"generations-{secrets.token_hex(4)}"


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[World]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        made = World(engine, kafka_bootstrap, new_name())
        made.create_branches()
        made.commit(3)
        yield made


# ── a topic that is re-created ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(300)
def test_a_topic_recreated_under_load_is_read_across_the_change_by_followers_groups_and_new_readers(world: World) -> None:
    with publishing(world.engine.store, options(world.bootstrap)) as publisher:
        wait_until(lambda: is_caught_up(publisher, world.engine.store, world.realm), "all is published")
        with Follower(world) as follower, Follower(world, "across") as group:
            wait_until(lambda: follower.has(world.log) and group.has(world.log), "both readers are at the head")
            with world.load() as round_done:
                round_done.wait(WAIT_SECONDS)
                world.make_topic_again()
                wait_until(lambda: world.generation() == 2, "a new generation is opened")
                round_done.clear()
                round_done.wait(WAIT_SECONDS)
            wait_until(lambda: is_caught_up(publisher, world.engine.store, world.realm), "all is published again")
            log = world.log
            wait_until(lambda: follower.has(log) and group.has(log), "both readers are at the head again")
    assert follower.found == log
    assert {pointer: without_repeats(given, log[pointer]) for pointer, given in group.found.items()} == log
    assert world.read() == log
    assert world.read("new") == log
    assert world.read("new") == {}


def test_a_member_of_a_group_passes_over_nothing_though_the_brokers_forget_its_offsets_with_the_topic(world: World) -> None:
    """A new member begins where the new topic does. One that has acknowledged entries, and is dealt its partitions
    again, knows what it lacks."""
    given = options(world.bootstrap)
    publish_rest(world.engine.store, given)

    async def reading() -> None:
        async with KafkaReader(world.source("kept")) as reader:
            assert [change async for change in reader.changes(follow=False)]
            await reader.acknowledge()
            await asyncio.to_thread(cut_what_it_has_not_read)
            dealt_again = asyncio.Event()
            revoked = reader.on_partitions_revoked

            async def on_partitions_revoked(partitions: Iterable[Any]) -> None:
                await revoked(partitions)
                dealt_again.set()

            reader.on_partitions_revoked = on_partitions_revoked  # type: ignore[method-assign]
            other = AIOKafkaConsumer(world.topic, bootstrap_servers=world.bootstrap, group_id=world.source("kept").group)
            await other.start()
            await dealt_again.wait()
            await other.stop()
            with pytest.raises(CursorExpired, match="were cut before they were published again"):
                await read_all_of(reader)

    async def read_all_of(reader: KafkaReader) -> None:
        while True:  # until the partitions that the other one left are back
            async for _ in reader.changes(follow=False):
                pass

    def cut_what_it_has_not_read() -> None:
        world.commit(6)
        publish_rest(world.engine.store, given)
        with Runs(world.engine.store.backend, world.engine.store.clock).run("expire") as run:
            expire_realms(world.engine.store, run, [world.realm], parse_retention("*=1n"))
        world.make_topic_again()
        publish_rest(world.engine.store, given)

    asyncio.run(asyncio.wait_for(reading(), WAIT_SECONDS))


def test_a_reader_to_the_current_end_ends_although_its_topic_is_recreated(world: World) -> None:
    """And is shorter then: the end that was asked for never comes."""
    world.commit(40, bytes=LARGE_BYTES)  # more than the client fetches ahead
    publish_rest(world.engine.store, options(world.bootstrap, partitions=1))

    async def reading() -> int:
        async with KafkaReader(world.source()) as reader:
            changes = reader.changes(follow=False)
            await anext(changes)
            await asyncio.to_thread(world.make_topic_again)
            return 1 + len([change async for change in changes])

    assert asyncio.run(asyncio.wait_for(reading(), WAIT_SECONDS)) >= 1


def test_a_transaction_whose_topic_was_recreated_is_not_committed(world: World) -> None:
    """⚠ Its records lie in the new topic, where nothing of the old generation may be read."""
    given = options(world.bootstrap, shards=1)
    publish_rest(world.engine.store, given)
    made_again: list[int] = []

    def at(point: FaultPoint) -> None:
        if point is FaultPoint.AFTER_SEND and not made_again:
            made_again.append(world.generation())
            world.make_topic_again()

    world.commit()
    Publisher(world.engine.store, given, at=at).publish_once(WAIT_SECONDS)
    assert made_again == [1], "the fault did not fire"
    assert {one.record.generation for one in read_topic(world.bootstrap, world.topic)} == {2}
    assert world.read() == world.log


@pytest.mark.parametrize("moment", ["before its end is sent", "behind its end"])
def test_a_topic_recreated_while_its_generation_ends_is_published_again(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """⚠ The generation that was to continue in more partitions has lost what it continues from."""
    given = options(world.bootstrap)
    publish_rest(world.engine.store, given)
    world.admin.create_partitions([NewPartitions(world.topic, 6)])[world.topic].result(20)
    made_again: list[str] = []
    owner, name = (GenerationRollover, "_last_records") if moment == "before its end is sent" else (Generations, "open")
    real = getattr(owner, name)

    def make_again_first(*args: Any) -> Any:
        if not made_again:
            made_again.append(moment)
            world.make_topic_again()
        return real(*args)

    monkeypatch.setattr(owner, name, make_again_first)
    world.commit()
    publish_rest(world.engine.store, given)
    assert made_again == [moment], "the fault did not fire"
    assert world.read() == world.log, "without a log to repair gaps from"


# ── a history that is published again ────────────────────────────────────────────────────────────────────────


def test_after_a_restored_backup_readers_continue_where_history_is_the_same_and_are_reset_where_it_is_not(
    tmp_path: Path, kafka_bootstrap: str
) -> None:
    given, name = options(kafka_bootstrap), new_name()
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        world = World(engine, kafka_bootstrap, name)
        world.create_branches()
        world.commit(3)
        publish_rest(engine.store, given)
        common = world.read("same")
        assert common == world.log
    shutil.copy(tmp_path / "lake.db", tmp_path / "backup.db")
    with headwater.open(f"sqlite:///{tmp_path}/lake.db") as engine:
        world = World(engine, kafka_bootstrap, name)
        world.lake.create_branch("lost")
        world.commit(5)
        publish_rest(engine.store, given)
        assert world.read("ahead") == world.log
    with headwater.open(f"sqlite:///{tmp_path}/backup.db") as engine:
        world = World(engine, kafka_bootstrap, name)
        world.commit(2)
        Generations(engine.store.backend, engine.store.clock).restart(world.realm)
        publish_rest(engine.store, given)
        assert world.read() == world.log
        new = {pointer: changes[len(common.get(pointer, ())) :] for pointer, changes in world.log.items()}
        assert world.read("same") == {pointer: changes for pointer, changes in new.items() if changes}
        for _ in range(2):  # and each time, until somebody has looked
            with pytest.raises(CursorReset, match="history was replaced"):
                world.read("ahead")
        accepted, given_anew = world.read_accepting("ahead")
        assert accepted == {f"cat/1/heads/{name}" for name in (*BRANCHES, "lost")}
        assert given_anew == {pointer: world.log[pointer] for pointer in accepted if pointer in world.log}
        assert world.read("ahead") == {}, "what was accepted is kept with the offsets"


# ── what retention takes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keep", [0, 4])
def test_records_lost_to_retention_are_read_from_the_log_or_reported(world: World, keep: int) -> None:
    """`keep` 0: no record is left that could show a gap; only the published heads tell of what is missing."""
    given = options(world.bootstrap)
    publish_rest(world.engine.store, given)
    seen = world.read("away")
    world.lake.create_branch("later")
    world.commit(4)
    publish_rest(world.engine.store, given)
    world.lose_records(keep)
    for group in (None, "away"):
        with pytest.raises(CursorExpired, match="no log to read them from"):
            world.read(group)
    log = world.log
    assert world.read(log=world.store_log) == log
    missed = {pointer: changes[len(seen.get(pointer, ())) :] for pointer, changes in log.items()}
    assert world.read("away", log=world.store_log) == {pointer: changes for pointer, changes in missed.items() if changes}


def test_a_follower_that_retention_overtakes_gets_the_rest_from_the_log(world: World) -> None:
    """It is held up with its first Change while the topic loses more than it has fetched ahead."""
    given = options(world.bootstrap, partitions=1)
    publish_rest(world.engine.store, given)
    held, go_on = threading.Event(), threading.Event()
    found: Log = {}
    wanted: Log = {"": []}

    async def reading() -> None:
        async with KafkaReader(world.source(), log=world.store_log) as reader:
            async for change in reader.changes():
                found.setdefault(change.pointer, []).append(change)
                held.set()
                await asyncio.to_thread(go_on.wait)
                if all(found.get(pointer, [])[-1:] == changes[-1:] for pointer, changes in wanted.items()):
                    return

    reader = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(reading(), WAIT_SECONDS)))
    reader.start()
    try:
        assert held.wait(WAIT_SECONDS)
        for _ in range(3):
            world.commit(15, bytes=LARGE_BYTES)
            publish_rest(world.engine.store, given)
        world.lose_records()
        wanted = world.log
    finally:
        go_on.set()
        reader.join()
    assert found == wanted


# ── more partitions ─────────────────────────────────────────────────────────────────────────────────────────


def test_pointers_that_moved_to_new_partitions_are_read_in_order_without_a_log(world: World) -> None:
    given = options(world.bootstrap)
    publish_rest(world.engine.store, given)
    for partitions in (5, 7):
        world.admin.create_partitions([NewPartitions(world.topic, partitions)])[world.topic].result(20)
        wait_until(lambda count=partitions: _count(world) == count, "the brokers show them")  # type: ignore[misc]
        world.commit(3)
        publish_rest(world.engine.store, given)
    moved = [pointer for pointer in world.log if len({partition_of(pointer, count) for count in (4, 5, 7)}) > 1]
    assert moved, "no pointer moved"
    log = world.log
    assert world.read() == log
    found = world.read("group")
    assert {pointer: sorted(changes, key=lambda one: one.seq) for pointer, changes in found.items()} == log


def _count(world: World) -> int:
    looking = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "look"})
    try:
        return len(looking.list_topics(world.topic, timeout=20).topics[world.topic].partitions)
    finally:
        looking.close()
