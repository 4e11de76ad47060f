"""The broker is killed, stays away, hangs a transaction or gets its topics re-created; afterwards the topic equals the log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

import headwater
from headwater.embedded import Headwater
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.kafka.kafka_clients import make_admin
from headwater.producer.publisher.kafka.progress import ProgressReader
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.errors import HungTransaction, PublisherStopped
from headwater.schemas.kafka_records import RecordType
from headwater.schemas.topics import commits_topic, partition_of, progress_topic
from tests.support.fixtures.publisher_runs import (
    assert_topic_equals_log,
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
    write_history,
)
from tests.support.models.feed_validators import check_feed, check_generations, newest_generation
from tests.support.servers.servers import fresh_server

AWAY_SECONDS = 60.0 if os.environ.get("HEADWATER_SOAK") else 10.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        yield opened


def test_commits_continue_while_the_broker_is_away_and_are_published_when_it_is_back(engine: Headwater) -> None:
    """First a kill -9 and a restart at once, then one that is away for long."""
    lake = new_lake(engine)
    realm = instance_of(engine)
    with fresh_server("kafka") as broker:
        given = options(broker.url, kafka_timeout_seconds=8.0)
        with publishing(engine.store, given) as publisher:
            write_history(lake, 0, 1)
            wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published")
            write_history(lake, 1, 2)
            broker.kill9()
            write_history(lake, 2, 2)
            broker.restart()
            settle(engine, publisher, broker.url, realm)
            broker.kill9()
            write_history(lake, 3, 2)
            wait_until(lambda: sum(shard.lag_commits for shard in publisher.status()) > 0, "the lag is shown")
            time.sleep(AWAY_SECONDS)
            assert sum(shard.failures for shard in publisher.status()) > 0, "the fault did not fire"
            write_history(lake, 4, 1)
            broker.restart()
            settle(engine, publisher, broker.url, realm)
        found = newest_generation(read_topic(broker.url, commits_topic(realm)))
        assert check_feed(found, log_of(engine.store, realm), partitions=4) == []
        assert check_generations(found) == []


def settle(engine: Headwater, publisher: Publisher, bootstrap: str, realm: str) -> None:
    """All is published; if the broker forgot to end a transaction, then by the way out that the alarm names.

    A single broker that is killed between deciding to commit and writing its markers does not write them when it is back: the
    partition stays unreadable behind that transaction, and the publisher says so.
    """
    wait_until(
        lambda: is_caught_up(publisher, engine.store, realm) or bool(publisher.alarms.list()), "it continues, or says why"
    )
    if is_caught_up(publisher, engine.store, realm) and _is_readable(bootstrap, realm):
        return
    wait_until(lambda: bool(publisher.alarms.list()), "an alarm is raised")
    assert {alarm.code for alarm in publisher.alarms.list()} == {"HUNG_TRANSACTION"}
    before = _generation(engine, realm)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([commits_topic(realm), progress_topic(realm)]).values():
        future.result(20)
    wait_until(lambda: _generation(engine, realm) > before, "a new generation is opened")
    wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published again")


def test_a_hung_transaction_on_the_progress_partition_stops_the_shard_until_it_ends(
    engine: Headwater, kafka_bootstrap: str
) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    given = options(kafka_bootstrap, recovery_seconds=1.0)
    write_history(lake, 0, 1)
    publish_rest(engine.store, given)
    shard = partition_of(lake.branch().pointer, 4)
    foreign = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": f"hung-{realm}"})
    foreign.init_transactions(20)
    foreign.begin_transaction()
    foreign.produce(progress_topic(realm), b"{}", b"nobody", shard)
    foreign.flush(20)
    write_history(lake, 1, 1)
    with publishing(engine.store, given) as publisher:
        wait_until(lambda: [alarm.code for alarm in publisher.alarms.list()] == ["HUNG_TRANSACTION"], "an alarm is raised")
        assert len(read_topic(kafka_bootstrap, commits_topic(realm))) > 0
        assert not is_caught_up(publisher, engine.store, realm)
        foreign.abort_transaction(20)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "the shard continues")
        assert publisher.alarms.list() == []
    assert_topic_equals_log(engine.store, kafka_bootstrap, realm)


def test_a_topic_that_was_recreated_opens_a_generation_that_holds_all(engine: Headwater, kafka_bootstrap: str) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    given = options(kafka_bootstrap)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    with publishing(engine.store, given) as publisher:
        write_history(lake, 0, 1)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published")
        admin.delete_topics([commits_topic(realm)])[commits_topic(realm)].result(20)
        wait_until(lambda: _generation(engine, realm) == 2, "a new generation is opened")
        write_history(lake, 1, 1)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published again")
    found = newest_generation(read_topic(kafka_bootstrap, commits_topic(realm)))
    assert {one.record.generation for one in found} == {2}
    assert check_feed(found, log_of(engine.store, realm), partitions=4) == []
    assert check_generations(found) == []


def test_a_progress_topic_that_was_recreated_ends_every_old_partition(engine: Headwater, kafka_bootstrap: str) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    given = options(kafka_bootstrap)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    write_history(lake, 0, 1)
    publish_rest(engine.store, given)
    admin.delete_topics([progress_topic(realm)])[progress_topic(realm)].result(20)
    publish_rest(engine.store, given)
    found = read_topic(kafka_bootstrap, commits_topic(realm))
    assert sorted(one.partition for one in found if one.record.type == RecordType.END) == [0, 1, 2, 3]
    assert check_generations(found) == []
    assert check_feed(newest_generation(found), log_of(engine.store, realm), partitions=4) == []


def test_more_partitions_open_a_generation_that_continues_where_the_old_one_ended(
    engine: Headwater, kafka_bootstrap: str
) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    with publishing(engine.store, options(kafka_bootstrap)) as publisher:
        write_history(lake, 0, 1)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published")
        grown = [NewPartitions(commits_topic(realm), 6), NewPartitions(progress_topic(realm), 5)]
        for future in admin.create_partitions(grown).values():
            future.result(20)
        wait_until(lambda: _partitions(engine, realm) == (6, 5), "a new generation is opened")
        write_history(lake, 1, 1)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published")
    found = assert_topic_equals_log(engine.store, kafka_bootstrap, realm, partitions=None)
    ends = [one.partition for one in found if one.record.type == RecordType.END]
    assert sorted(ends)[:4] == [0, 1, 2, 3]
    newest = [one for one in newest_generation(found) if one.record.type == RecordType.CHANGE]
    assert newest and all(one.partition == partition_of(one.record.pointer, 6) for one in newest)


def test_a_store_that_was_restored_from_a_backup_stops_its_shards_until_an_operator_decides(
    tmp_path: Path, kafka_bootstrap: str
) -> None:
    original, backup = f"sqlite:///{tmp_path}/lake.db", tmp_path / "backup.db"
    given = options(kafka_bootstrap, shards=1)
    with headwater.open(original, create=True) as engine:
        lake = new_lake(engine)
        write_history(lake, 0, 1)
        publish_rest(engine.store, given)
        _copy(tmp_path / "lake.db", backup)
        lake.branch().commit([put("lost", 1)])
        lake.branch().commit([put("lost", 2)])
        publish_rest(engine.store, given)
    with headwater.open(f"sqlite:///{backup}") as engine:
        realm = instance_of(engine)
        before = read_topic(kafka_bootstrap, commits_topic(realm))
        with pytest.raises(PublisherStopped, match="Kafka has entry"):
            publish_rest(engine.store, given)
        new_lake(engine).branch().commit([put("other", 1)])
        new_lake(engine).branch().commit([put("other", 2)])
        new_lake(engine).branch().commit([put("other", 3)])
        with pytest.raises(PublisherStopped, match="was published as"):
            publish_rest(engine.store, given)
        assert read_topic(kafka_bootstrap, commits_topic(realm)) == before
        assert [alarm.code for alarm in Publisher(engine.store, given).alarms.list()] == ["LOG_DIVERGED"]
        Generations(engine.store.backend, engine.store.clock).restart(realm)
        publish_rest(engine.store, given)
        found = read_topic(kafka_bootstrap, commits_topic(realm))
        assert check_generations(found) == []
        assert check_feed(newest_generation(found), log_of(engine.store, realm), partitions=4) == []
        assert Publisher(engine.store, given).alarms.list() == []


def _copy(source: Path, target: Path) -> None:
    import sqlite3

    with sqlite3.connect(source) as live, sqlite3.connect(target) as copy:
        live.backup(copy)
    live.close()
    copy.close()


def _is_readable(bootstrap: str, realm: str) -> bool:
    given = options(bootstrap)
    reader = ProgressReader(make_admin(given), given)
    try:
        reader.check_readable(commits_topic(realm), range(4))
        reader.check_readable(progress_topic(realm), range(4))
    except HungTransaction:
        return False
    return True


def _generation(engine: Headwater, realm: str) -> int:
    found = Generations(engine.store.backend, engine.store.clock).read(realm)
    return 0 if found is None else found.number


def _partitions(engine: Headwater, realm: str) -> tuple[int, int]:
    found = Generations(engine.store.backend, engine.store.clock).read(realm)
    return (0, 0) if found is None else (found.topics.commits.partitions, found.shards)
