"""The topic of the newest state per pointer and table, on real Kafka: it equals the snapshots, over kills too."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import headwater
from headwater.consumers.views.store_lookup import StoreLookup
from headwater.consumers.views.table_topic import TableTopicWriter
from headwater.embedded import Headwater
from headwater.producer.publisher.assignment.generations import Generations
from headwater.schemas.change import KeyPath
from headwater.schemas.topics import commits_topic, tables_topic
from tests.support.fixtures.publisher_runs import instance_of, new_lake, options, publish_rest, put, wait_until, write_history

KEEPER = """
import sys
from headwater.consumers.views.store_lookup import StoreLookup
from headwater.consumers.views.table_topic import TableTopicWriter
from headwater.persistence.store import open_store
url, bootstrap, realm = sys.argv[1:]
with open_store(url) as store:
    TableTopicWriter(bootstrap, realm, StoreLookup(store.kernel(realm))).run()
"""

Tables = dict[tuple[str, KeyPath], str]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        yield opened


def keep(engine: Headwater, bootstrap: str) -> None:
    TableTopicWriter(bootstrap, instance_of(engine), StoreLookup(engine.realm().kernel)).run_once()


def compacted(bootstrap: str, realm: str) -> Tables:
    """What compaction leaves: the last value of every key, none for a tombstone."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "t",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    topic, found, at_end = tables_topic(realm), dict[bytes, bytes | None](), set[int]()
    try:
        partitions = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        deadline = time.monotonic() + 30
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline
            for message in consumer.consume(1_000, 0.2):
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF
                    at_end.add(message.partition())
                else:
                    found[message.key()] = message.value()
    finally:
        consumer.close()
    tables: Tables = {}
    for key, value in found.items():
        where = msgspec.json.decode(key)
        if len(where) == 2 and value is not None:
            tables[where[0], tuple(where[1])] = msgspec.json.decode(value)["value"]["metadata_location"]
    return tables


def snapshots(engine: Headwater) -> Tables:
    lake = new_lake(engine)
    references = [*lake.list_references(limit=1_000).references]
    return {
        (reference.pointer, entry.key): entry.value["metadata_location"]
        for reference in references
        for entry in lake.snapshot(reference.name)
    }


def test_the_tables_topic_equals_the_snapshots_and_dropped_tables_leave_tombstones(
    engine: Headwater, kafka_bootstrap: str
) -> None:
    given = options(kafka_bootstrap)
    lake = new_lake(engine)
    realm = instance_of(engine)
    write_history(lake, 0, 2)
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    assert compacted(kafka_bootstrap, realm) == snapshots(engine) != {}
    lake.branch().commit([headwater.Delete(("t0",))])
    lake.create_branch("kept")
    write_history(lake, 1, 1)
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    found = compacted(kafka_bootstrap, realm)
    assert (lake.branch().pointer, ("t0",)) not in found
    assert found == snapshots(engine)
    Generations(engine.store.backend, engine.store.clock).restart(realm)
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    assert compacted(kafka_bootstrap, realm) == snapshots(engine)


def test_a_keeper_that_is_killed_loses_no_state(engine: Headwater, tmp_path: Path, kafka_bootstrap: str) -> None:
    given = options(kafka_bootstrap)
    lake = new_lake(engine)
    realm = instance_of(engine)
    lake.branch().commit([put("t", 0)])
    publish_rest(engine.store, given)
    command = [sys.executable, "-c", KEEPER, f"sqlite:///{tmp_path}/lake.db", kafka_bootstrap, realm]
    keeper = subprocess.Popen(command)
    try:
        wait_until(lambda: _is_there(kafka_bootstrap, realm), "the keeper works")
        write_history(lake, 0, 2)
        publish_rest(engine.store, given)
    finally:
        keeper.kill()
        assert keeper.wait() == -9, "the fault did not fire"
    write_history(lake, 1, 1)
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    assert compacted(kafka_bootstrap, realm) == snapshots(engine)


def _is_there(bootstrap: str, realm: str) -> bool:
    try:
        return compacted(bootstrap, realm) != {}
    except KeyError:
        return False


def _forget_tables(bootstrap: str, realm: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([tables_topic(realm)])[tables_topic(realm)].result(30)
    wait_until(lambda: tables_topic(realm) not in admin.list_topics(timeout=20).topics, "the tables topic is gone")


def _cut_commits(bootstrap: str, realm: str) -> None:
    """As retention does, of all records."""
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), commits_topic(realm)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "cut"})
    try:
        partitions = list(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1] for number in partitions}
    finally:
        consumer.close()
    cuts = [TopicPartition(topic, number, end) for number, end in ends.items() if end > 0]
    assert cuts, "there was nothing to lose"
    for done in admin.delete_records(cuts).values():
        done.result(30)


def _add_partitions(bootstrap: str, realm: str) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), commits_topic(realm)
    more = len(admin.list_topics(topic, timeout=20).topics[topic].partitions) + 3
    admin.create_partitions([NewPartitions(topic, more)])[topic].result(30)


@pytest.mark.parametrize("spoil", [_forget_tables, _cut_commits, _add_partitions])
def test_a_keeper_continues_from_the_store_after_the_topics_lost_records(
    engine: Headwater, kafka_bootstrap: str, spoil: Callable[[str, str], None]
) -> None:
    """Also of pointers that have moved for the last time: no record of theirs is to come."""
    given, lake, realm = options(kafka_bootstrap), new_lake(engine), instance_of(engine)
    for name in ("idle", "last", "busy"):
        lake.create_branch(name).commit([put(f"of-{name}", 1)])
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    lake.branch("last").commit([put("for-the-last-time", 1), headwater.Delete(("of-last",))])
    publish_rest(engine.store, given)  # the keeper is away
    spoil(kafka_bootstrap, realm)
    lake.branch("busy").commit([put("more", 1)])
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    assert compacted(kafka_bootstrap, realm) == snapshots(engine)
    lake.branch("idle").commit([put("of-idle", 2)])
    publish_rest(engine.store, given)
    keep(engine, kafka_bootstrap)
    assert compacted(kafka_bootstrap, realm) == snapshots(engine)
