"""Followers of Kafka when partitions are added and when realms are re-created: every Change in order, or a typed reset."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import headwater
from headwater.consumers.kafka import topic_watch
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.embedded import CatalogHandle, Headwater
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorReset
from headwater.schemas.topics import commits_topic
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.fixtures.publisher_runs import instance_of, log_of, new_lake, options, publish_rest, put

REALM = f"followed{secrets.token_hex(4)}"
BRANCHES = [f"b{number}" for number in range(8)]
WAIT_SECONDS = 120.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        yield opened


def commit(lake: CatalogHandle, number: int) -> None:
    for branch in BRANCHES:
        lake.branch(branch).commit([put(f"t{number}", number)])


def grow(bootstrap: str, engine: Headwater, partitions: int) -> None:
    topic = commits_topic(instance_of(engine, REALM))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def log(engine: Headwater) -> dict[str, list[Change]]:
    found = log_of(engine.store, instance_of(engine, REALM))
    return {pointer: changes for pointer, changes in found.items() if changes}


async def follow(source: KafkaSource, found: dict[str, list[Change]], count: int) -> None:
    async with KafkaReader(source) as reader:
        async for change in reader.changes():
            found.setdefault(change.pointer, []).append(change)
            await reader.acknowledge()
            if sum(map(len, found.values())) >= count:
                return


@pytest.mark.parametrize("group", [None, "grown"], ids=["alone", "in a group"])
def test_followers_read_on_in_order_when_partitions_are_added(
    engine: Headwater, kafka_bootstrap: str, group: str | None
) -> None:
    """No log is given: a pointer that moved to another partition must not look like a gap, nor begin where it is seen first."""
    lake = new_lake(engine, REALM)
    given = options(kafka_bootstrap, partitions=2)
    for branch in BRANCHES:
        lake.create_branch(branch)
    commit(lake, 1)
    publish_rest(engine.store, given)
    source = KafkaSource(bootstrap=kafka_bootstrap, realm=REALM, group=group)
    found: dict[str, list[Change]] = {}

    async def read() -> None:
        before = sum(map(len, log(engine).values()))
        reading = asyncio.create_task(follow(source, found, before + 2 * len(BRANCHES)))
        while sum(map(len, found.values())) < before:
            assert not reading.done()
            await asyncio.sleep(0.05)
        await asyncio.to_thread(move_on)
        await asyncio.wait_for(reading, WAIT_SECONDS)

    def move_on() -> None:
        commit(lake, 2)  # the old partitions still have these when the new ones begin
        publish_rest(engine.store, given)
        grow(kafka_bootstrap, engine, 8)
        commit(lake, 3)
        publish_rest(engine.store, given)

    asyncio.run(read())
    assert found == log(engine)
    again: dict[str, list[Change]] = {}
    from_start = KafkaSource(bootstrap=kafka_bootstrap, realm=REALM)
    asyncio.run(asyncio.wait_for(follow(from_start, again, sum(map(len, found.values()))), WAIT_SECONDS))
    assert again == found, "a reader that begins with both generations there"


@pytest.mark.parametrize("group", [None, "reset"], ids=["alone", "in a group"])
def test_followers_of_a_realm_that_was_recreated_are_reset(
    engine: Headwater, tmp_path: Path, kafka_bootstrap: str, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    monkeypatch.setattr(topic_watch, "LOOK_SECONDS", 0.5)
    name = f"{REALM}{group}"
    given = options(kafka_bootstrap, partitions=2)
    new_lake(engine, name)
    publish_rest(engine.store, given)
    old = instance_of(engine, name)
    begun = asyncio.Event()

    async def read() -> None:
        async with KafkaReader(KafkaSource(bootstrap=kafka_bootstrap, realm=name, group=group)) as reader:
            async for _ in reader.changes():
                begun.set()

    async def read_over_a_purge() -> None:
        reading = asyncio.create_task(read())
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        await asyncio.to_thread(make_again)
        await asyncio.wait_for(reading, WAIT_SECONDS)

    def make_again() -> None:
        engine.realms.deactivate(name)
        engine.realms.purge(name)
        for command in (("maintain", "purge-realms", name), ("realm", "delete", name, "--yes")):
            ran = run_cli("--store", url, "--set", f"kafka_bootstrap={kafka_bootstrap}", *command)
            assert ran.code == 0, ran.err
        new_lake(engine, name)
        publish_rest(engine.store, given)

    with pytest.raises(CursorReset, match=r"re-created|lost its topic"):
        asyncio.run(read_over_a_purge())
    assert instance_of(engine, name) != old
