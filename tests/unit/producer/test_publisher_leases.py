"""Leases, shares and generations of the publisher, on a clock that the test moves."""

from __future__ import annotations

import itertools
import secrets
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.backends.memory import open_memory
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.fair_share import fair_share
from headwater.producer.publisher.assignment.generation_rollover import GenerationRollover, shard_key
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.assignment.shard_leases import LEASE_TYPE, LeaseRenewer, Leases
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.producer.publisher.shards.shard_pins import ShardPins, publisher_pins
from headwater.producer.publisher.shards.shard_states import MOVES, ShardState, check_move
from headwater.schemas.errors import LogDiverged, NotFound, StoreUnavailable
from headwater.schemas.topics import partition_of
from tests.support.faults.manual_clock import ManualClock


class World:
    """One store, two publishers, and the time."""

    def __init__(self) -> None:
        self.backend = open_memory(f"memory://{secrets.token_hex(6)}")
        self.backend.create_schema()
        self.clock = ManualClock()
        self.one, self.two = self._leases(), self._leases()

    def _leases(self) -> Leases:
        return Leases(self.backend, self.clock, 10.0, monotonic=lambda: self.clock.now_micros() / 1_000_000)

    def pass_seconds(self, seconds: float) -> None:
        self.clock.sleep(seconds)


def test_a_lease_has_one_holder_until_it_runs_out() -> None:
    world = World()
    lease = world.one.acquire("r/0")
    assert lease is not None and world.one.is_safe(lease)
    assert world.two.acquire("r/0") is None
    world.pass_seconds(10.1)
    assert not world.one.is_safe(lease)
    taken = world.two.acquire("r/0")
    assert taken is not None
    assert not world.one.renew(lease) and lease.lost


def test_a_lease_is_not_used_near_its_end() -> None:
    world = World()
    lease = world.one.acquire("r/0")
    assert lease is not None
    world.pass_seconds(8.5)
    assert not world.one.is_safe(lease)
    assert world.one.renew(lease) and world.one.is_safe(lease)


def test_a_released_lease_is_free_at_once() -> None:
    world = World()
    lease = world.one.acquire("r/0")
    assert lease is not None
    world.one.release(lease)
    assert lease.lost and world.two.acquire("r/0") is not None


def test_a_renewal_whose_answer_was_lost_is_still_ours() -> None:
    world = World()
    lease = world.one.acquire("r/0")
    assert lease is not None
    there = world.backend.read_mutable(SYSTEM_REALM, LEASE_TYPE, "r/0")
    assert there is not None
    landed = msgspec.structs.replace(there, version=there.version + 1)
    assert world.backend.update_mutable(SYSTEM_REALM, there, landed)
    assert world.one.renew(lease) and not lease.lost


def test_a_lease_that_cannot_be_returned_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚠ One that were renewed on and on without a shard would never be published again, by nobody."""
    world = World()
    topics = RealmTopics(commits=Topic(name="c", id="1", partitions=3), progress=Topic(name="p", id="2", partitions=3))
    generation = Generation(realm="r", number=1, topics=topics)
    assert world.two.acquire(shard_key("r", 2)) is not None, "so that the rollover gives up"
    keeper, refused = LeaseRenewer(world.one), list[str]()

    def update(realm: str, expected: MutableRow, row: MutableRow) -> bool:
        if row.expires_at <= world.clock.now_micros() and not refused:
            refused.append(row.key)
            raise StoreUnavailable("not now")
        return updated(realm, expected, row)

    updated = world.backend.update_mutable
    monkeypatch.setattr(world.backend, "update_mutable", update)
    unused: Any = None
    rollover = GenerationRollover(world.backend, world.one, keeper, unused, unused, unused, unused, unused)
    assert not rollover.run(generation, topics)
    assert refused == [shard_key("r", 0)], "the fault did not fire"
    assert world.two.acquire(shard_key("r", 1)) is not None
    keeper.close()


def test_members_are_those_that_gave_a_sign_of_life() -> None:
    world = World()
    world.one.announce()
    world.pass_seconds(6)
    world.two.announce()
    assert world.one.members() == sorted([world.one.holder, world.two.holder])
    world.pass_seconds(6)
    assert world.two.members() == [world.two.holder]
    world.two.leave()
    assert world.one.members() == []


@given(
    shards=st.integers(0, 200), members=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9, unique=True)
)
def test_fair_shares_cover_all_shards_evenly(shards: int, members: list[str]) -> None:
    shares = [fair_share(shards, members, member) for member in members]
    assert sum(shares) == shards and max(shares) - min(shares) <= 1


def test_nothing_is_sent_before_the_shard_was_fenced_and_recovered() -> None:
    into = {after: {before for before in MOVES if after in MOVES[before]} for after in ShardState}
    assert into[ShardState.RECOVERED] == {ShardState.FENCED}
    assert into[ShardState.FENCED] == {ShardState.LEASED}
    assert into[ShardState.SENDING] == {ShardState.RECOVERED, ShardState.IDLE, ShardState.SENDING}
    for before, after in itertools.product(ShardState, ShardState):
        if after in MOVES[before]:
            assert check_move(before, after) is after
        else:
            with pytest.raises(RuntimeError):
                check_move(before, after)


def _topics(commits_id: str = "c1", partitions: int = 4) -> RealmTopics:
    return RealmTopics(
        commits=Topic(name="commits", id=commits_id, partitions=partitions),
        progress=Topic(name="progress", id="p1", partitions=4),
    )


def test_a_generation_fits_its_topics_and_nothing_else() -> None:
    world = World()
    generations = Generations(world.backend, world.clock)
    first = generations.first("r", _topics())
    assert generations.first("r", _topics("other")) == first
    assert first.fits(_topics()) and first.carries_over(_topics(partitions=6))
    assert not first.fits(_topics(partitions=6)) and not first.fits(_topics("c2"))
    assert not first.carries_over(_topics("c2"))


@given(partitions=st.integers(1, 12), shards=st.integers(1, 12), pointer=st.text(min_size=1, max_size=20))
def test_a_shard_knows_every_partition_that_its_pointers_go_to(partitions: int, shards: int, pointer: str) -> None:
    topics = RealmTopics(
        commits=Topic(name="c", id="c", partitions=partitions), progress=Topic(name="p", id="p", partitions=shards)
    )
    generation = Generation(realm="r", number=1, topics=topics)
    assert partition_of(pointer, partitions) in generation.partitions_of(partition_of(pointer, shards), topics.commits)


def test_if_two_publishers_open_the_next_generation_one_wins() -> None:
    world = World()
    generations = Generations(world.backend, world.clock)
    first = generations.first("r", _topics())
    after = msgspec.structs.replace(first, number=2, topics=_topics("c2"))
    assert generations.open(first, after)
    assert not generations.open(first, after)
    assert generations.read("r") == after


def test_an_operator_asks_for_a_new_generation_of_what_is_published() -> None:
    world = World()
    generations = Generations(world.backend, world.clock)
    with pytest.raises(NotFound):
        generations.restart("r")
    generations.first("r", _topics())
    generations.restart("r")
    found = generations.read("r")
    assert found is not None and not found.fits(_topics()) and not found.carries_over(_topics())


def test_alarms_stay_until_they_are_cleared() -> None:
    world = World()
    alarms = Alarms(world.backend, world.clock)
    alarms.sound("r", 3, LogDiverged("one", seq=7))
    alarms.sound("r", 3, LogDiverged("two", seq=8))
    assert [(alarm.shard, alarm.message, alarm.facts) for alarm in alarms.list()] == [(3, "two", {"seq": "8"})]
    alarms.clear("r", 3)
    alarms.clear("r", 3)
    assert alarms.list() == []


def test_pins_of_many_pointers_span_rows_and_only_the_newest_generation_counts() -> None:
    world = World()
    seqs = {f"cat/{n}/heads/main": n for n in range(1, 501)}
    ShardPins(world.backend, world.clock, "r#1", 0, 1, 60.0).write({**seqs, "old": 9})
    ShardPins(world.backend, world.clock, "r#1", 0, 2, 60.0).write(seqs)
    assert publisher_pins(world.backend, "r#1", world.clock.now_micros()) == seqs
    world.pass_seconds(61)
    assert publisher_pins(world.backend, "r#1", world.clock.now_micros()) == {}


def test_a_holder_of_an_ended_generation_does_not_write_over_pins_of_the_new_one() -> None:
    world = World()
    asleep = ShardPins(world.backend, world.clock, "r#1", 0, 1, 60.0)
    asleep.write({"main": 90})
    ShardPins(world.backend, world.clock, "r#1", 0, 2, 60.0).write({"main": 3})
    asleep.write({"main": 95})
    assert publisher_pins(world.backend, "r#1", world.clock.now_micros()) == {"main": 3}
