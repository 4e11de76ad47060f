"""A catalog is purged under the publisher: nothing stops, its end reaches the topic, and a lost pointer is not a purged one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.errors import PublisherStopped
from headwater.schemas.kafka_records import FeedRecord, RecordType
from headwater.schemas.topics import commits_topic
from headwater.streaming.purge.catalog_purge import CatalogPurge
from tests.support.fixtures.publisher_runs import (
    WAIT_SECONDS,
    instance_of,
    is_caught_up,
    new_lake,
    options,
    publish_rest,
    publishing,
    put,
    read_topic,
    wait_until,
)

DOOMED = "cat/1/heads/main"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        yield opened


def make_lakes(engine: Headwater) -> None:
    for name in ("lake", "kept"):
        engine.ensure_realm("default").ensure_catalog(name).branch().commit([put("t", 1)])


def drop(engine: Headwater) -> None:
    realm = engine.realm()
    Catalogs(realm.kernel).drop("lake", purge=True, meta=CommitMeta("ada", ""))


def purge(engine: Headwater) -> str:
    (purged,) = CatalogPurge(engine.realm().kernel).run()
    return purged.waiting


def commit(engine: Headwater) -> None:
    engine.realm().catalog("kept").branch().commit([put("t", 2)])


def doomed_records(engine: Headwater, bootstrap: str) -> list[FeedRecord]:
    return [one.record for one in read_topic(bootstrap, commits_topic(instance_of(engine))) if one.record.pointer == DOOMED]


def test_a_purge_waits_for_kafka_and_then_ends_the_pointer_in_the_topic(engine: Headwater, kafka_bootstrap: str) -> None:
    given = options(kafka_bootstrap, shards=1, pin_write_seconds=0.0)
    make_lakes(engine)
    publish_rest(engine.store, given)
    drop(engine)
    assert purge(engine) == f"publisher has read {DOOMED} up to entry 2 of 3"
    publish_rest(engine.store, given)
    assert purge(engine) == ""
    commit(engine)
    publish_rest(engine.store, given)
    publish_rest(engine.store, given)  # the end is published once
    found = doomed_records(engine, kafka_bootstrap)
    assert [(one.type, one.seq) for one in found] == [
        (RecordType.BASELINE, 0),
        *((RecordType.CHANGE, seq) for seq in (1, 2, 3)),
        (RecordType.PURGED, 3),
    ]
    assert (found[-1].from_seq, found[-1].entry_id) == (3, found[-2].id)


def test_a_running_publisher_passes_over_a_purge(
    engine: Headwater, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.producer.publisher.shards.heads.SWEEP_SECONDS", 0.2)
    make_lakes(engine)
    realm = instance_of(engine)
    with publishing(engine.store, options(kafka_bootstrap, shards=1, pin_write_seconds=0.0)) as publisher:
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "all is published")
        drop(engine)
        wait_until(lambda: purge(engine) == "", "the delete entry is published and the catalog purged")
        commit(engine)
        wait_until(lambda: is_caught_up(publisher, engine.store, realm), "the shard continues")
        wait_until(
            lambda: doomed_records(engine, kafka_bootstrap)[-1].type == RecordType.PURGED, "the end of the pointer is published"
        )
        assert [status.alarm for status in publisher.status()] == [None]


def test_entries_purged_before_they_were_published_are_reported(engine: Headwater, kafka_bootstrap: str) -> None:
    """Kafka was away until the pins were too old."""
    given = options(kafka_bootstrap, shards=1, pin_max_age_seconds=0.0)
    make_lakes(engine)
    publish_rest(engine.store, given)
    drop(engine)
    assert purge(engine) == ""
    publish_rest(engine.store, given)
    end = doomed_records(engine, kafka_bootstrap)[-1]
    assert (end.type, end.from_seq, end.seq) == (RecordType.PURGED, 2, 3)


def test_a_pointer_that_vanished_without_a_purge_stops_the_shard_although_its_last_entry_was_a_delete(
    engine: Headwater, kafka_bootstrap: str
) -> None:
    given = options(kafka_bootstrap, shards=1)
    lake = new_lake(engine)
    lake.create_branch("dev").delete()
    publish_rest(engine.store, given)
    backend, realm = engine.store.backend, instance_of(engine)
    row = backend.read_pointer(realm, "cat/1/heads/dev")
    assert row is not None and backend.delete_pointer(realm, "cat/1/heads/dev", row)
    with pytest.raises(PublisherStopped) as raised:
        Publisher(engine.store, given).publish_once(WAIT_SECONDS)
    assert raised.value.facts["alarm"] == "STORE_BEHIND_KAFKA"
