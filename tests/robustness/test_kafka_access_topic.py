"""Access records in a topic of their own: two topics that together hold the log, under every change of the layout."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient

import headwater
from headwater.consumers.audit.kafka_history import KafkaHistory
from headwater.consumers.audit.verify import verify
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.producer.access.principals import Principals
from headwater.producer.access.writing import WriteMeta
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import RecordType
from headwater.schemas.topics import access_topic, commits_topic, is_access_pointer, progress_topic
from headwater.streaming.sources.kafka_changes import KafkaOptions, _kafka
from tests.support.fixtures.publisher_runs import instance_of, log_of, new_lake, options, publish_rest, put, read_topic
from tests.support.models.feed_validators import check_feed, check_generations

Log = dict[str, list[Change]]


class Lake:
    """A realm with tables and principals, its topics, and readers of them."""

    def __init__(self, url: str, bootstrap: str) -> None:
        self.url = url
        self.engine = headwater.open(url, create=True)
        self.bootstrap = bootstrap
        self.name = f"access-{secrets.token_hex(4)}"
        self.main = new_lake(self.engine, self.name).branch()
        self.realm = instance_of(self.engine, self.name)
        self._number = 0

    def write(self) -> None:
        self._number += 1
        self.main.commit([put("t", self._number)])
        Principals(self.engine.realm(self.name).kernel).create(
            f"p{self._number}", with_secret=False, meta=WriteMeta(author="ada")
        )

    def publish(self, **changed: object) -> None:
        publish_rest(self.engine.store, self.options(**changed))

    def options(self, **changed: object) -> PublisherOptions:
        return options(self.bootstrap, **changed)

    def restart(self, *, apart: bool) -> None:
        store = self.engine.store
        Generations(store.backend, store.clock).restart(self.realm, apart=apart)

    @property
    def generation(self) -> Generation:
        found = Generations(self.engine.store.backend, self.engine.store.clock).read(self.realm)
        assert found is not None
        return found

    @property
    def log(self) -> Log:
        return log_of(self.engine.store, self.realm)

    def read(self, group: str | None = None, *, access: bool = False) -> Log:
        source = KafkaSource(
            bootstrap=self.bootstrap, realm=self.name, access=access, group=group and f"{self.name}-{group}-{access}"
        )

        async def reading() -> Log:
            found: Log = {}
            async with KafkaReader(source) as reader:
                async for change in reader.changes(follow=False):
                    found.setdefault(change.pointer, []).append(change)
                await reader.acknowledge()
            return found

        return asyncio.run(reading())

    def of_tables(self) -> Log:
        return {pointer: changes for pointer, changes in self.log.items() if not is_access_pointer(pointer)}

    def of_access(self) -> Log:
        return {pointer: changes for pointer, changes in self.log.items() if is_access_pointer(pointer)}

    def types_of(self, topic: str, pointer: str) -> list[str]:
        return [one.record.type for one in read_topic(self.bootstrap, topic) if one.record.pointer == pointer]


@pytest.fixture
def lake(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Lake]:
    made = Lake(f"sqlite:///{tmp_path}/lake.db", kafka_bootstrap)
    made.write()
    yield made
    made.engine.close()


def test_access_records_are_in_a_separate_topic_and_nowhere_else(lake: Lake, tmp_path: Path) -> None:
    lake.publish(access_topic=True)
    lake.write()
    lake.publish()  # the layout is the realm's, whatever this publisher's own setting says
    assert "principals" in lake.of_access() and lake.main.pointer in lake.of_tables()
    for topic, log, partitions in (
        (commits_topic(lake.realm), lake.of_tables(), 4),
        (access_topic(lake.realm), lake.of_access(), 1),
    ):
        found = read_topic(lake.bootstrap, topic)
        assert check_feed(found, log, partitions=partitions) == []
        assert check_generations(found) == []
    assert lake.read() == lake.of_tables() and lake.read(access=True) == lake.of_access()
    history = KafkaHistory(KafkaSource(bootstrap=lake.bootstrap, realm=lake.name, access=True), tmp_path)
    asyncio.run(history.load())
    after_seq, anchor = history.start("principals")
    assert verify("principals", history.changes("principals"), after_seq=after_seq, anchor=anchor).is_whole
    given = KafkaOptions(bootstrap=lake.bootstrap, realm_instance=lake.realm, store=lake.url)
    assert _kafka(given)["subscribe"] == f"{commits_topic(lake.realm)},{access_topic(lake.realm)}"
    assert _kafka(msgspec.structs.replace(given, store=""))["subscribe"] == commits_topic(lake.realm)


def test_groups_continue_when_access_records_move_to_a_separate_topic_and_back(lake: Lake) -> None:
    lake.publish()
    assert lake.read("all") == lake.log
    seen = {pointer: len(changes) for pointer, changes in lake.log.items()}
    lake.restart(apart=True)
    lake.write()
    lake.publish()
    assert lake.generation.apart and lake.generation.topics.access is not None
    # The group that read all continues with the tables, without what it has seen; a new one of the other topic gets all.
    assert lake.read("all") == {lake.main.pointer: lake.log[lake.main.pointer][seen[lake.main.pointer] :]}
    assert lake.read("auditor", access=True) == lake.of_access()
    assert lake.types_of(commits_topic(lake.realm), "principals")[-1] == RecordType.MOVED
    lake.write()
    lake.publish()
    assert list(lake.read("auditor", access=True)) == ["principals"]
    lake.restart(apart=False)
    seen = {pointer: len(changes) for pointer, changes in lake.of_tables().items()}
    assert list(lake.read("all")) == [lake.main.pointer], "the tables alone"
    lake.write()
    lake.publish()
    assert lake.generation.topics.access is None
    # The group that read all gets the access records that came back from their first entry on.
    returned = {pointer: changes[seen.get(pointer, 0) :] for pointer, changes in lake.log.items()}
    assert lake.read("all") == {pointer: changes for pointer, changes in returned.items() if changes}
    assert lake.types_of(access_topic(lake.realm), "principals")[-1] == RecordType.MOVED
    assert lake.read("auditor", access=True) == {}
    assert lake.read() == lake.log


@pytest.mark.parametrize("name", [access_topic, progress_topic])
def test_a_topic_that_was_deleted_begins_a_new_generation_in_all_of_them(lake: Lake, name: Callable[[str], str]) -> None:
    lake.publish(access_topic=True)
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    admin.delete_topics([name(lake.realm)])[name(lake.realm)].result(20)
    lake.write()
    lake.publish()
    assert lake.generation.number == 2 == lake.generation.begins
    assert lake.read() == lake.of_tables() and lake.read(access=True) == lake.of_access()
